"""A small Decision Transformer, and what it does."""

import pmoss_env  # noqa: F401 (registers the environments)
from tests.agents.spatial import playing

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


SMALL = {
    "layers": 2,
    "heads": 2,
    "width": 16,
    "channels": 8,
    "batch_size": 8,
    "updates": 6,
    "warmup": 2,
    "learning_rate": 3e-3,
}


def play(agent, kwargs=TOY, seed=0):
    return playing.play(agent, kwargs, seed)


def weights(agent):
    return {name: value.numpy().copy() for name, value in agent.network.state_dict().items()}

"""Agents at work in pmoss/AccessPath-v0: calibrated on little or much, refined while they act."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium
import numpy as np

import pmoss_agents
from pmoss_agents.access_path.base import AccessPathAgent
from pmoss_datasets.access_path.scans import AccessPathDataset
from pmoss_env.envs.access_path import AccessPathEnv

#: Combinations of the small calibration at start-up (section 5.3).
SMALL = 40

#: Agent, config, and what it is fitted to first: nothing, a small calibration, all training data.
ENTRIES: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("always CPU", "always-cpu", {}, "-"),
    ("always offload", "always-offload", {}, "-"),
    ("linear pair, frozen", "linear-cost", {"refine": False}, "small"),
    ("linear pair, refined", "linear-cost", {}, "small"),
    ("linear pair", "linear-cost", {"refine": False}, "all"),
    (
        "products, frozen",
        "linear-cost",
        {"features": "products", "weighted": True, "refine": False},
        "small",
    ),
    ("products, refined", "linear-cost", {"features": "products", "weighted": True}, "small"),
    (
        "products",
        "linear-cost",
        {"features": "products", "weighted": True, "refine": False},
        "all",
    ),
    ("decision tree", "decision-tree", {"cost_sensitive": True}, "all"),
    ("LinUCB", "linucb", {}, "-"),
    ("LinUCB, warm", "linucb", {}, "all"),
    ("oracle", "oracle", {}, "-"),
)


@dataclass(frozen=True)
class Played:
    """An agent's episodes.

    Attributes:
        agent: its name.
        fitted_to: nothing, a small calibration, or all training data.
        above_oracle: time of all scans over the oracle's, minus 1.
        above_oracle_late: the same over the second half of the scans, when it has learned.
        scans: how many there were.
    """

    agent: str
    fitted_to: str
    above_oracle: float
    above_oracle_late: float
    scans: int

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)


def play(
    dataset: AccessPathDataset,
    progress: Callable[[int, int], None] = lambda done, total: None,
    episodes: int = 12,
    scans: int = 64,
    entries: Sequence[tuple[str, str, dict[str, Any], str]] = ENTRIES,
) -> list[Played]:
    """Lets agents play the same episodes, one after the other, learning across them.

    Args:
        dataset: the calibration data; agents see its training part.
        progress: called with (episodes played, all of them).
        episodes: per agent; their seeds are in no dataset.
        scans: per episode.
        entries: which agents, as in ENTRIES.
    """
    train_on, _ = dataset.split()
    fitted_to = {"all": train_on, "small": train_on[:: max(1, len(train_on) // SMALL)][:SMALL]}
    agents = []
    for _, name, config, data in entries:
        agent = pmoss_agents.make(name, **config)
        assert isinstance(agent, AccessPathAgent)
        if data in fitted_to:
            agent.learn(*dataset.pairs(fitted_to[data]))
        agents.append(agent)
    # A run time does not depend on the paths of other scans: all agents share one look at each.
    took = np.zeros((len(agents), episodes, scans))
    best = np.zeros((episodes, scans))
    env = gymnasium.make("pmoss/AccessPath-v0", scans=scans)
    bare = env.unwrapped
    assert isinstance(bare, AccessPathEnv)
    for agent in agents:
        agent.check_env(env)
    for episode in range(episodes):
        observation, info = env.reset(seed=10_000 + episode)
        for agent in agents:
            agent.reset()
        for scan in range(scans):
            times = bare.path_times_us()
            best[episode, scan] = times.min()
            for number, agent in enumerate(agents):
                path = agent.act(observation, info["action_mask"])
                took[number, episode, scan] = times[path]
                agent.observe(-1e-3 * times[path])
            observation, _, _, _, info = env.step(int(times.argmin()))
        progress(episode + 1, episodes)
    env.close()
    late = slice(episodes // 2, None)
    return [
        Played(
            label,
            {"small": f"{SMALL} combinations", "all": "all"}.get(data, "nothing"),
            float(took[n].sum() / best.sum() - 1),
            float(took[n, late].sum() / best[late].sum() - 1),
            episodes * scans,
        )
        for n, (label, _, _, data) in enumerate(entries)
    ]

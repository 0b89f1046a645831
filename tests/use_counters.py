"""Uses a copy of the repository whose table has one counter more; a program, run by a test.

Usage: use_counters.py DATASET CHECKPOINT... (all of them from before the counter was added)
"""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

import pmoss_agents
from pmoss_datasets import open_dataset, write_dataset
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.spatial.expansion import Expander
from pmoss_env import _native, counter_table
from pmoss_env.backends import make_backend
from pmoss_env.host_report import host_report
from pmoss_env.noise import Noise
from pmoss_env.types import COUNTER_NAMES, COUNTERS

ENV = {"machine": "toy", "slices": 8, "interference": "busy_core"}


def use_snapshots() -> None:
    """Models do not know the counter: it is not available, and the rest is as before."""
    for name in counter_table.MODELS:
        backend = make_backend(name, machine="toy", workload="ycsb-a", slices=8)
        workers = np.resize(backend.machine.workers, 8)
        snapshot = backend.measure(backend.machine.local_schedule(workers), seed=0)
        assert snapshot.slice_counters.shape == (8, len(COUNTERS))
        assert snapshot.counters_available[:-1].any()
        assert not snapshot.counters_available[-1]
        assert not snapshot.slice_counters[:, -1].any()
        noisy = Noise(1.0, (3,)).snapshot(snapshot)
        assert noisy.slice_counters.shape == snapshot.slice_counters.shape
        assert not snapshot.limited_to("software").counters_available[-1]


def use_this_host() -> None:
    """The runtime counts what this host can, whichever table its module was built with."""
    host = {"machine": "host", "workload": "ycsb-a", "slices": 8, "records": 20_000}
    short = {"seconds": 0.1, "warmup_seconds": 0.02, "own_process": False}
    backend = make_backend("hardware", **host, **short)
    workers = np.resize(backend.machine.workers, 8)
    snapshot = backend.measure(backend.machine.local_schedule(workers), seed=0)
    assert snapshot.slice_counters.shape == (8, len(COUNTERS))
    assert snapshot.counters_available[0]
    backend.close()


def use_environment() -> None:
    """The environment shows one column more, and passes Gymnasium's checks."""
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **ENV)
    check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    assert observation["machine_view"].shape[-1] == len(COUNTERS)
    envs = gymnasium.make_vec("pmoss/SpatialScheduling-v0", num_envs=2, **ENV)
    observations, info = envs.reset(seed=0)
    assert observations["machine_view"].shape[-1] == len(COUNTERS)
    envs.step(info["action_mask"].argmax(axis=1))


def use_dataset(path: Path) -> None:
    """A dataset from before opens, verifies, expands to today's space and is written again."""
    old = open_dataset(path)
    old.verify()
    assert old.stored.counter_names == COUNTER_NAMES[:-1]
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **old.metadata.env_kwargs).unwrapped
    expander = Expander(old)
    assert expander.space == env.observation_space
    for episode in old:
        observations = expander.observations(episode)
        shown, _ = env.reset(seed=episode.seed)
        for key, value in shown.items():
            assert np.array_equal(observations[key][0], value), key
        assert not episode.incumbent_running_ratio[-1]
    again = write_dataset(Path("again"), list(old), old.metadata)  # in the copy
    assert again.stored.counter_names == COUNTER_NAMES


def actions_of(checkpoints: list[Path]) -> dict[str, list[list[int]]]:
    """What agents do in the episodes of three seeds, by the name of their file."""
    agents = {path.stem: pmoss_agents.load(path) for path in checkpoints}
    rows = evaluate(ENV, agents, [7], 3, 5, 2).rows
    return {name: [list(row.actions) for row in rows if row.policy == name] for name in agents}


def main(dataset: Path, checkpoints: list[Path]) -> None:
    """Uses everything; prints what the agents did and whether the native module knows all."""
    use_snapshots()
    use_this_host()
    use_environment()
    use_dataset(dataset)
    is_current = _native.COUNTERS == COUNTER_NAMES
    [event] = [event for event in host_report().events if event.name == COUNTERS[-1].event]
    assert is_current or "build it again" in event.reason
    print(json.dumps({"actions": actions_of(checkpoints), "known": is_current}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])

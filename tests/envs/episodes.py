"""Small environments of every kind, their episodes, and what two of them return."""

from typing import Any, NamedTuple

import numpy as np

from pmoss_env.envs.continual import FAMILIES

SPATIAL, CONTINUAL = "pmoss/SpatialScheduling-v0", "pmoss/ContinualScheduling-v1"
PATHS, THREADS = "pmoss/AccessPath-v0", "pmoss/ThreadScheduling-v0"
TOY = {"machine": "toy", "slices": 8}
#: Arguments of a small environment of each kind.
SMALL: dict[str, dict[str, Any]] = {
    SPATIAL: TOY,
    CONTINUAL: {**TOY, "epochs": 6, "moves_per_epoch": 2},
    PATHS: {"scans": 8, "distribution": {"doublings": 4}},
    THREADS: {"requests": 1_000_000},
}
#: Every family of drifts in a noisy environment whose machine deviates.
DRIFTING = [
    {"drift": drift, "load": load, "noise": 1.0, "deviation": 0.2}
    for drift, family in FAMILIES.items()
    for load in ["open:20" if family.needs_open_load else "closed"]
]


class Step(NamedTuple):
    """What step() returned, or what reset() did with a reward of 0."""

    observation: dict[str, Any]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def legal(env, rng):
    """A random legal action."""
    parts = np.split(env.unwrapped.action_masks(), getattr(env.action_space, "nvec", [0])[:1])
    action = [rng.choice(np.flatnonzero(part)) for part in parts if part.size]
    return action if len(action) > 1 else action[0]


def play(env, seed=0, actions=None, options=None):
    """The steps of an episode of random legal actions, unless actions are given."""
    env, rng = env.unwrapped, np.random.default_rng(seed)
    observation, info = env.reset(seed=seed, options=options)
    steps = [Step(observation, 0.0, False, False, info)]
    while not (steps[-1].terminated or steps[-1].truncated):
        action = legal(env, rng) if actions is None else actions[len(steps) - 1]
        steps.append(Step(*env.step(action)))
        assert env.observation_space.contains(steps[-1].observation)
        assert np.array_equal(steps[-1].info["action_mask"], env.action_masks())
    return steps


def total(steps):
    return sum(step.reward for step in steps)


def bits(steps):
    """Everything that an episode returned, as bytes."""
    out = b""
    for observation, reward, terminated, truncated, info in steps:
        for values in (observation, info):
            for key in sorted(values):
                out += key.encode() + np.asarray(values[key]).tobytes()
        out += np.float64(reward).tobytes() + bytes([terminated, truncated])
    return out


def alike(left, right):
    """Asserts the same structure with the same bits."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert set(left) == set(right)
        for key in left:
            alike(left[key], right[key])
    elif isinstance(left, list | tuple) or (isinstance(left, np.ndarray) and left.dtype == object):
        for a, b in zip(left, right, strict=True):
            alike(a, b)
    elif left is not None:
        a, b = np.asarray(left), np.asarray(right)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())

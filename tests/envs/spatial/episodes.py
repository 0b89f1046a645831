"""Episodes of a single environment: played, summed and as bytes."""

from __future__ import annotations

import numpy as np

TOY = {"machine": "toy", "slices": 8}


def play(env, seed=0, actions=None, options=None):
    """Plays an episode with seeded legal actions; returns what reset and step gave."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed, options=options)
    trace = [(observation, 0.0, False, info)]
    while not trace[-1][2]:
        legal = np.flatnonzero(trace[-1][3]["action_mask"])
        action = rng.choice(legal) if actions is None else actions[len(trace) - 1]
        observation, reward, terminated, truncated, info = env.step(action)
        assert truncated is False
        trace.append((observation, reward, terminated, info))
    return trace


def total(trace):
    return sum(reward for _, reward, _, _ in trace)


def bits(trace):
    """Everything an episode gave, as bytes."""
    out = b""
    for observation, reward, terminated, info in trace:
        for values in (observation, info):
            for key in sorted(values):
                out += key.encode() + np.asarray(values[key]).tobytes()
        out += np.float64(reward).tobytes() + bytes([terminated])
    return out

"""Batches that are held against single environments."""

from __future__ import annotations

import numpy as np

TOY = {"machine": "toy", "workload": "ycsb-a", "slices": 8}


def same(rows, expected, i):
    """Row i of a batch has the bits of a single environment's values."""
    assert set(rows) == set(expected)
    for key, value in expected.items():
        row, value = np.asarray(rows[key][i]), np.asarray(value)
        assert row.dtype == value.dtype, key
        assert row.shape == value.shape, key
        assert row.tobytes() == value.tobytes(), key


def plain(infos):
    """The values of a batch's infos; each must come with its mask, all True."""
    keys = [key for key in infos if not key.startswith("_")]
    assert set(infos) == {*keys, *(f"_{key}" for key in keys)}
    assert all(infos[f"_{key}"].dtype == np.bool_ and infos[f"_{key}"].all() for key in keys)
    return {key: infos[key] for key in keys}


def follow(envs, singles, seeds, draw, steps):
    """Plays a batch and single environments side by side; returns how many episodes ended."""
    observations, infos = envs.reset(seed=seeds)
    if isinstance(seeds, int):
        seeds = [seeds + i for i in range(len(singles))]
    for i, (env, seed) in enumerate(zip(singles, seeds, strict=True)):
        observation, info = env.reset(seed=seed)
        same(observations, observation, i)
        same(plain(infos), info, i)
    over = [False] * len(singles)
    ended = 0
    for t in range(steps):
        actions = draw(t, infos["action_mask"])
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert observations in envs.observation_space
        assert rewards.dtype == np.float64
        assert (terminated.dtype, truncated.dtype) == (np.bool_, np.bool_)
        assert not truncated.any()
        assert np.array_equal(envs.action_masks(), infos["action_mask"].astype(bool))
        for i, env in enumerate(singles):
            if over[i]:
                observation, info = env.reset()
                reward, over[i] = 0.0, False
            else:
                observation, reward, over[i], _, info = env.step(actions[i])
            same(observations, observation, i)
            same(plain(infos), info, i)
            assert (rewards[i], terminated[i]) == (reward, over[i])
            ended += over[i]
    return ended

"""The registered ids, as Gymnasium and its checkers see them."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from pmoss_env.registration import environments, register_environments
from pmoss_env.workloads import load_workload, workload_names
from tests.envs.spatial.episodes import TOY, bits, play

IDS = sorted(environments())


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_accepts_every_id(name):
    env = gymnasium.make(name)
    assert env.spec.max_episode_steps is None
    restored = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert restored.kwargs == environments()[name]
    env.close()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["pmoss/toy-v0", "pmoss/SpatialScheduling-v0"])
@pytest.mark.parametrize("observation", ["full", "complete"])
def test_gymnasiums_checker_is_content(name, observation):
    env = gymnasium.make(name, observation=observation)
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", ["pmoss/toy-v0", "pmoss/milan-nps4-btree-scans-v0"])
@pytest.mark.parametrize("observation", ["full", "complete"])
def test_stable_baselines3_checker_is_content(name, observation):
    env = gymnasium.make(name, observation=observation)
    check_env_for_sb3(env.unwrapped, warn=False)


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_environments()
    assert dict(gymnasium.registry) == before


def test_the_suite_has_both_machines_and_every_workload():
    suite = {name for name in IDS if "-btree-" in name or "-rtree-" in name}
    assert "pmoss/skylake-x-8n-btree-ycsb-a-v0" in suite
    assert "pmoss/skylake-x-8n-rtree-ranges-v0" in suite
    assert len(suite) == 2 * len(workload_names())
    for name in suite:
        kwargs = environments()[name]
        assert load_workload(kwargs["workload"]).index == kwargs["index"]
        assert f"-{kwargs['index']}-" in name


def test_tasks_whose_bits_changed_have_another_id():
    for machine in ("skylake-x-8n", "milan-nps4"):
        old = f"pmoss/{machine}-rtree-ranges-inserts-v0"
        with pytest.raises(gymnasium.error.DeprecatedEnv, match=r"use `.*-inserts-v1` instead"):
            gymnasium.make(old)
    with pytest.raises(gymnasium.error.DeprecatedEnv, match="use `pmoss/ContinualScheduling-v1`"):
        gymnasium.make("pmoss/ContinualScheduling-v0")
    assert sum(not name.endswith("-v0") for name in environments()) == 3


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasium_vectorises_it(mode):
    envs = gymnasium.make_vec("pmoss/toy-v0", num_envs=2, vectorization_mode=mode)
    single = gymnasium.make("pmoss/toy-v0")
    observations, infos = envs.reset(seed=4)
    expected, info = single.reset(seed=5)
    for t in range(8):
        assert infos["action_mask"].shape == (2, 8)
        assert all(np.array_equal(observations[key][1], expected[key]) for key in expected)
        assert infos["throughput"][1] == info["throughput"]
        action = 1 + t % 3
        observations, rewards, terminated, truncated, infos = envs.step(np.array([1, action]))
        expected, reward, _, _, info = single.step(action)
        assert rewards[1] == pytest.approx(reward, abs=1e-12)
        assert list(terminated) == [t == 7] * 2
        assert not truncated.any()
    envs.close()


def test_kwargs_are_plain_json():
    kwargs = {
        **TOY,
        "interference": "busy_core",
        "noise": 0.5,
        "constraints": {"max_slices_per_core": 3},
        "backend_options": {},
    }
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **kwargs)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert json.loads(json.dumps(spec.kwargs)) == kwargs
    assert bits(play(gymnasium.make(spec).unwrapped)) == bits(play(env.unwrapped))

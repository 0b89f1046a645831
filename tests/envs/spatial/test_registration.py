"""The registered ids, as Gymnasium and its checkers see them, and their pictures."""

import gymnasium
import numpy as np
import pytest

from pmoss_env.registration import environments, register_environments

IDS = sorted(environments())


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_accepts_every_id(name):
    env = gymnasium.make(name)
    assert env.spec.max_episode_steps is None
    restored = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert restored.kwargs == environments()[name]
    env.close()


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_environments()
    assert dict(gymnasium.registry) == before


def test_tasks_whose_bits_changed_have_another_id():
    for machine in ("skylake-x-8n", "milan-nps4"):
        old = f"pmoss/{machine}-rtree-ranges-inserts-v0"
        with pytest.raises(gymnasium.error.DeprecatedEnv, match=r"use `.*-inserts-v1` instead"):
            gymnasium.make(old)
    with pytest.raises(gymnasium.error.DeprecatedEnv, match="use `pmoss/ContinualScheduling-v1`"):
        gymnasium.make("pmoss/ContinualScheduling-v0")
    assert sum(not name.endswith("-v0") for name in environments()) == 3


@pytest.mark.parametrize("name", ["pmoss/toy-v0", "pmoss/SpatialScheduling-v0"])
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_render_follows_the_episode(name, mode):
    if mode == "rgb_array":
        pytest.importorskip("matplotlib")
    env = gymnasium.make(name, render_mode=mode)
    env.reset(seed=0)
    first = env.render()
    env.step(int(np.flatnonzero(env.unwrapped.action_masks())[-1]))
    second = env.render()
    if mode == "ansi":
        assert "0 of" in first
        assert "1 of" in second
    else:
        assert first.dtype == np.uint8
        assert first.ndim == 3
        assert first.shape[2] == 3
        assert min(first.shape[:2]) >= 200
        assert first.shape == second.shape
        assert not np.array_equal(first, second)
        # A picture, and not an empty page.
        assert len(np.unique(first.reshape(-1, 3), axis=0)) > 50


def test_render_without_a_mode_warns():
    env = gymnasium.make("pmoss/toy-v0").unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None

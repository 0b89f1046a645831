from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import UnsupportedError

vec_env = pytest.importorskip("stable_baselines3.common.vec_env")

from pmoss_env.envs.spatial.stable_baselines import SpatialVecEnv  # noqa: E402
from tests.envs.alike import alike  # noqa: E402

TOY = {"machine": "toy", "workload": "ycsb-a", "slices": 8}


@pytest.mark.parametrize("on_illegal", ["remap", "terminate"])
def test_it_gives_what_a_dummy_vec_env_gives(on_illegal):
    arguments = {**TOY, "on_illegal": on_illegal}
    native = SpatialVecEnv(3, **arguments)
    dummy = vec_env.DummyVecEnv([lambda: SpatialSchedulingEnv(**arguments) for _ in range(3)])
    assert native.observation_space == dummy.observation_space
    assert native.action_space == dummy.action_space
    for envs in (native, dummy):
        envs.seed(5)
    alike(native.reset(), dict(dummy.reset()))
    rng = np.random.default_rng(0)
    for _ in range(20):
        for one, other in zip(native.reset_infos, dummy.reset_infos, strict=True):
            alike(one, other)
        actions = rng.integers(8, size=3)
        observations, rewards, dones, infos = native.step(actions)
        expected, other_rewards, other_dones, other_infos = dummy.step(actions)
        alike(observations, dict(expected))
        alike(rewards, other_rewards)
        alike(dones, other_dones)
        for one, other in zip(infos, other_infos, strict=True):
            alike(one, other)
        alike(
            np.stack(native.env_method("action_masks")), np.stack(dummy.env_method("action_masks"))
        )
        assert native.get_attr("schedule", [2]) == dummy.get_attr("schedule", [2])
    native.close()


def test_ppo_learns_on_it():
    sb3 = pytest.importorskip("stable_baselines3")
    envs = vec_env.VecMonitor(SpatialVecEnv(4, threads=2, **TOY))
    model = sb3.PPO("MultiInputPolicy", envs, n_steps=16, batch_size=32, n_epochs=1, seed=0)
    model.learn(128)
    assert model.num_timesteps == 128
    # 8 episodes in each of 4 environments.
    assert len(model.ep_info_buffer) == 4 * 128 // 4 // 8
    envs.close()


def test_maskable_ppo_never_leaves_its_masks():
    contrib = pytest.importorskip("sb3_contrib")
    envs = SpatialVecEnv(4, on_illegal="raise", **TOY)
    model = contrib.MaskablePPO(
        "MultiInputPolicy", envs, n_steps=16, batch_size=32, n_epochs=1, seed=0
    )
    model.learn(128)
    assert model.num_timesteps == 128


def test_masks_are_found_as_sb3_contrib_looks_for_them():
    envs = SpatialVecEnv(2, **TOY)
    assert envs.has_attr("action_masks")
    masks = np.stack(envs.env_method("action_masks"))
    assert masks.shape == (2, 8)
    assert masks.dtype == np.bool_
    assert envs.env_method("action_masks", indices=[1])[0].tolist() == masks[1].tolist()


def test_what_would_part_it_from_the_batch_is_refused():
    envs = SpatialVecEnv(2, **TOY)
    with pytest.raises(UnsupportedError, match="render_mode"):
        envs.set_attr("render_mode", "ansi")
    envs.set_options([{"incumbent": [1] * 8}, {}])
    with pytest.raises(UnsupportedError, match="must be the same"):
        envs.reset()
    envs.set_options({"incumbent": [1] * 8})
    envs.reset()
    assert all((s.cores == 1).all() for s in envs.get_attr("incumbent"))
    assert envs.env_is_wrapped(SpatialSchedulingEnv) == [False, False]
    with pytest.raises(UnsupportedError, match="analytic"):
        SpatialVecEnv(2, backend="hardware")


def test_without_stable_baselines_the_extra_is_named():
    program = (
        "import sys\n"
        "sys.modules['stable_baselines3'] = None\n"
        "from pmoss_env.errors import MissingExtraError\n"
        "try:\n"
        "    import pmoss_env.envs.spatial.stable_baselines\n"
        "except MissingExtraError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pmoss-env[online]" in done.stdout

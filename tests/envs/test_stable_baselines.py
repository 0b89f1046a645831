"""The native vector environments as learners of Stable-Baselines3 and sb3-contrib use them."""

import sys

import numpy as np
import pytest

from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import UnsupportedError
from tests.envs.episodes import SMALL, TOY, alike
from tests.native.builds import run

sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

from pmoss_env.envs.continual.stable_baselines import ContinualVecEnv  # noqa: E402
from pmoss_env.envs.spatial.stable_baselines import SpatialVecEnv  # noqa: E402

SHORT = {**SMALL["pmoss/ContinualScheduling-v1"], "epochs": 4}
KINDS = [
    (SpatialVecEnv, SpatialSchedulingEnv, TOY),
    (ContinualVecEnv, ContinualSchedulingEnv, SHORT),
]


@pytest.mark.parametrize(
    ("make_native", "make", "arguments"),
    [*KINDS, (SpatialVecEnv, SpatialSchedulingEnv, {**TOY, "on_illegal": "terminate"})],
    ids=str,
)
def test_they_return_what_a_dummy_vec_env_does(make_native, make, arguments):
    native = make_native(3, threads=2, **arguments)
    dummy = DummyVecEnv([lambda: make(**arguments) for _ in range(3)])
    assert native.observation_space == dummy.observation_space
    assert native.action_space == dummy.action_space
    for envs in (native, dummy):
        envs.seed(5)
    alike(native.reset(), dict(dummy.reset()))
    rng, ended = np.random.default_rng(0), 0
    for _ in range(24):
        alike(native.reset_infos, dummy.reset_infos)
        actions = rng.integers(getattr(native.action_space, "nvec", 8), size=(3, 2))
        actions = actions if native.action_space.shape else actions[:, 0]
        observations, *rest = dummy.step(actions)
        alike(native.step(actions), (dict(observations), *rest))
        ended += int(rest[1].sum())
        alike(native.env_method("action_masks"), dummy.env_method("action_masks"))
        if make is SpatialSchedulingEnv:
            assert native.get_attr("schedule", [2]) == dummy.get_attr("schedule", [2])
    assert ended >= 3
    native.close()


def test_changes_of_one_sub_environment_are_refused():
    envs = SpatialVecEnv(2, **TOY)
    with pytest.raises(UnsupportedError, match="render_mode"):
        envs.set_attr("render_mode", "ansi")
    envs.set_options([{"incumbent": [1] * 8}, {}])
    with pytest.raises(UnsupportedError, match="must be the same"):
        envs.reset()
    envs.set_options({"incumbent": [1] * 8})
    envs.reset()
    assert all((schedule.cores == 1).all() for schedule in envs.get_attr("incumbent"))
    assert envs.env_is_wrapped(SpatialSchedulingEnv) == [False, False]
    for make_native, _, _ in KINDS:
        with pytest.raises(UnsupportedError, match="analytic"):
            make_native(2, backend="hardware")


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
    assert "'.[online]'" in run(sys.executable, "-c", program)

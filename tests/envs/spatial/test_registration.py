"""The registered ids, as Gymnasium and its checkers see them, their arguments and pictures."""

import gymnasium
import numpy as np
import pytest

from pmoss_env.backends.isolated import IsolatedBackend
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError, UnsupportedError
from pmoss_env.registration import environments, register_environments
from pmoss_env.types import Schedule
from tests.envs.episodes import TOY

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
    assert sum(not name.endswith("-v0") for name in environments()) == 5


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
        assert first.dtype == np.uint8 and first.ndim == 3
        assert first.shape[2] == 3 and min(first.shape[:2]) >= 200
        assert first.shape == second.shape
        assert not np.array_equal(first, second)
        # A picture, and not an empty page.
        assert len(np.unique(first.reshape(-1, 3), axis=0)) > 50


def test_render_without_a_mode_warns():
    env = gymnasium.make("pmoss/toy-v0").unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"incumbents": [1]}, UnknownNameError, "incumbents"),
        ({"incumbent": [1, 2]}, ScheduleError, "places 2 slices"),
        ({"incumbent": Schedule([1] * 8, [0] * 8, "any")}, ScheduleError, "routing 'any'"),
        ({"incumbent": [0] * 8}, ScheduleError, "core 0"),
        ({"incumbent": [99] * 8}, ScheduleError, "core 99"),
        ({"incumbent": [2**32 + 1] * 8}, ScheduleError, "4294967297 does not fit"),
        ({"incumbent": [1.5] * 8}, ScheduleError, "core of each slice"),
        ({"incumbent": "grouped"}, ScheduleError, "core of each slice"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        SpatialSchedulingEnv(**TOY).reset(seed=0, options=options)


def test_interference_that_the_backend_cannot_run_is_refused_when_the_env_is_made(monkeypatch):
    monkeypatch.setattr(IsolatedBackend, "co_tenant_families", ("busy_core",))
    with pytest.raises(UnsupportedError, match="'memory_stream': the backend 'hardware' runs only"):
        SpatialSchedulingEnv(machine="host", backend="hardware", interference="memory_stream")


BAD = [
    ("machine", "skylake", UnknownNameError),
    ("machine", None, DescriptionError),
    ("index", "hash", UnknownNameError),
    ("workload", "ycsb-z", UnknownNameError),
    ("slices", 0, DescriptionError),
    ("slices", True, DescriptionError),
    ("slices", np.int64(8), DescriptionError),
    ("slices", 65537, DescriptionError),
    ("backend", "quantum", UnknownNameError),
    ("load", "opened", UnknownNameError),
    ("load", "open:-1", UnknownNameError),
    ("interference", "earthquake", UnknownNameError),
    ("observation", "half", UnknownNameError),
    ("reward", "latency", UnknownNameError),
    ("incumbent", "lpt", UnknownNameError),
    ("order", "random", UnknownNameError),
    ("order", ["index"], UnknownNameError),
    ("workload_seed", -1, DescriptionError),
    ("workload_seed", 2**64, DescriptionError),
    ("workload_seed", np.uint32(1), DescriptionError),
    ("noise", "1", DescriptionError),
    ("constraints", {"max_slices_per_core": 1}, ScheduleError),
    ("constraints", {"stay_near": 1}, UnknownNameError),
    ("constraints", [1], DescriptionError),
    ("constraints", {"max_slices_per_core": np.int64(2)}, DescriptionError),
    ("backend_options", {"seconds": 1}, UnsupportedError),
    ("counters", "none", UnknownNameError),
    ("backend_options", {"seconds": object()}, DescriptionError),
    ("measure_every", 0, DescriptionError),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD)
def test_bad_arguments_are_refused_by_name(name, value, error):
    with pytest.raises(error) as caught:
        SpatialSchedulingEnv(**{**TOY, name: value})
    if not (isinstance(value, dict) or name == "load"):
        assert repr(value) in str(caught.value) or str(value) in str(caught.value)


def test_improvement_on_hardware_needs_to_know_how_often():
    with pytest.raises(UnsupportedError, match="measure_every"):
        SpatialSchedulingEnv(**TOY, backend="hardware", reward="improvement")

"""The vector form gives the bits of single environments and those of Gymnasium's own."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.continual import FAMILIES
from pmoss_env.envs.continual.vector import ContinualVectorEnv
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.alike import alike

ID = "pmoss/ContinualScheduling-v1"
SMALL = {"machine": "toy", "slices": 8, "epochs": 3, "moves_per_epoch": 2}


def follow(native, synchronous, steps=16):
    """Plays both with the same actions, masked ones among them; how many episodes ended."""
    both = [native.reset(seed=9), synchronous.reset(seed=9)]
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(steps):
        for one, other in zip(*both, strict=True):
            alike(one, other)
        actions = rng.integers(native.single_action_space.nvec, size=(native.num_envs, 2))
        both = [native.step(actions), synchronous.step(actions)]
        ended += int(both[0][3].sum())
        assert not both[0][2].any()
    return ended


def pair(mode="NextStep", num_envs=3, **options):
    native = gymnasium.make_vec(ID, num_envs=num_envs, autoreset_mode=mode, **options)
    options = {key: value for key, value in options.items() if key not in ("copy", "threads")}
    single = gymnasium.make_vec(
        ID,
        num_envs=num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **options,
    )
    assert isinstance(native.unwrapped, ContinualVectorEnv)
    assert native.observation_space == single.observation_space
    assert native.action_space == single.action_space
    assert native.metadata["autoreset_mode"] == single.metadata["autoreset_mode"]
    return native, single


@pytest.mark.parametrize("drift", FAMILIES)
def test_every_row_has_the_bits_of_the_single_environment(drift):
    load = "open:20" if FAMILIES[drift].needs_open_load else "closed"
    options = {"drift": drift, "load": load, "noise": 1.0, "deviation": 0.2}
    assert follow(*pair(**SMALL, **options)) >= 3


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_it_agrees_with_gymnasiums_own_vector_environment(mode, copy, threads):
    assert follow(*pair(mode, copy=copy, threads=threads, counters="software", **SMALL)) >= 3


def test_on_a_server_too():
    options = {"slices": 64, "epochs": 2, "moves_per_epoch": 3, "price_per_gb": 5.0}
    assert follow(*pair(num_envs=2, p99_limit_us=40.0, noise=0.5, **options), steps=12) >= 2


def test_what_is_read_only_is_written_by_steps_alone():
    envs = ContinualVectorEnv(2, copy=False, **SMALL)
    first, _ = envs.reset(seed=0)
    again, *_ = envs.step(np.array([[8, 0], [8, 0]]))
    for key, rows in again.items():
        assert np.shares_memory(rows, first[key]) and not rows.flags.writeable
    fresh = ContinualVectorEnv(2, **SMALL)
    first, _ = fresh.reset(seed=0)
    kept = first["slice_counters"].copy()
    fresh.step(np.array([[8, 0], [8, 0]]))
    assert np.array_equal(first["slice_counters"], kept)


def test_sub_environments_are_the_faces_of_their_rows():
    envs = ContinualVectorEnv(2, render_mode="ansi", **SMALL)
    single = gymnasium.make(ID, render_mode="ansi", **SMALL).unwrapped
    envs.reset(seed=6)
    single.reset(seed=7)
    for _ in range(2):
        envs.step(np.array([[8, 0], [8, 0]]))
        single.step([8, 0])
    assert envs.render()[1] == single.render()
    assert envs.sub_environments()[1].session.timeline == single.session.timeline
    assert envs.call("slices") == (8, 8)
    assert envs.action_masks().shape == (2, 8 + 1 + 8)


def test_bad_input_is_refused_and_moves_nothing():
    envs = ContinualVectorEnv(2, on_illegal="raise", **SMALL)
    with pytest.raises(ResetNeeded):
        envs.step(np.array([[8, 0], [8, 0]]))
    _, before = envs.reset(seed=0)
    free = int(np.flatnonzero(~envs.sub_environments()[0].machine.worker_tiles)[0])
    for actions, text in [
        ([8, 0], r"actions of shape \(2,\) .* \(2, 2\) whole numbers"),
        ([[0.0, 1.0], [0.0, 1.0]], "float64"),
        ([[8, 0], [9, 0]], "slice 9 of sub-environment 1: must be from 0 to 8"),
        ([[-1, 0], [8, 0]], "slice -1 of sub-environment 0"),
        ([[8, 0], [8, 8]], "tile 8 of sub-environment 1: must be from 0 to 7"),
        ([[8, 0], [0, free]], f"slice 0 to tile {free}: the tile is no worker"),
    ]:
        with pytest.raises(IllegalActionError, match=text):
            envs.step(np.array(actions))
    _, _, _, _, after = envs.step(np.array([[8, 0], [8, free]]))
    assert before["epoch"].tolist() == [0, 0] and after["epoch"].tolist() == [1, 1]
    with pytest.raises(UnsupportedError, match="needs the analytic model"):
        ContinualVectorEnv(2, backend="hardware", machine="host")
    for threads in (0, 100_000):
        with pytest.raises(DescriptionError, match=f"threads = {threads}: must be"):
            ContinualVectorEnv(2, threads=threads, **SMALL)
    with pytest.raises(UnknownNameError, match="autoreset_mode"):
        ContinualVectorEnv(2, autoreset_mode="never", **SMALL)
    with pytest.raises(DescriptionError, match="1 were given for 2"):
        envs.reset(seed=[1])
    envs.close()

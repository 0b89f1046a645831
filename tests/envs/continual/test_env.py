"""Continual scheduling: spaces, masks, rewards and bits of an index that runs."""

import hashlib

import numpy as np
import pytest

from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.episodes import CONTINUAL, SMALL, play


def make(**options):
    return ContinualSchedulingEnv(**{**SMALL[CONTINUAL], **options})


def leave(env):
    return [env.slices, 0]


def test_a_step_is_a_move_and_the_last_index_leaves_it():
    env = make()
    _, info = env.reset(seed=0)
    assert info["epoch"] == info["moves"] == 0 and info["queries"] == 0.0
    tile = int(env.machine.tile_of_core[env.machine.workers[0]])
    observation, reward, _, _, info = env.step([0, tile])
    assert (reward, info["epoch"], info["moves"]) == (0.0, 0, 1)
    assert observation["slice_tiles"][0] == tile and observation["moves_left"][0] == 0.5
    assert observation["slice_mask"].tolist() == [0] + [1] * 8
    assert (env.action_masks() == info["action_mask"].astype(bool)).all()
    observation, reward, _, _, info = env.step(leave(env))
    assert reward > 0.0 and (info["epoch"], info["moves"]) == (1, 0)
    assert info["queries"] == reward == pytest.approx(info["throughput"])
    assert observation["moved"].tolist()[1:] == [0] * 7
    env.step([1, tile])
    _, reward, _, _, info = env.step([2, tile])  # the second of two moves begins the epoch
    assert reward > 0.0 and info["epoch"] == 2


def test_a_load_that_cannot_change_is_refused():
    with pytest.raises(UnsupportedError, match="load = 'closed': drift 'daily-load' varies"):
        make(drift="daily-load")
    with pytest.raises(DescriptionError, match="points do not move"):
        make(
            drift="daily-mix", index="rtree", workload="rtree-ranges", drift_options={"update": 0.2}
        )


@pytest.mark.parametrize("own", [True, False])
def test_gymnasium_samples_legal_moves(own):
    env = make(on_illegal="raise")
    observation, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(12):
        parts = observation["slice_mask"], observation["tile_mask"]
        split = tuple(np.split(info["action_mask"], env.action_space.nvec[:1]))
        action = env.action_space.sample(parts if own else split)
        observation, _, _, truncated, info = env.step(action)
        assert info["illegal_actions"] == 0
        if truncated:
            observation, info = env.reset()


def test_masked_moves_are_left_out_or_refused():
    env = make()
    env.reset(seed=0)
    free = int(np.flatnonzero(~env.machine.worker_tiles)[0])
    observation, _, _, _, info = env.step([0, free])
    assert info["illegal_actions"] == info["moves"] == 1
    assert env.machine.worker_tiles[observation["slice_tiles"]].all()
    env = make(on_illegal="raise")
    env.reset(seed=0)
    with pytest.raises(IllegalActionError, match=f"slice 0 to tile {free}: the tile is no worker"):
        env.step([0, free])
    tiles = env.machine.tile_of_core[env.machine.workers]
    env.step([3, tiles[0]])
    with pytest.raises(IllegalActionError, match=r"slice 3 to tile .*: the slice has moved"):
        env.step([3, tiles[1]])
    for action, named in (
        ([9, 0], "slice 9"),
        ([0, -1], "tile -1"),
        (3, "action 3"),
        ([0.5, 1], "0.5"),
    ):
        with pytest.raises(IllegalActionError, match=named):
            env.step(action)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"drift": "job"}, UnknownNameError, "jobs"),
        ({"drift_options": {"counts": 2}}, UnknownNameError, "count"),
        (
            {"epochs": 1_000_001},
            DescriptionError,
            "epochs = 1000001: must be a whole number from . to 1,000,000",
        ),
        ({"backend_options": {1: 2}}, DescriptionError, "key of backend_options = 1: must be"),
        ({"drift_options": [1]}, DescriptionError, "must hold parameters by name"),
        ({"drift_options": {"count": 1.5}}, DescriptionError, "count.* = 1.5"),
        ({"drift_options": {"compute": 0.5}}, DescriptionError, "least, most"),
        ({"drift_options": {"compute": [0.7, 0.5]}}, DescriptionError, "compute"),
        ({"drift_options": {"jitter": 2}}, DescriptionError, "precursor_epochs"),
        ({"drift_options": {"cores": 99}}, UnsupportedError, "99 worker cores"),
        ({"epochs": 0}, DescriptionError, "epochs = 0: must be a whole number from 1"),
        ({"epochs": 2.0}, DescriptionError, "epochs = 2.0"),
        ({"moves_per_epoch": 0}, DescriptionError, "moves_per_epoch = 0"),
        (
            {"workload_seed": 2**64},
            DescriptionError,
            "workload_seed = 18.*: must be a whole number from . to 18,",
        ),
        ({"moves_per_epoch": 33}, DescriptionError, "moves_per_epoch = 33: must be at most 32"),
        ({"moves_per_epoch": 65, "slices": 64}, DescriptionError, "must be at most 64: each of"),
        ({"slices": 0}, DescriptionError, "slices = 0"),
        ({"epoch_seconds": 0}, DescriptionError, "epoch_seconds = 0"),
        ({"record_bytes": 0.0}, DescriptionError, "record_bytes = 0.0"),
        ({"deviation": 0.6}, DescriptionError, "deviation = 0.6"),
        ({"p99_limit_us": 0.0}, DescriptionError, "p99_limit_us = 0.0"),
        ({"price_per_gb": -1.0}, DescriptionError, "price_per_gb = -1.0"),
        ({"machine": 3}, DescriptionError, "machine = 3"),
        ({"machine": "tyo"}, UnknownNameError, "toy"),
        ({"backend": "hardware"}, UnsupportedError, "analytic"),
        ({"incumbent": "best"}, UnknownNameError, "best-fit"),
    ],
)
def test_impossible_arguments_are_named(options, error, named):
    with pytest.raises(error, match=named):
        make(**options)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_pictures_show_chip_and_time(mode):
    env = make(render_mode=mode)
    play(env, 1)
    shown = env.render()
    if mode == "ansi":
        assert "epoch 6 of 6" in shown and "one bar per epoch" in shown
    else:
        assert shown.dtype == np.uint8 and shown.ndim == 3


#: SHA-256 of what an episode shows, before response times had noise.
BITS = {
    0.0: "b1fc1a03f93a4441ec2d42b3f5a5f6d25ce73041d2eb2add94fc4edc60d4c424",
    1.0: "c1ab1d63172ffef4cb5c024e22f9b920188cfce5dc52dbbde44390d4af50cbf6",
}


@pytest.mark.parametrize("noise", BITS)
def test_an_episode_keeps_the_bits_that_it_had_but_for_its_response_times(noise):
    digest = hashlib.sha256()
    for observation, reward, *_ in play(make(noise=noise), 5):
        shown = dict(observation)
        if noise:
            shown["last"] = shown["last"][[0, 3]]
        for key in sorted(shown):
            digest.update(shown[key].tobytes())
        digest.update(np.float64(reward).tobytes())
    assert digest.hexdigest() == BITS[noise]

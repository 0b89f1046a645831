"""Observations: whole, complete and compact."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.backends import make_backend
from pmoss_env.envs.spatial import (
    SpatialSchedulingEnv,
    in_full,
    make_rules,
    meta_names,
    observation_space,
    placement_order,
)
from pmoss_env.envs.spatial.observation import observed_counters, observed_meta
from pmoss_env.errors import ScheduleError, UnknownNameError, UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTERS
from tests.envs.episodes import SPATIAL

TOY = load_machine("toy")
SLICES = 8
H = len(COUNTERS)
INCUMBENT = TOY.local_schedule(TOY.workers[[0, 1, 2, 3, 4, 5, 0, 0]])
FORWARD = np.arange(SLICES, dtype=np.int32)


@pytest.fixture(scope="module")
def snapshot():
    backend = make_backend("analytic", machine=TOY, workload="ycsb-a", slices=SLICES)
    return backend.measure(INCUMBENT, seed=0)


def expanded(snapshot, order, tiles, mode="full", **rules):
    """Everything that an episode of these tiles showed, a row per step."""
    steps = SLICES + 1
    rows = {
        key: np.full((steps, *space.shape), 7, space.dtype)
        for key, space in observation_space(TOY, SLICES, mode).items()
    }
    rules = make_rules(TOY, SLICES, observation=mode, **rules)
    played = order, INCUMBENT.cores, INCUMBENT.nodes, np.array(tiles, np.int32)
    rules.expand(observed_counters(snapshot), *played, steps, rows)
    return rows


def test_shapes_and_types_are_those_of_the_contract():
    env = SpatialSchedulingEnv(machine="toy", slices=SLICES)
    observation, _ = env.reset(seed=1)
    assert {key: (v.shape, v.dtype.name) for key, v in observation.items()} == {
        "view_mask": ((2, 4), "int8"),
        "position_mask": ((2, 4), "int8"),
        "machine_view": ((2, 4, H), "float32"),
        "meta": ((2 * 2 + 2 + 3,), "float32"),
        "slice": ((1,), "float32"),
        "slice_view": ((H,), "float32"),
        "incumbent_view": ((2, 4, H), "float32"),
    }
    assert env.observation_space.contains(observation)
    assert env.observation_space.is_np_flattenable
    assert all(np.isfinite(space.high).all() for space in env.observation_space.values())


def test_complete_mode_adds_every_slice_and_where_it_is():
    full_env, env = (
        SpatialSchedulingEnv(machine="toy", slices=SLICES, observation=mode)
        for mode in ("full", "complete")
    )
    full, _ = full_env.reset(seed=1)
    complete, _ = env.reset(seed=1)
    assert env.observation_space.contains(complete)
    assert set(complete) - set(full) == {"slice_counters", "incumbent_tiles", "slice_tiles"}
    counters = observed_counters(env.incumbent_snapshot)
    before = TOY.tile_of_core[env.incumbent.cores]
    rng = np.random.default_rng(0)
    for _ in range(SLICES):
        assert all(np.array_equal(complete[key], full[key]) for key in full)
        assert complete["slice_counters"].tobytes() == counters.tobytes()
        assert np.array_equal(complete["incumbent_tiles"], before)
        assert np.array_equal(complete["slice_tiles"], TOY.tile_of_core[env.schedule.cores])
        tile = rng.choice(np.flatnonzero(env.action_masks()))
        full, *_ = full_env.step(tile)
        complete, *_ = env.step(tile)
    assert np.array_equal(complete["slice_tiles"], TOY.tile_of_core[env.schedule.cores])


def test_every_step_shows_the_slices_placed_so_far(snapshot):
    order = np.array([3, 1, 4, 0, 5, 2, 6, 7], dtype=np.int32)
    tiles = [1, 1, 7, 2, 2, 2, 5, 1]
    rows = expanded(snapshot, order, tiles)
    counters = snapshot.slice_counters.astype(np.float32)
    view = np.zeros((8, H), dtype=np.float32)
    for t, tile in enumerate(tiles):
        assert rows["machine_view"][t].tobytes() == view.tobytes()
        assert set(np.flatnonzero(rows["view_mask"][t])) == set(tiles[:t])
        assert rows["slice"][t] == np.float32(order[t] / SLICES)
        assert np.array_equal(rows["slice_view"][t], counters[order[t]])
        assert np.array_equal(rows["position_mask"][t].ravel(), TOY.worker_tiles)
        view[tile] = view[tile] + counters[order[t]]
    assert rows["machine_view"][-1].tobytes() == view.tobytes()
    assert rows["slice"][-1] == 1.0 and not rows["slice_view"][-1].any()


def test_observations_are_fresh_and_reset_clears():
    env = SpatialSchedulingEnv(machine="toy", slices=SLICES)
    first, info = env.reset(seed=1)
    kept = {key: value.copy() for key, value in first.items()}
    for value in (*first.values(), info["action_mask"], info["slice_throughput"]):
        value[...] = 1
    held = [first]
    for tile in TOY.workers:
        observation, _, _, _, info = env.step(tile)
        for value in observation.values():
            assert not any(np.shares_memory(value, old) for o in held for old in o.values())
            assert not np.shares_memory(value, info["action_mask"])
            value[...] = 1  # what a user writes into it changes nothing
        held.append(observation)
    assert not info["slice_throughput"].any()
    again, _ = env.reset(seed=1)
    assert all(np.array_equal(again[key], kept[key]) for key in kept)


def test_meta_names_its_values_and_keeps_its_length(snapshot):
    names = meta_names(TOY)
    meta = observed_meta(TOY, snapshot)
    assert len(names) == meta.size
    assert dict(zip(names, meta, strict=True))["logical_cores"] == 8
    assert list(meta[-3:]) == [8, 2, 2]
    assert np.array_equal(meta[:-3], snapshot.offcore.astype(np.float32))
    # A backend that cannot see the links leaves them 0; one in another order is put in order.
    keep = [3, 0]
    partial = replace(
        snapshot,
        offcore=snapshot.offcore[keep],
        offcore_names=tuple(snapshot.offcore_names[i] for i in keep),
        offcore_available=np.array([True, True]),
    )
    expected = np.zeros(meta.size - 3, dtype=np.float32)
    expected[keep] = snapshot.offcore[keep]
    assert np.array_equal(observed_meta(TOY, partial)[:-3], expected)


def test_order_by_load_puts_the_hottest_first(snapshot):
    order = placement_order("load", snapshot)
    assert np.all(np.diff(snapshot.counter("queries")[order]) <= 0)
    assert np.array_equal(np.sort(order), FORWARD)
    assert np.array_equal(placement_order("index", snapshot), FORWARD)
    even = replace(snapshot, slice_counters=np.ones_like(snapshot.slice_counters))
    assert np.array_equal(placement_order("load", even), FORWARD)
    with pytest.raises(UnknownNameError, match="laod"):
        placement_order("laod", snapshot)


def test_bad_input_is_refused(snapshot):
    with pytest.raises(UnknownNameError, match="papers"):
        observation_space(TOY, SLICES, "papers")
    with pytest.raises(UnknownNameError, match="papers"):
        make_rules(TOY, SLICES, observation="papers")
    tiles = [1] * SLICES
    with pytest.raises(ValueError, match="exactly once"):
        expanded(snapshot, np.zeros(SLICES, dtype=np.int32), tiles)
    for tile in (-1, 8):
        with pytest.raises(ValueError, match=f"action {tile} does not exist"):
            expanded(snapshot, FORWARD, [*tiles[1:], tile])
    with pytest.raises(ValueError, match="actions = 7: must be 8"):
        expanded(snapshot, FORWARD, tiles[1:])
    rules, counters = make_rules(TOY, SLICES), observed_counters(snapshot)
    for cores in (INCUMBENT.cores[1:], INCUMBENT.cores - 9):
        with pytest.raises(ValueError, match="cores"):
            rules.incumbent_view(counters, cores)
    with pytest.raises(ValueError, match="steps = 10"):
        rules.expand_masks(np.array(tiles, np.int32), SLICES + 2)


@pytest.mark.parametrize(
    ("constraints", "error", "words"),
    [
        ({"max_slices": 2}, UnknownNameError, "max_slices"),
        ({"max_slices_per_core": 1}, ScheduleError, "leaves room for 6 slices"),
        ({"max_slices_per_core": 0}, ScheduleError, "0"),
        ({"max_slices_per_core": True}, ScheduleError, "True"),
        ({"max_slices_per_core": 2.0}, ScheduleError, "2.0"),
    ],
)
def test_impossible_constraints_are_refused(constraints, error, words):
    with pytest.raises(error, match=words):
        make_rules(TOY, SLICES, constraints=constraints)


NODES = {"actions": "core_node", "constraints": {"node_memory_gib": [0.1, 0.6]}}


@pytest.mark.parametrize(
    "options",
    [
        {"slices": 24},
        {"machine": "toy", "slices": 9, "order": "load", "noise": 1.0},
        {"machine": "toy", "slices": 8, **NODES},
        {"machine": "toy", "slices": 8, "on_illegal": "terminate"},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["full", "paper", "complete"])
def test_it_says_what_the_other_modes_show(options, mode):
    small = gymnasium.make(SPATIAL, observation="compact", **options)
    large = gymnasium.make(SPATIAL, observation=mode, **options)
    machine = small.unwrapped.machine
    shown, expected = small.reset(seed=3)[0], large.reset(seed=3)[0]
    small.action_space.seed(4)
    ended = False
    while not ended:
        views = in_full(shown, small.unwrapped.episode_facts(), machine)
        for key, values in expected.items():
            assert views[key].dtype == values.dtype, key
            assert np.array_equal(views[key], values), key
        action = small.action_space.sample()
        shown, *outcome, _ = small.step(action)
        expected, *same, _ = large.step(action)
        assert outcome == same
        ended = outcome[1]
    assert set(expected) <= set(views)


def test_a_step_shows_at_most_a_kilobyte():
    env = gymnasium.make(SPATIAL, observation="compact")
    observation, _ = env.reset(seed=0)
    assert env.unwrapped.slices == 256
    assert sum(values.nbytes for values in observation.values()) <= 1000


def test_the_facts_of_all_rows_are_read_without_copies():
    envs = gymnasium.make_vec(
        SPATIAL, num_envs=2, machine="toy", slices=6, observation="compact", copy=False
    )
    with pytest.raises(ResetNeeded):
        envs.unwrapped.episode_facts()
    envs.reset(seed=5)
    facts = envs.unwrapped.episode_facts()
    first = {key: values.copy() for key, values in facts.items()}
    for _ in range(7):  # the last call starts the next episodes
        envs.step(np.flatnonzero(envs.unwrapped.action_masks()[0])[:2])
    for key, values in facts.items():
        assert not values.flags.writeable
        assert np.shares_memory(values, envs.unwrapped.episode_facts()[key])
        for i, env in enumerate(envs.unwrapped.sub_environments()):
            assert np.array_equal(values[i], env.episode_facts()[key])
    assert not np.array_equal(facts["slice_counters"], first["slice_counters"])
    envs.close()


def test_facts_of_all_rows_belong_to_the_compact_form():
    envs = gymnasium.make_vec(SPATIAL, num_envs=1, machine="toy", slices=4)
    envs.reset(seed=0)
    with pytest.raises(UnsupportedError, match="compact"):
        envs.unwrapped.episode_facts()
    envs.close()


def test_a_place_needs_no_more_than_16_bits(monkeypatch):
    monkeypatch.setattr("pmoss_env.envs.spatial.observation.MOST_PLACES", 5)
    with pytest.raises(UnsupportedError, match="complete"):
        observation_space(load_machine("toy"), 4, "compact")

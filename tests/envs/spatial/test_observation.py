from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.envs.spatial import ObservationBuilder, PositionMask, meta_names, placement_order
from pmoss_env.errors import ScheduleError, UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTERS

TOY = load_machine("toy")
SLICES = 8
INCUMBENT = TOY.local_schedule(TOY.workers[[0, 1, 2, 3, 4, 5, 0, 0]])
FORWARD = np.arange(SLICES, dtype=np.int32)


@pytest.fixture(scope="module")
def snapshot():
    backend = make_backend("analytic", machine=TOY, workload="ycsb-a", slices=SLICES)
    return backend.measure(INCUMBENT, seed=0)


def started(snapshot, order=FORWARD, mode="full"):
    builder = ObservationBuilder(TOY, SLICES, mode)
    builder.start(INCUMBENT, snapshot, order)
    return builder


def test_shapes_and_types_are_those_of_the_contract(snapshot):
    builder = started(snapshot)
    observation = builder.observe(TOY.worker_tiles)
    h = len(COUNTERS)
    assert {key: (v.shape, v.dtype.name) for key, v in observation.items()} == {
        "view_mask": ((2, 4), "int8"),
        "position_mask": ((2, 4), "int8"),
        "machine_view": ((2, 4, h), "float32"),
        "meta": ((2 * 2 + 2 + 3,), "float32"),
        "slice": ((1,), "float32"),
        "slice_view": ((h,), "float32"),
        "incumbent_view": ((2, 4, h), "float32"),
    }
    assert builder.space.contains(observation)
    assert builder.space.is_np_flattenable
    assert all(np.isfinite(space.high).all() for space in builder.space.values())


def test_paper_mode_leaves_out_what_the_paper_does_not_show(snapshot):
    full = started(snapshot).observe(TOY.worker_tiles)
    paper = started(snapshot, mode="paper").observe(TOY.worker_tiles)
    assert set(full) - set(paper) == {"slice_view", "incumbent_view"}
    assert all(np.array_equal(paper[key], full[key]) for key in paper)


def test_every_step_shows_the_slices_placed_so_far(snapshot):
    order = np.array([3, 1, 4, 0, 5, 2, 6, 7], dtype=np.int32)
    tiles = [1, 1, 7, 2, 2, 2, 5, 1]
    builder = started(snapshot, order)
    counters = snapshot.slice_counters.astype(np.float32)
    view = np.zeros((8, len(COUNTERS)), dtype=np.float32)
    for t, tile in enumerate(tiles):
        observation = builder.observe(TOY.worker_tiles)
        assert observation["slice"] == np.float32(order[t] / SLICES)
        assert np.array_equal(observation["slice_view"], counters[order[t]])
        builder.place(tile)
        view[tile] = view[tile] + counters[order[t]]
        observation = builder.observe(TOY.worker_tiles)
        assert observation["machine_view"].tobytes() == view.tobytes()
        assert set(np.flatnonzero(observation["view_mask"])) == set(tiles[: t + 1])
    assert observation["slice"] == 1.0
    assert not observation["slice_view"].any()
    assert builder.next_slice == SLICES
    with pytest.raises(ScheduleError, match="all 8 slices"):
        builder.place(1)


def test_incumbent_view_adds_in_slice_order(snapshot):
    view = started(snapshot).observe(TOY.worker_tiles)["incumbent_view"].reshape(8, -1)
    counters = snapshot.slice_counters.astype(np.float32)
    first = TOY.tile_of_core[TOY.workers[0]]
    assert np.array_equal(view[first], (counters[0] + counters[6]) + counters[7])
    assert not view[TOY.tile_of_core[0]].any()


def test_a_float32_snapshot_expands_to_the_same_bits(snapshot):
    stored = replace(
        snapshot,
        slice_counters=snapshot.slice_counters.astype(np.float32),
        offcore=snapshot.offcore.astype(np.float32),
    )
    one, other = started(snapshot), started(stored)
    for tile in (1, 2, 2, 2, 1):
        one.place(tile)
        other.place(tile)
    left, right = one.observe(TOY.worker_tiles), other.observe(TOY.worker_tiles)
    assert all(left[key].tobytes() == right[key].tobytes() for key in left)


def test_observations_are_fresh_and_start_clears(snapshot):
    builder = started(snapshot)
    first = builder.observe(TOY.worker_tiles)
    kept = {key: value.copy() for key, value in first.items()}
    for value in first.values():
        value[...] = 1
    second = builder.observe(TOY.worker_tiles)
    assert all(np.array_equal(second[key], kept[key]) for key in kept)
    assert not any(np.shares_memory(first[key], second[key]) for key in first)
    builder.place(1)
    builder.start(INCUMBENT, snapshot, FORWARD)
    third = builder.observe(TOY.worker_tiles)
    assert all(np.array_equal(third[key], kept[key]) for key in kept)


def test_meta_names_its_values_and_keeps_its_length(snapshot):
    names = meta_names(TOY)
    meta = started(snapshot).observe(TOY.worker_tiles)["meta"]
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
    assert np.array_equal(started(partial).observe(TOY.worker_tiles)["meta"][:-3], expected)


def test_unavailable_values_are_zero(snapshot):
    available = snapshot.counters_available.copy()
    available[0] = False
    partial = replace(
        snapshot,
        counters_available=available,
        offcore_available=np.zeros_like(snapshot.offcore_available),
    )
    observation = started(partial).observe(TOY.worker_tiles)
    assert snapshot.slice_counters[0, 0] > 0
    assert observation["slice_view"][0] == 0
    assert not observation["incumbent_view"][..., 0].any()
    assert not observation["meta"][:-3].any()


def test_order_by_load_puts_the_hottest_first(snapshot):
    order = placement_order("load", snapshot)
    queries = snapshot.counter("queries")[order]
    assert np.all(np.diff(queries) <= 0)
    assert np.array_equal(np.sort(order), FORWARD)
    assert np.array_equal(placement_order("index", snapshot), FORWARD)
    even = replace(snapshot, slice_counters=np.ones_like(snapshot.slice_counters))
    assert np.array_equal(placement_order("load", even), FORWARD)
    with pytest.raises(UnknownNameError, match="laod"):
        placement_order("laod", snapshot)


def test_bad_input_is_refused(snapshot):
    with pytest.raises(UnknownNameError, match="papers"):
        ObservationBuilder(TOY, SLICES, "papers")
    builder = ObservationBuilder(TOY, SLICES)
    with pytest.raises(ScheduleError, match="exactly once"):
        builder.start(INCUMBENT, snapshot, np.zeros(SLICES, dtype=np.int32))
    with pytest.raises(ScheduleError, match="shape"):
        builder.start(
            INCUMBENT, replace(snapshot, slice_counters=snapshot.slice_counters[:-1]), FORWARD
        )
    with pytest.raises(ScheduleError, match="places 2 slices"):
        builder.start(TOY.local_schedule([1, 2]), snapshot, FORWARD)
    builder.start(INCUMBENT, snapshot, FORWARD)
    for tile in (-1, 8):
        with pytest.raises(ScheduleError, match="does not exist"):
            builder.place(tile)


def test_constraint_fills_cores_up_to_its_limit():
    mask = PositionMask(TOY, SLICES, {"max_slices_per_core": 2})
    mask.start()
    assert np.array_equal(mask.tiles, TOY.worker_tiles)
    mask.place(1)
    assert mask.tiles[1]
    mask.place(1)
    assert not mask.tiles[1]
    assert mask.tiles.sum() == 5
    mask.start()
    assert mask.tiles[1]


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
        PositionMask(TOY, SLICES, constraints)

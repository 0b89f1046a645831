"""Indexes, workloads, the key space and Zipf's numbers, as Python sees them."""

import bisect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmoss_env import _native
from pmoss_env._native import RTree

KEYS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 300),
    st.integers(2**64 - 300, 2**64 - 1),
    st.integers(2**53, 2**53 + 8),
)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "erase"]), st.lists(KEYS, max_size=40)),
    max_size=12,
)


def small_tree(slices=4):
    return _native.BTree(slices=slices, huge_pages=False)


@given(OPERATIONS, st.sampled_from([1, 3, 64]), st.lists(KEYS, max_size=5))
def test_any_operations_match_a_dict(operations, slices, starts):
    tree = small_tree(slices)
    model = {}
    stamp = 0
    for kind, keys in operations:
        values = list(range(stamp, stamp + len(keys)))
        stamp += len(keys)
        expected = []
        for key, value in zip(keys, values, strict=True):
            stored = key in model
            expected.append(not stored if kind == "insert" else stored)
            if kind == "insert" or (kind == "update" and stored):
                model[key] = value
            elif kind == "erase":
                model.pop(key, None)
        got = tree.erase(keys) if kind == "erase" else getattr(tree, kind)(keys, values)
        assert got.tolist() == expected
    assert len(tree) == tree.size == len(model)

    asked = [*model, *starts]
    is_held, values = tree.lookup(asked)
    assert is_held.tolist() == [key in model for key in asked]
    assert values.tolist() == [model.get(key, 0) for key in asked]

    ordered = sorted(model)
    for first in [0, *starts]:
        for limit in (0, 1, 7, 10_000):
            at = bisect.bisect_left(ordered, first)
            keys, values = tree.scan(first, limit)
            assert keys.tolist() == ordered[at : at + limit]
            assert values.tolist() == [model[key] for key in ordered[at : at + limit]]


def test_wrong_arguments_are_refused():
    tree = small_tree()
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        tree.insert([1, 2], [3])
    with pytest.raises(ValueError, match="keys has 2 dimensions"):
        tree.lookup(np.zeros((2, 2), dtype=np.uint64))
    with pytest.raises(TypeError, match="float64"):
        tree.insert(np.array([2.0**60]), [1])
    with pytest.raises(OverflowError):
        tree.lookup([-1])
    with pytest.raises(ValueError, match="slices is 0"):
        small_tree(0)
    with pytest.raises(ValueError, match="slices is 65537"):
        small_tree(65537)
    with pytest.raises(ValueError, match="isa is 'sse9'"):
        _native.set_search_isa("sse9")
    assert len(tree) == 0


def test_finds_what_a_list_finds() -> None:
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2**32, (5_000, 2), dtype=np.uint64)
    values = np.arange(5_000, dtype=np.uint64)
    tree = RTree(slices=16, fanout=20, huge_pages=False)
    tree.bulk_load(points[:3_000], values[:3_000], fill=0.7)
    tree.insert(points[3_000:], values[3_000:])
    corners = rng.integers(0, 2**32, (50, 2, 2), dtype=np.uint64)
    ranges = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    inside = np.all((points >= ranges[:, None, :2]) & (points <= ranges[:, None, 2:]), axis=2)
    np.testing.assert_array_equal(tree.count(ranges), inside.sum(axis=1))
    for range_, expected in zip(ranges, inside, strict=True):
        np.testing.assert_array_equal(np.sort(tree.find(range_)), values[expected])
    assert (len(tree), tree.size, tree.slices, tree.fanout) == (5_000, 5_000, 16, 20)
    assert sum(tree.slice_size(s) for s in range(16)) == 5_000
    assert min(tree.height(s) for s in range(16)) >= 2


def test_impossible_points_are_refused() -> None:
    with pytest.raises(ValueError, match="fanout is 4"):
        RTree(fanout=4)
    with pytest.raises(ValueError, match="slices is 0"):
        RTree(slices=0)
    tree = RTree(slices=4, huge_pages=False)
    with pytest.raises(ValueError, match=r"points must have the shape \(n, 2\)"):
        tree.insert([1, 2], [3])
    with pytest.raises(ValueError, match="values must be a list as long as points, 1"):
        tree.insert([[1, 2]], [3, 4])
    with pytest.raises(ValueError, match="a coordinate is 4294967296"):
        tree.insert([[1, 2**32]], [3])
    with pytest.raises(ValueError, match="range must be 4 integers"):
        tree.find([1, 2])
    with pytest.raises(ValueError, match=r"fill is 0\.1"):
        tree.bulk_load([[1, 2]], [3], fill=0.1)


def test_drawn_arrays_have_their_types_and_ranges():
    spec = _native.WorkloadSpec(lookup=0.5, scan=0.5, records=1000, max_scan_length=7)
    drawn = _native.OperationGenerator(spec).draw(5000)
    assert {name: array.dtype.name for name, array in drawn.items()} == {
        "kind": "uint8",
        "key": "uint64",
        "scan_length": "uint32",
    }
    scans = drawn["kind"] == _native.OPERATION_KINDS.index("scan")
    assert set(drawn["scan_length"][scans]) == set(range(1, 8))
    assert not drawn["scan_length"][~scans].any()
    assert np.isin(drawn["key"], _native.key_of_record(np.arange(1000), 0)).all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"lookup": 0.5}, "update + read_modify_write is 0.500000; it must be 1"),
        ({"lookup": 2.0}, "lookup is 2.000000; it must lie in"),
        ({"lookup": math.nan}, "lookup is nan"),
        ({"records": 0}, "records is 0; it must be at least 1"),
        ({"distribution": "zipf", "theta": 0.0}, "theta is 0.000000"),
        ({"distribution": "zipf", "zipf_items": 0}, "zipf_items is 0"),
        ({"distribution": "normal"}, "'uniform', 'zipf', 'zipf_ordered', 'hot_range' or 'latest'"),
    ],
)
def test_a_wrong_spec_is_refused_with_what_is_right(arguments, complaint):
    with pytest.raises(ValueError) as caught:
        _native.WorkloadSpec(**arguments)
    assert complaint in str(caught.value)


def test_a_spec_shows_itself_and_stays_as_it_is():
    spec = _native.WorkloadSpec(lookup=0.25, update=0.75, distribution="zipf", theta=1.2, seed=5)
    assert "theta=1.2" in repr(spec)
    with pytest.raises(AttributeError):
        spec.theta = 2.0
    assert "__setstate__" not in vars(_native.WorkloadSpec)  # nothing here is unpickled


def test_keys_keep_their_shape():
    records = np.arange(6).reshape(2, 3)
    keys = _native.key_of_record(records, 1)
    assert keys.shape == (2, 3) and keys[1, 2] == _native.key_of_record(5, 1)
    np.testing.assert_array_equal(_native.key_of_record(records[:, ::2], 1), keys[:, ::2])
    np.testing.assert_array_equal(_native.key_of_record(records.T, 1), keys.T)


@pytest.mark.parametrize("wrong", [[1.0], np.array([1.5]), "abc", [None], np.array([True])])
def test_keys_that_are_no_integers_are_refused(wrong):
    with pytest.raises(TypeError):
        _native.slice_of_key(wrong, 8)


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ([-1], "-1"),
        (-(2**70), str(-(2**70))),
        ([2**64], "18446744073709551616"),
        ([10**5000], "an integer of 16610 bits"),
        (np.array([3, -7, -2]), "-7"),
        (np.array([[-3]], dtype=np.int8), "-3"),
    ],
)
def test_keys_out_of_range_are_refused_by_name(wrong, shown):
    with pytest.raises(OverflowError) as caught:
        _native.slice_of_key(wrong, 8)
    assert str(caught.value) == f"{shown} was given; integers here must lie in 0 .. 2^64 - 1"


def test_wrong_slices_are_refused():
    with pytest.raises(ValueError, match="slices is 0"):
        _native.slice_of_key([1], 0)
    with pytest.raises(IndexError, match="slice is 8"):
        _native.first_key_of_slice(8, 8)

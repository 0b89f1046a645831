"""B+-tree and R-tree, as Python sees them, against dicts and lists."""

import bisect

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
    found, values = tree.lookup(asked)
    assert found.tolist() == [key in model for key in asked]
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

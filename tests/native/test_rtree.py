"""The R-tree as Python sees it; native/tests/index/rtree_test.cpp has the proofs."""

import numpy as np
import pytest

from pmoss_env._native import RTree


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


def test_impossible_arguments_are_refused() -> None:
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

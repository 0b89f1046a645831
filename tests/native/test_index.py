"""The B+-tree, as Python sees it, against dicts and sorted lists."""

import bisect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmoss_env import _native

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

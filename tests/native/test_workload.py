"""Workloads, the key space and Zipf's numbers, as Python sees them."""

import math

import numpy as np
import pytest

from pmoss_env import _native


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
        (
            {"distribution": "normal"},
            "it must be 'uniform', 'zipf', 'zipf_ordered', 'hot_range' or 'latest'",
        ),
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
    assert keys.shape == (2, 3)
    assert keys[1, 2] == _native.key_of_record(5, 1)
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

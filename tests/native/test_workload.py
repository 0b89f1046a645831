"""Workloads, the key space and Zipf's numbers, as Python sees them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmoss_env import _native

KEYS = st.integers(0, 2**64 - 1)


def test_kinds_follow_the_mix():
    spec = _native.WorkloadSpec(lookup=0.4, insert=0.1, scan=0.3, update=0.2, records=1000)
    drawn = _native.OperationGenerator(spec, 1).draw(100_000)
    shares = np.bincount(drawn["kind"], minlength=4) / 100_000
    assert _native.OPERATION_KINDS == ("lookup", "insert", "scan", "update")
    np.testing.assert_allclose(shares, [0.4, 0.1, 0.3, 0.2], atol=0.01)


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


def test_a_stream_goes_on_where_it_stopped():
    spec = _native.WorkloadSpec(distribution="zipf")
    whole = _native.OperationGenerator(spec, 3).draw(100)["key"]
    generator = _native.OperationGenerator(spec, 3)
    parts = [generator.draw(n)["key"] for n in (0, 40, 60)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    other = _native.OperationGenerator(spec, 4).draw(100)["key"]
    assert (other != whole).any()


def test_inserts_are_fresh_records():
    spec = _native.WorkloadSpec(lookup=0, insert=1, records=50, seed=9)
    keys = _native.OperationGenerator(spec, 0, 60, 3).draw(10)["key"]
    np.testing.assert_array_equal(keys, _native.key_of_record(np.arange(60, 90, 3), 9))
    keys = _native.OperationGenerator(spec).draw(2)["key"]
    np.testing.assert_array_equal(keys, _native.key_of_record([50, 51], 9))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"lookup": 0.5}, "lookup + insert + scan + update is 0.500000; it must be 1"),
        ({"lookup": 2.0}, "lookup is 2.000000; it must lie in"),
        ({"lookup": math.nan}, "lookup is nan"),
        ({"records": 0}, "records is 0; it must be at least 1"),
        ({"distribution": "zipf", "theta": 0.0}, "theta is 0.000000"),
        ({"distribution": "zipf", "zipf_items": 0}, "zipf_items is 0"),
        (
            {"distribution": "normal"},
            "it must be 'uniform', 'zipf', 'zipf_ordered' or 'hot_range'",
        ),
    ],
)
def test_a_wrong_spec_is_refused_with_what_is_right(arguments, complaint):
    with pytest.raises(ValueError) as caught:
        _native.WorkloadSpec(**arguments)
    assert complaint in str(caught.value)


def test_a_wrong_generator_is_refused():
    spec = _native.WorkloadSpec(records=100)
    with pytest.raises(ValueError, match="first_insert_record is 99"):
        _native.OperationGenerator(spec, 0, 99)
    with pytest.raises(ValueError, match="insert_stride is 0"):
        _native.OperationGenerator(spec, 0, 100, 0)
    with pytest.raises(ValueError, match="n is -1"):
        _native.OperationGenerator(spec).draw(-1)


def test_a_spec_shows_itself_and_stays_as_it_is():
    spec = _native.WorkloadSpec(lookup=0.25, update=0.75, distribution="zipf", theta=1.2, seed=5)
    assert "theta=1.2" in repr(spec)
    with pytest.raises(AttributeError):
        spec.theta = 2.0
    assert "__setstate__" not in vars(_native.WorkloadSpec)  # nothing here is unpickled


@given(st.integers(1, 3000), st.floats(0, 10))
def test_zeta_is_the_sum(items, theta):
    expected = math.fsum(i**-theta for i in range(1, items + 1))
    assert _native.zeta(items, theta) == pytest.approx(expected, rel=1e-12)


def test_zipf_probabilities_add_up():
    ranks = np.arange(1000, dtype=np.uint64)
    assert _native.zipf_probability(ranks, 1000, 0.99).sum() == pytest.approx(1.0)
    assert _native.zipf_probability(0, 10**10, 0.99) == pytest.approx(1 / 26.46902820178302)
    assert _native.zipf_probability(1000, 1000, 0.99) == 0.0
    with pytest.raises(ValueError, match="theta"):
        _native.zeta(10, -1.0)


@given(st.lists(KEYS, max_size=20), st.integers(1, 2**16))
def test_slices_are_equal_ranges(keys, slices):
    served = _native.slice_of_key(keys, slices)
    assert served.tolist() == [key * slices >> 64 for key in keys]
    for s in served.tolist():
        first = _native.first_key_of_slice(s, slices)
        assert _native.slice_of_key(first, slices) == s
        assert first == 0 or _native.slice_of_key(first - 1, slices) == s - 1


@given(st.sets(KEYS, max_size=50), KEYS)
def test_records_have_keys_of_their_own(records, seed):
    assert len(set(_native.key_of_record(list(records), seed).tolist())) == len(records)


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


def test_no_keys_have_no_slices():
    for nothing in ([], np.zeros(0, dtype=np.int64)):
        assert _native.slice_of_key(nothing, 8).shape == (0,)


def test_wrong_slices_are_refused():
    with pytest.raises(ValueError, match="slices is 0"):
        _native.slice_of_key([1], 0)
    with pytest.raises(IndexError, match="slice is 8"):
        _native.first_key_of_slice(8, 8)

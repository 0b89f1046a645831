import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env._native import ScanTable
from pmoss_env.envs.access_path.real import ENGINES, make_engine, scan
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError

THREAD = make_engine("thread")
LEAST, MOST = -(2**31), 2**31 - 1


@settings(max_examples=60)
@given(
    values=st.lists(st.one_of(st.integers(0, 5), st.integers(LEAST, MOST)), max_size=3000),
    low=st.integers(LEAST, MOST),
    high=st.integers(LEAST, MOST),
    small=st.booleans(),
    capacity=st.one_of(st.none(), st.integers(0, 50)),
    offset=st.integers(0, 3),
)
def test_every_path_equals_the_reference(values, low, high, small, capacity, offset):
    if small:
        low, high = 1, 3
    raw = np.zeros(4 * len(values) + offset, dtype=np.uint8)
    raw[offset:] = np.array(values, dtype=np.int32).view(np.uint8)
    column = raw[offset:].view(np.int32)  # at any address
    expected = [i for i, value in enumerate(values) if low <= value <= high]
    for engine in (None, THREAD):
        for isa in ("", "scalar"):
            result = scan(column, low, high, engine=engine, capacity=capacity, block_kib=4, isa=isa)
            assert result.positions.tolist() == expected
            assert result.offloaded == (engine is not None and len(values) > 0)


def test_a_buffer_that_is_too_small_is_reported_and_made_larger():
    values = np.arange(10_000, dtype=np.int32)
    result = scan(values, 100, 8_999, capacity=10, engine=THREAD)
    assert np.array_equal(result.positions, np.arange(100, 9_000))
    assert "8900 positions did not fit a buffer of 10" in result.reason


def test_an_empty_table_is_not_offloaded_and_says_so():
    result = scan(np.zeros(0, np.int32), 0, 1, engine=THREAD)
    assert result.positions.size == 0
    assert "empty" in result.reason


def test_a_host_without_the_engine_scans_with_loads_and_says_why():
    result = scan(np.arange(100, dtype=np.int32), 5, 9, engine="dsa")
    assert result.positions.tolist() == [5, 6, 7, 8, 9]
    try:
        make_engine("dsa")
    except UnsupportedError as error:
        assert str(error) in result.reason
        assert not result.offloaded
    else:
        assert result.offloaded
    assert set(ENGINES) == {"thread", "dsa"}


def test_impossible_scans_are_refused():
    column = np.arange(10, dtype=np.int32)
    for values, low, options, words in [
        (column.astype(np.int64), 0, {}, "int32"),
        (column[::2], 0, {}, "gaps"),
        (column, -(2**40), {}, "low"),
        (column, 0, {"capacity": -1}, "capacity"),
        (column, 0, {"engine": THREAD, "block_kib": 0}, "block_kib"),
        (column, 0, {"isa": "sse"}, "isa"),
    ]:
        with pytest.raises(DescriptionError, match=words):
            scan(values, low, 1, **options)
    with pytest.raises(UnknownNameError):
        scan(column, 0, 1, engine="gru")


def test_a_range_for_no_match_is_scanned_to_the_end():
    low, high = ScanTable.range_of(0.0)
    assert low <= high
    # Tables hold no such value. A column that does shows that every row is looked at.
    assert scan(np.full(1000, low, np.int32), low, high).positions.size == 1000
    table = ScanTable(1000, 1)
    assert table.scan(low, high, rows=1000, capacity=1000)["matches"] == 0

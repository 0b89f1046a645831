"""Core-to-core latencies from a CSV file."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_env.errors import DescriptionError
from pmoss_env.machines.importing.latency_matrix import class_medians, read_latencies


def test_empty_cells_and_the_diagonal_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "c2c.csv"
    path.write_bytes(b"\xef\xbb\xbf0, 5.5,\r\n,0,\r\n7,8,\r\n\r\n")
    values = read_latencies(path, 3)
    nan = np.nan
    np.testing.assert_array_equal(values, [[nan, 5.5, nan], [nan, nan, nan], [7, 8, nan]])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty: must have 2 rows"),
        (",\n", "row 1: has 2 columns, but there are 1 rows: must be square"),
        (",1\n1\n", "row 2: has 1 columns"),
        (",1,2\n1,,2\n1,2,\n", "is 3 x 3: must be 2 x 2"),
        (",fast\n1,\n", "row 1, column 2: 'fast' is not a number"),
        (",1\nnan,\n", "row 2, column 1: 'nan' is not a number"),
        (",inf\n1,\n", "row 1, column 2: 'inf'"),
        (",0\n1,\n", "row 1, column 2: '0': must be"),
        ("-1,2\n1,\n", "row 1, column 1: '-1': must be"),
        ("0,\n,0\n", "has no latency between two CPUs"),
        ("\xff", "is not text: byte 0"),
    ],
)
def test_what_is_no_matrix_of_latencies_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "c2c.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DescriptionError, match=rf"c2c.csv: {complaint}"):
        read_latencies(path, 2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"none.csv: cannot be read: No such file"):
        read_latencies(tmp_path / "none.csv", 2)


def test_medians_are_taken_by_class() -> None:
    nan = np.nan
    latencies = np.array(
        [
            [nan, 7, 20, 60, 130],
            [nan, nan, 22, 62, 140],
            [nan, nan, nan, 64, nan],
            [nan, nan, nan, nan, 150],
            [nan, nan, nan, nan, nan],
        ]
    )
    hops = np.zeros((5, 5), dtype=np.int32)
    hops[4, :4] = hops[:4, 4] = 1
    medians = class_medians(
        latencies,
        np.array([0, 0, 1, 2, 3], dtype=np.int32),
        np.array([0, 0, 0, 1, 2], dtype=np.int32),
        hops,
    )
    assert {name: (m.ns, m.pairs) for name, m in medians.items()} == {
        "smt": (7, 1),
        "same_llc": (21, 2),
        "same_socket": (62, 3),
        "other_socket": (140, 3),
    }

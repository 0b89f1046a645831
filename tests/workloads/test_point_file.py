"""Points of a file: where they lie in the plane, who serves them, and files that are refused."""

import io
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_workload, record_shares
from pmoss_env.errors import DescriptionError
from pmoss_env.files import file_stamp
from pmoss_env.types import HardwareSnapshot, Instance
from pmoss_env.workloads import Workload, load_workload, point_file
from pmoss_env.workloads.point_file import points_of_file

#: Rows of the grid, and its columns.
SIDE = 4
#: Records of recordings that take a second.
SMALL: dict[str, dict[str, Any]] = {
    "analytic": {"machine": "toy"},
    "simulated": {"machine": "toy", "queries": 20_000, "line_sampling": 1},
    "hardware": {
        **{"machine": "host", "seconds": 0.2, "warmup_seconds": 0.02, "own_process": False},
    },
}


def cities(n: int = 40_000, seed: int = 0) -> np.ndarray:
    """Longitudes and latitudes in clusters of unequal size, sorted as files often are."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform((-80, 38), (-67, 47), (20, 2))
    chosen = rng.choice(20, n, p=rng.dirichlet(np.ones(20)))
    return np.sort(centres[chosen] + rng.normal(0, 0.3, (n, 2)), axis=0)


def saved(path: Path, points: Any, **options: Any) -> str:
    np.save(path, points, **options)
    return f"points:{path}"


def counted(points: np.ndarray) -> np.ndarray:
    """Share of the points in each cell of their bounding box."""
    low, high = points.min(axis=0), points.max(axis=0)
    cell = np.minimum((points - low) / (high - low) * SIDE, SIDE - 1).astype(int)
    return np.bincount(cell[:, 1] * SIDE + cell[:, 0], minlength=SIDE**2) / len(points)


def loaded(file: str, **changes: Any) -> Workload:
    """The workload of a file with small ranges, which are quick to record."""
    return replace(load_workload(file), max_scan_length=1, **changes)


def measured(backend: str, workload: Workload, seed: int = 0, **options: Any) -> HardwareSnapshot:
    options |= {"workload": workload, "index": "rtree", "slices": SIDE**2}
    subject = make_backend(backend, **SMALL[backend], **options)
    subject.set_instance(Instance(seed))
    workers = np.resize(subject.machine.workers, SIDE**2)
    try:
        return subject.measure(subject.machine.local_schedule(workers), seed=seed)
    finally:
        subject.close()


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-300, 2e306])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_bounding_box_is_the_plane(tmp_path: Path, scale: float, kind: type) -> None:
    if kind is np.float32 and abs(scale) != 1.0:
        scale = 1e30
    points = (cities() * scale).astype(kind)
    workload = load_workload(saved(tmp_path / "cities.npy", points))
    assert (workload.name, workload.index) == ("points-cities.npy", "rtree")
    assert (workload.records, workload.scan) == (len(points), 1.0)
    shares = np.array(record_shares(workload, SIDE**2))
    # A point on a border may be rounded to the other side.
    assert np.abs(shares - counted(points.astype(np.float64))).max() < 1.5 / len(points)


def test_few_of_a_sorted_file_lie_where_all_do(tmp_path: Path) -> None:
    points = cities()
    workload = load_workload(saved(tmp_path / "points.npy", points))
    few = np.array(record_shares(replace(workload, records=10_000), SIDE**2))
    assert np.abs(few - counted(points)).max() < 0.02
    assert np.abs(few - counted(points)).max() > 0.0
    with pytest.raises(DescriptionError, match=r"records is 40001; .* at most the 40000 points"):
        native_workload(replace(workload, records=40_001))


@pytest.mark.parametrize("backend", SMALL)
def test_slices_serve_what_lies_in_their_cells(tmp_path: Path, backend: str) -> None:
    points = cities()
    served = measured(backend, loaded(saved(tmp_path / "points.npy", points))).slice_throughput
    assert np.abs(served / served.sum() - counted(points)).max() < 0.02


@pytest.mark.parametrize("backend", ["analytic", "simulated"])
@pytest.mark.parametrize("distribution", ["uniform", "hot_range"])
def test_a_copy_of_a_file_gives_the_same_bits(tmp_path, backend, distribution):
    throughputs = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        file = saved(tmp_path / f"{name}.npy", cities(10_000, seed))
        workload = loaded(file, distribution=distribution)
        throughputs.append(measured(backend, workload, seed=3).throughput)
    assert throughputs[0] == throughputs[1] != throughputs[2]


@pytest.mark.parametrize("backend", SMALL)
@pytest.mark.parametrize("records", [20_000, 40_000])
def test_inserts_take_the_other_points_and_then_new_ones(tmp_path, backend, records):
    file = saved(tmp_path / "points.npy", cities())
    assert measured(backend, loaded(file, insert=0.5, scan=0.5, records=records)).throughput > 0


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = saved(tmp_path / "points.npy", cities(1000))
    assert load_workload(file).records == 1000
    assert points_of_file(str(tmp_path / "points.npy")) is points_of_file(
        str(tmp_path / "points.npy")
    )
    saved(tmp_path / "points.npy", cities(2000))
    assert load_workload(file).records == 2000


def _npy(header: str, body: bytes = bytes(64)) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + body


def _of(points: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, points, **options)
    return file.getvalue()


GOOD = np.arange(8.0).reshape(4, 2)
HEADER = "{{'descr': {}, 'fortran_order': False, 'shape': ({}), }}\n"
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is no .npy file"),
    "text": (b"1.0,2.0\n" * 100, "is no .npy file"),
    "pickle": (pickle.dumps(GOOD), "is no .npy file"),
    "objects": (_of(np.array([[{}, 1.0]] * 3), allow_pickle=True), r"type '\|O'"),
    "records": (_of(np.zeros(4, "f8,f8")), "has the type \\["),
    "integers": (_of(GOOD.astype(int)), "type '<i8': must be '<f8' or '<f4'"),
    "halves": (_of(GOOD.astype(np.float16)), "type '<f2'"),
    "big endian": (_of(GOOD.astype(">f8")), "type '>f8'"),
    "one column": (_of(GOOD[:, 0]), r"shape \(4,\): must be \(n, 2\)"),
    "three columns": (_of(np.zeros((2, 3))), r"shape \(2, 3\)"),
    "three dimensions": (_of(np.zeros((2, 2, 2))), r"shape \(2, 2, 2\)"),
    "columns first": (_of(np.asfortranarray(GOOD)), "must be in C order"),
    "no points": (_of(GOOD[:0]), r"shape \(0, 2\).*n of at least 2"),
    "one point": (_of(GOOD[:1]), r"shape \(1, 2\).*n of at least 2"),
    "not a number": (_of([[0, 1], [2, np.nan], [3, 4]]), r"row 1 is \[2.0, nan\]: must be finite"),
    "infinite": (_of([[0, 1], [2, 3.0], [-np.inf, 4]]), r"row 2 is \[-inf, 4.0\]"),
    "no width": (_of([[0.5, 1], [0.5, 2]]), "column 0 is 0.5 in all rows"),
    "no height": (_of([[0.5, 2], [0.7, 2]]), "column 1 is 2.0 in all rows"),
    "cut": (_of(GOOD)[:-1], "announces 4 points but holds 63 bytes"),
    "too long": (_of(GOOD) + b"\0", "announces 4 points but holds 65 bytes"),
    "cut in the header": (_of(GOOD)[:40], "is no .npy file"),
    "lies": (_npy(HEADER.format("'<f8'", "999999999999999, 2")), "announces 999999999999999"),
    "lies more": (_npy(HEADER.format("'<f8'", "9" * 90 + ", 2")), "has the shape"),
    "minus": (_npy(HEADER.format("'<f8'", "-4, 2")), "is no .npy file"),
    "code": (_npy(HEADER.format("__import__('os')", "4, 2")), "has the type __import__"),
    "nested": (_npy("(" * 60_000), "is no .npy file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(tmp_path: Path, name: str) -> None:
    content, complaint = BAD[name]
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(DescriptionError, match=f"bad.npy: .*{complaint}") as refused:
        load_workload(f"points:{path}")
    assert "np.save(FILE, points)" in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"none.npy: cannot be read: No such file"):
        load_workload(f"points:{tmp_path / 'none.npy'}")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda path: os.truncate(path, 70_000), "was cut while it was read"),
        (lambda path: os.utime(path, ns=(0, 0)), "was changed while it was read"),
    ],
)
def test_a_file_that_changes_meanwhile_is_refused(tmp_path, monkeypatch, change, complaint):
    path = tmp_path / "points.npy"
    file, chunks = saved(path, cities()), point_file._chunks

    def changing(*arguments):
        for part in chunks(*arguments):
            change(path)
            yield part

    monkeypatch.setattr(point_file, "_CHUNK", 1000)
    monkeypatch.setattr(point_file, "_chunks", changing)
    with pytest.raises(DescriptionError, match=complaint):
        load_workload(file)
    assert file_stamp(path) is not None


def test_a_set_refuses_what_it_cannot_hold() -> None:
    points = _native.PointSet(3)
    assert points.size == 3
    with pytest.raises(ValueError, match="2 points from number 2 on were given to a set of 3"):
        points.set(2, np.zeros((2, 2), dtype=np.uint32))
    with pytest.raises(ValueError, match="two columns"):
        points.set(0, np.zeros((2, 3), dtype=np.uint32))
    with pytest.raises(ValueError, match="at least 2"):
        _native.PointSet(1)

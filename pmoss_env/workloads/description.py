"""A workload description: operation mix, key distribution and size. Read from TOML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pmoss_env.checks import check_keys, check_type
from pmoss_env.errors import DescriptionError
from pmoss_env.files import read_toml
from pmoss_env.indexes import DEFAULT, holds_points, index_names

FRACTIONS = ("lookup", "insert", "scan", "update", "read_modify_write")
DISTRIBUTIONS = ("uniform", "zipf", "zipf_ordered", "hot_range", "latest")
#: Key spaces without a file; "sosd:<path>" takes the keys of a file, "points:<path>" its points.
KEY_SPACES = ("scattered", "clustered")
SOSD, POINTS = "sosd:", "points:"
#: Bytes of a value that every index holds and the models know, and of the largest.
WORD_BYTES, MAX_VALUE_BYTES = 8, 1024
#: Largest values that the generator and the workers' queues support.
_MAX = {"zipf_items": 2**40, "records": 2**39 - 1, "max_scan_length": 2**16 - 1}


@dataclass(frozen=True)
class Workload:
    """The queries of an index.

    Attributes:
        name: catalogue name.
        description: one line.
        source: section of a paper, or file.
        lookup: share of point lookups of existing keys, 0 to 1; the five shares sum to 1.
        insert: share of inserts of new keys, distributed over the key space like the loaded ones.
        scan: share of range scans.
        update: share of updates of existing keys.
        distribution: choice of existing keys: "uniform", "zipf" (scrambled: hot keys lie anywhere),
            "zipf_ordered" (ranks in the order of the keys, from a place on that the workload
            instance decides: hot keys are neighbours; for a B+-tree only), "hot_range" (a range of
            neighbouring keys is uniformly hot) or "latest" (YCSB's: Zipf over the age of the
            records, the newest first; for a B+-tree only). A client's last 256 inserts are not
            read: they may be on their way. On the analytic backend, which has no time, the newest
            of the loaded records are hot.
        theta: exponent of the Zipf distribution.
        zipf_items: for "zipf" and "zipf_ordered": items of the Zipf distribution; YCSB's scrambled
            form draws from 10^10, so that the hottest key gets 3.78 % of the draws. Ranks beyond
            the records are drawn uniformly.
        records: number of loaded records.
        max_scan_length: a scan's length is uniform in 1 to this, in entries. On points it is the
            mean number in a square of its area over the whole plane; around a point of clustered
            data it is larger.
        keys: key space: "scattered" (uniform), "clustered" (clusters within clusters, as in map
            data; synthetic) or "sosd:<path>", a file in the format of the SOSD benchmark (a count
            and that many ascending keys, 64-bit, little-endian). Slices are key ranges of equal
            width, so that they differ in size where keys are not uniform, and may be empty. For an
            R-tree "points:<path>": a file by ``np.save``, of an (n, 2) array of float64 or float32
            in C order. The bounding box of its points becomes the plane: each coordinate is scaled
            by its least and its largest value. A fixed pseudo-random order numbers the points.
            Inserts take those behind the loaded ones, and then new ones beside those of the file.
        hot_share: for "hot_range": share of the choices in the hot range.
        hot_fraction: for "hot_range": share of the records in the hot range.
        drift: for "hot_range": share of the records by which the range moves per million choices of
            all clients together. On the analytic backend, which has no time, it stays at the place
            that the workload instance decides.
        index: index kind of the workload, a name of pmoss_env.indexes: "btree" or "rtree". The
            records of an R-tree are points in the plane, the same in every instance; "clustered"
            ones are a synthetic substitute for OpenStreetMap's US Northeast. Scans are square
            ranges, centred on records; the hot range is a square region; slices are the cells of a
            grid.
        read_modify_write: share of lookups that are followed by an update of the same key. As in
            YCSB, the index sees two operations, and both count as queries.
        value_bytes: of each record, a multiple of 8 up to 1024. Larger values than 8 are for the
            hardware backend, where they are read and written whole. In the B+-tree and the R-tree
            they lie beside the tree in the memory of their slice, and their pages move with it. A
            library holds them where it has open_words() of pmoss/index.h.
    """

    name: str
    description: str
    source: str
    lookup: float
    insert: float
    scan: float
    update: float
    distribution: str
    theta: float
    zipf_items: int
    records: int
    max_scan_length: int
    keys: str = "scattered"
    hot_share: float = 0.9
    hot_fraction: float = 0.05
    drift: float = 0.0
    index: str = DEFAULT
    read_modify_write: float = 0.0
    value_bytes: int = WORD_BYTES

    def __post_init__(self) -> None:
        shares = [getattr(self, name) for name in FRACTIONS]
        if any(not 0 <= share <= 1 for share in shares) or not math.isclose(sum(shares), 1.0):
            raise DescriptionError(
                f"shares {dict(zip(FRACTIONS, shares, strict=True))}: "
                "each must lie in [0, 1] and they must sum to 1"
            )
        if self.distribution not in DISTRIBUTIONS:
            raise DescriptionError(
                f"distribution = {self.distribution!r}: must be one of {DISTRIBUTIONS}"
            )
        if not 0 < self.theta <= 10:
            raise DescriptionError(f"theta = {self.theta}: must lie in (0, 10]")
        if self.keys not in KEY_SPACES and not self.keys.startswith((SOSD, POINTS)):
            raise DescriptionError(
                f"keys = {self.keys!r}: must be one of {KEY_SPACES}, {SOSD}<path> or {POINTS}<path>"
            )
        if not 0 <= self.hot_share <= 1:
            raise DescriptionError(f"hot_share = {self.hot_share}: must lie in [0, 1]")
        if not 1e-4 <= self.hot_fraction <= 0.5:
            raise DescriptionError(f"hot_fraction = {self.hot_fraction}: must lie in [0.0001, 0.5]")
        if not 0 <= self.drift <= 1e6:
            raise DescriptionError(f"drift = {self.drift}: must lie in [0, 1e6]")
        for name, maximum in _MAX.items():
            if not 1 <= getattr(self, name) <= maximum:
                raise DescriptionError(
                    f"{name} = {getattr(self, name)}: must lie between 1 and {maximum}"
                )
        if not WORD_BYTES <= self.value_bytes <= MAX_VALUE_BYTES or self.value_bytes % WORD_BYTES:
            raise DescriptionError(
                f"value_bytes = {self.value_bytes}: must be a multiple of {WORD_BYTES} up to "
                f"{MAX_VALUE_BYTES}"
            )
        if self.index not in index_names():
            raise DescriptionError(
                f"index = {self.index!r}: must be one of {index_names()}; a library of yours must "
                "be registered (pmoss_env.indexes.register_plugin)"
            )
        if holds_points(self.index):
            self._check_points()
        elif self.keys.startswith(POINTS):
            raise DescriptionError(
                f"keys = {self.keys!r}: index = {self.index!r} holds no points; use index = 'rtree'"
            )

    def _check_points(self) -> None:
        """Checks for values that native/workload/points.hpp does not support."""
        for name in ("update", "read_modify_write"):
            if share := getattr(self, name):
                raise DescriptionError(f"{name} = {share}: must be 0, for points do not move")
        if self.distribution == "latest":
            raise DescriptionError("distribution = 'latest': points in the plane have no age")
        if self.keys.startswith(SOSD):
            raise DescriptionError(
                f"keys = {self.keys!r}: of points must be one of {KEY_SPACES} or {POINTS}<path>"
            )
        if self.distribution == "zipf_ordered":
            raise DescriptionError(
                f"distribution = {self.distribution!r}: points in the plane have no order"
            )
        if self.distribution == "hot_range" and self.hot_fraction < 0.01:
            raise DescriptionError(
                f"hot_fraction = {self.hot_fraction}: of points must be at least 0.01"
            )
        if self.drift != 0:
            raise DescriptionError(f"drift = {self.drift}: must be 0, for hot regions stay")

    @classmethod
    def from_toml(cls, path: Path) -> Workload:
        """Reads a workload file; raises DescriptionError naming file, key and reason."""
        return read_toml(path, cls.from_dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Workload:
        """Builds a workload from the contents of a workload file."""
        types = {field.name: field.type for field in fields(cls)}
        required = [field.name for field in fields(cls) if field.default is MISSING]
        check_keys("", data, types, required)
        for key, value in data.items():
            check_type(key, types[key], value)
        return cls(**data)


def resized(workload: Workload, records: int | None) -> Workload:
    """The workload with another number of records; None keeps it."""
    if records is None:
        return workload
    check_type("records", int, records)
    return replace(workload, records=records)

"""The original's recorded snapshots ("knowledge base"): one folder of text per NUMA node.

Corrections: sweeps (ticks) are numbered from the start of a run and what accumulates over a run is
differenced; counters, kept as sums of events per thousand instructions over samples of 100 queries,
become means; the nodes' folders are added. The first tick of a run, whose start is not recorded, is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pmoss_datasets.original.machine_file import MachineFile
from pmoss_datasets.original.numbers import read_table, whole
from pmoss_env.errors import DatasetError
from pmoss_env.types import BoolArray, Float64Array, Int32Array

SLICES = 256
#: Config, tick, workload, index: what every row begins with.
_HEAD = 4
#: Seconds between two sweeps, and of the window in which memory and links are observed.
SWEEP_SECONDS, WINDOW_SECONDS = 40.0, 30.0
#: Queries of one sample of the counters.
SAMPLE = 100

_FIRST = ("cycles", "instructions", "l1d_misses", "l1i_misses")
_INTEL = (
    *_FIRST,
    "llc_misses",
    "branch_misses",
    "memory_misses",
    "dtlb_misses",
    "memory_accesses",
    "llc_write_misses",
    "memory_write_misses",
    "local_dram",
    "remote_dram",
)
#: Events of each vendor's layout, in the order of the files; the canonical name where ours is the
#: same event.
EVENTS: Mapping[str, tuple[str, ...]] = {
    "intel_skx": (*_INTEL, "cycles_l3_miss", "cycles_mem_any", "task_clock_ns"),
    "intel_sb": (*_INTEL, "qpi_rx_flits", "qpi_tx_flits", "task_clock_ns"),
    "amd": (
        *_FIRST,
        "branch_misses",
        "dtlb_misses",
        "fills_local_l2",
        "fills_internal_cache",
        "fills_external_cache_local",
        "fills_memory_local",
        "fills_external_cache_remote",
        "fills_memory_remote",
        "task_clock_ns",
    ),
    "nvidia": (
        *_FIRST,
        "llc_misses",
        "branch_misses",
        "dtlb_misses",
        "llc_write_misses",
        "bus_accesses",
        "memory_reads",
        "memory_writes",
        "stall_backend_memory",
        "task_clock_ns",
    ),
}
#: Layouts that keep the last sample's instructions in place of their sum.
_LAST_INSTRUCTIONS = ("amd", "nvidia", "intel_sb")
_INSTRUCTIONS = 1
_WIDTHS = tuple(sorted({_HEAD + SLICES * len(names) + SLICES for names in EVENTS.values()}))
#: A sum that no sample can leave: what uninitialised memory looks like.
_DENORMAL = 1e-300
_SOCKETS, _CHANNELS, _LINKS = 4, 6, 3


@dataclass(frozen=True)
class KnowledgeBase:
    """Snapshots, one per sweep after the first of each run; N of them.

    Attributes:
        vendor: key of EVENTS.
        events: (E,) names.
        config: (N,) int32, id of the schedule that ran.
        workload: (N,) int32, the original's workload id.
        index: (N,) int32, 0 B+-tree, 1 R-tree.
        tick: (N,) int32, sweep within its run, from 1.
        queries: (N, 256) float64, queries of each slice in the sweep.
        samples: (N, 256) float64, samples of 100 queries in the sweep.
        counters: (N, 256, E) float64, mean events per thousand instructions; NaN where a slice has
            no sample, or memory that was never set. Instructions themselves are per query, and NaN
            where only those of the last sample were kept.
        dropped: (N, 256) bool, slices whose counters were negative, infinite or denormal.
        memory_mb_per_s: (N, nodes, 2) float64, read and written, 10^6 bytes per second; NaN where
            not recorded.
        link_gb_per_s: (N, sockets, 2) float64, in and out, 10^9 bytes per second; likewise.
        cumulative_queries: (rows,) float64, sum over slices as recorded, first ticks included.
        home_nodes: (256,) int32, the node in whose folder alone a slice appears; -1 for none or
            several.
        slices_per_folder: (nodes,) int32, slices with data in each node's folder.
    """

    vendor: str
    events: tuple[str, ...]
    config: Int32Array
    workload: Int32Array
    index: Int32Array
    tick: Int32Array
    queries: Float64Array
    samples: Float64Array
    counters: Float64Array
    dropped: BoolArray
    memory_mb_per_s: Float64Array
    link_gb_per_s: Float64Array
    cumulative_queries: Float64Array
    home_nodes: Int32Array
    slices_per_folder: Int32Array

    @property
    def throughput_kq_per_s(self) -> Float64Array:
        """(N,) thousand queries per second of each sweep."""
        total: Float64Array = self.queries.sum(axis=1) / SWEEP_SECONDS / 1e3
        return total

    @property
    def slice_share(self) -> Float64Array:
        """(256,) share of all queries that each slice serves."""
        share: Float64Array = self.queries.sum(axis=0) / self.queries.sum()
        return share


def read_knowledge_base(folder: str | Path, machine: MachineFile) -> KnowledgeBase:
    """Reads and corrects the folders of all sweepers.

    Raises:
        DatasetError: a file is missing, cut short, of another layout, or does not fit the others;
            names file and row.
    """
    folder = Path(folder)
    places = [folder / str(cpu) for cpu in machine.sweepers]
    views = [read_table(place / "data_view.txt", _WIDTHS) for place in places]
    counts = [read_table(place / "query-exec_view.txt", (_HEAD + SLICES,)) for place in places]
    rows = len(views[0])
    if rows == 0:
        raise DatasetError(f"{places[0] / 'data_view.txt'}: holds no row")
    for place, view, count in zip(places, views, counts, strict=True):
        for name, table in (("data_view.txt", view), ("query-exec_view.txt", count)):
            if len(table) != rows or table.shape[1] not in (views[0].shape[1], _HEAD + SLICES):
                raise DatasetError(
                    f"{place / name}: {table.shape}: does not fit {places[0]}, which has {rows} "
                    f"rows of {views[0].shape[1]}"
                )
            if not np.array_equal(table[:, :_HEAD], views[0][:, :_HEAD]):
                raise DatasetError(f"{place / name}: its runs and ticks are not those of the first")
            counted = table[:, -SLICES:]  # the samples in the one file, the queries in the other
            wrong = np.argwhere(~(np.isfinite(counted) & (counted >= 0)))
            if wrong.size:
                row, slice_ = wrong[0]
                raise DatasetError(
                    f"{place / name}: row {row + 1}: slice {slice_}: {counted[row, slice_]}: must "
                    "be a count, finite and from 0 on"
                )
    head = np.array(whole(places[0] / "data_view.txt", list(views[0][:, :_HEAD])), dtype=np.int32)
    vendor = _vendor(machine.name, views[0].shape[1], places[0])
    events = EVENTS[vendor]
    width = len(events)
    sums = np.array([v[:, _HEAD : _HEAD + SLICES * width] for v in views])
    sums = sums.reshape(len(places), rows, SLICES, width)
    samples = np.array([v[:, _HEAD + SLICES * width :] for v in views])
    executed = np.array([c[:, _HEAD:] for c in counts])
    appears = executed.max(axis=1) > 0
    total = executed.sum(axis=0)

    later, before = _ticks(head)
    sound = ((sums == 0) | (np.abs(sums) > _DENORMAL)) & np.isfinite(sums)
    broken = ~sound.all(axis=(0, 3)) | (sums < 0).any(axis=(0, 3))
    with np.errstate(over="ignore", invalid="ignore"):
        delta = (sums[:, later] - sums[:, before]).sum(axis=0)
    taken = samples[:, later].sum(axis=0) / SAMPLE
    dropped = broken[later] | broken[before] | (delta < 0).any(axis=2)
    usable = (taken > 0) & ~dropped
    counters = np.full(delta.shape, np.nan)
    np.divide(delta, taken[..., None], out=counters, where=usable[..., None])
    if vendor in _LAST_INSTRUCTIONS:
        counters[..., _INSTRUCTIONS] = np.nan
    else:
        counters[..., _INSTRUCTIONS] /= SAMPLE  # of one query, where the sum is of 100
    queries = total[later] - total[before]
    if (queries < 0).any():
        row = int(np.argwhere(queries < 0)[0, 0])
        raise DatasetError(f"{folder}: query-exec_view.txt: row {later[row] + 1}: counts go back")
    memory, links = _channels(places[0] / "mem-channel_view.txt", machine, rows)
    alone = appears.sum(axis=0) == 1
    return KnowledgeBase(
        vendor=vendor,
        events=events,
        config=head[later, 0],
        workload=head[later, 2],
        index=head[later, 3],
        tick=(later - _starts(head)[later]).astype(np.int32),
        queries=queries,
        samples=taken,
        counters=counters,
        dropped=dropped,
        memory_mb_per_s=memory[later],
        link_gb_per_s=links[later],
        cumulative_queries=total.sum(axis=1),
        home_nodes=np.where(alone, appears.argmax(axis=0), -1).astype(np.int32),
        slices_per_folder=appears.sum(axis=1).astype(np.int32),
    )


def _vendor(machine: str, width: int, where: Path) -> str:
    matching = [
        vendor
        for vendor, events in EVENTS.items()
        if width == _HEAD + SLICES * len(events) + SLICES
    ]
    named = [vendor for vendor in matching if machine.startswith(vendor)]
    if not named:
        raise DatasetError(
            f"{where}: {width} columns: the layout of {' or '.join(matching)}, but the machine is "
            f"{machine}"
        )
    return named[0]


def _starts(head: Int32Array) -> Int32Array:
    """(rows,) the row with which each row's run begins: runs are appended one after the other."""
    begins = np.ones(len(head), dtype=bool)
    same = (head[1:, [0, 2, 3]] == head[:-1, [0, 2, 3]]).all(axis=1)
    begins[1:] = ~(same & (head[1:, 1] > head[:-1, 1]))
    return np.maximum.accumulate(np.where(begins, np.arange(len(head)), 0)).astype(np.int32)


def _ticks(head: Int32Array) -> tuple[Int32Array, Int32Array]:
    """The rows that have a row of the same run before them, and those rows."""
    starts = _starts(head)
    later = np.flatnonzero(starts != np.arange(len(head))).astype(np.int32)
    if later.size == 0:
        raise DatasetError("data_view.txt: no run has more than one tick: nothing to difference")
    return later, later - 1


def _channels(path: Path, machine: MachineFile, rows: int) -> tuple[Float64Array, Float64Array]:
    """Memory and link traffic per row; NaN where the file is empty or absent, or of other ways."""
    memory = np.full((rows, machine.nodes, 2), np.nan)
    links = np.full((rows, machine.sockets, 2), np.nan)
    channels, ways = _SOCKETS * _CHANNELS, _SOCKETS * _LINKS
    if not path.is_file() or path.stat().st_size == 0:
        return memory, links
    table = read_table(path, (_HEAD + 2 * (channels + ways),))
    if len(table) != rows:
        raise DatasetError(f"{path}: {len(table)} rows: must be {rows}")
    if channels % machine.nodes == 0 and machine.sockets == _SOCKETS:
        both = table[:, _HEAD : _HEAD + 2 * channels].reshape(rows, 2, machine.nodes, -1)
        memory = np.moveaxis(both.sum(axis=3), 1, 2)
        both = table[:, _HEAD + 2 * channels :].reshape(rows, 2, _SOCKETS, _LINKS)
        links = np.moveaxis(both.sum(axis=3), 1, 2) / WINDOW_SECONDS / 1e9
    return memory, links

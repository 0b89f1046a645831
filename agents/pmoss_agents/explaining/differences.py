"""The counter differences of two schedules, per core, node, memory channel and link."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pmoss_env.counter_table import Counter
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTER_NAMES,
    COUNTERS,
    Float64Array,
    HardwareSnapshot,
    Schedule,
)

Kind = Literal["machine", "node", "channel", "link", "core"]
Matches = Sequence[re.Match[str]]
#: A memory or link that is used more than this can take little more.
SATURATED = 0.85
_CHANNEL = re.compile(r"node(\d+)_(\w+)_gb_per_s")
#: The machine's parameter for the bandwidth of a memory, by direction.
_DIRECTIONS = {"read": "dram_gb_per_s", "write": "dram_write_gb_per_s"}
_LINK = re.compile(r"link(\d+)to(\d+)_gb_per_s")


@dataclass(frozen=True)
class Run:
    """One schedule and what it measured, with automatic NUMA balancing on, off, or as it is."""

    name: str
    schedule: Schedule
    snapshot: HardwareSnapshot
    balancing: bool | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """P places of one kind with Q quantities each, under both schedules.

    Attributes:
        kind: what the places are.
        places: (P,) their names.
        quantities: (Q,) names.
        units: (Q,) of the quantities.
        before: (P, Q) float64 under the first schedule, NaN where it was not counted.
        after: (P, Q) float64 under the second.
    """

    kind: Kind
    places: tuple[str, ...]
    quantities: tuple[str, ...]
    units: tuple[str, ...]
    before: Float64Array
    after: Float64Array

    def column(self, quantity: str) -> tuple[Float64Array, Float64Array]:
        """The (P,) values of a quantity before and after; UnknownNameError if there is none."""
        if quantity not in self.quantities:
            raise UnknownNameError(f"quantity of a {self.kind}", quantity, self.quantities)
        column = self.quantities.index(quantity)
        return self.before[:, column], self.after[:, column]

    def row(self, place: int, quantities: Sequence[str]) -> list[str]:
        """A place and the values of quantities before and after, as people read them."""
        cells = [self.places[place]]
        for name in quantities:
            before, after = self.column(name)
            unit = self.units[self.quantities.index(name)]
            cells.append(f"{_amount(before[place], unit)} → {_amount(after[place], unit)}")
        return cells

    def ranked(self, quantities: Sequence[str] | None = None) -> list[int]:
        """The places in which something was counted, biggest difference first.

        Differences are taken in units of the quantity's largest value at any place (the counters
        of the whole machine: each in units of itself); a place counts with its largest difference.
        Places that are alike keep their order.

        Args:
            quantities: which count; all if None.
        """
        chosen = [self.quantities.index(name) for name in quantities or self.quantities]
        before, after = self.before[:, chosen], self.after[:, chosen]
        values = np.abs(np.stack([before, after]))
        together = 0 if self.kind == "machine" else (0, 1)
        scale = np.max(values, axis=together, initial=0.0, where=np.isfinite(values))
        size = np.abs(after - before) / np.where(scale > 0, scale, 1.0)
        counted = np.any(np.isfinite(size), axis=1)
        largest = np.max(size, axis=1, initial=0.0, where=np.isfinite(size))
        return [int(place) for place in np.argsort(-largest, kind="stable") if counted[place]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two schedules of the same machine, workload and load.

    Attributes:
        tables: by kind. "machine" has one place per counter, with its rate and its count per
            query; "core" and "node" have the slices and every counter, nodes also their memory's
            traffic; "channel" the traffic of each node's memory by direction; "link" that of each
            directed link. ``use`` is a share of the bandwidth that the machine's file gives.
    """

    machine: Machine
    before: Run
    after: Run
    tables: dict[Kind, Table]

    @property
    def runs(self) -> tuple[Run, Run]:
        """Both, the first one first."""
        return self.before, self.after


def compare(machine: Machine, before: Run, after: Run) -> Comparison:
    """Compares two schedules.

    Where workers share slices, what a slice counts is divided evenly among its workers.

    Raises:
        DescriptionError: they differ in slices or load, so that they cannot be compared.
    """
    for what, first, second in (
        ("slices", before.schedule.slices, after.schedule.slices),
        ("load", before.snapshot.load, after.snapshot.load),
    ):
        if first != second:
            raise DescriptionError(
                f"{before.name} ran with {what} = {first}, {after.name} with {second}: "
                "they cannot be compared"
            )
    runs = (before, after)
    names = dict.fromkeys(name for run in runs for name in run.snapshot.offcore_names)
    channels, links = (
        [match for name in names if (match := pattern.fullmatch(name))]
        for pattern in (_CHANNEL, _LINK)
    )
    served = {"slices": "number"} | {counter.name: _rate_unit(counter) for counter in COUNTERS}

    def table(
        kind: Kind,
        places: Sequence[str],
        units: dict[str, str],
        values: Callable[[Run], Float64Array],
    ) -> Table:
        return Table(kind, tuple(places), tuple(units), tuple(units.values()), *map(values, runs))

    tables = (
        table("machine", COUNTER_NAMES, {"rate": "million/s", "per_query": "1/query"}, _of_machine),
        table(
            "node",
            [f"node {node}" for node in range(machine.nodes)],
            {"data": "slices", "read": "GB/s", "write": "GB/s", "use": "share", **served},
            lambda run: _of_nodes(machine, run),
        ),
        table(
            "channel",
            [match.expand(r"node \1 \2").replace("_", " ") for match in channels],
            {"traffic": "GB/s", "per_channel": "GB/s", "use": "share"},
            lambda run: _of_channels(machine, run, channels),
        ),
        table(
            "link",
            [match.expand(r"socket \1 to \2") for match in links],
            {"traffic": "GB/s", "use": "share"},
            lambda run: _of_links(machine, run, links),
        ),
        table(
            "core",
            [f"core {core} (node {node})" for core, node in enumerate(machine.node_of_core)],
            served,
            lambda run: _of_cores(machine, run),
        ),
    )
    return Comparison(machine, before, after, {table.kind: table for table in tables})


def per_core(machine: Machine, schedule: Schedule, of_slices: Float64Array) -> Float64Array:
    """What slices count, summed over the core that serves them or divided among those that do.

    Args:
        schedule: which core serves which slice.
        of_slices: (slices, ...) values.

    Returns:
        (C, ...) values with the same sum.
    """
    result = np.zeros((machine.cores, *of_slices.shape[1:]))
    if schedule.routing == "core":
        np.add.at(result, schedule.cores, of_slices)
        return result
    node = machine.node_of_core[machine.workers]
    if schedule.routing == "any":
        result[machine.workers] = of_slices.sum(axis=0) / machine.workers.size
        return result
    for number in np.unique(schedule.nodes):
        own = machine.workers[node == number]
        result[own] = of_slices[schedule.nodes == number].sum(axis=0) / own.size
    return result


def key_figures(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """Throughput and latencies: name, before, after and change, as people read them."""
    names = {
        "throughput": "throughput, Mq/s",
        "latency_p50_us": "median latency, us",
        "latency_p99_us": "99th percentile, us",
    }
    before, after = (run.snapshot for run in comparison.runs)
    return [
        changed(words, getattr(before, name), getattr(after, name)) for name, words in names.items()
    ]


def changed(name: str, before: float, after: float) -> tuple[str, str, str, str]:
    """A name, both values, and the change as a share of the first where that says something."""
    shown = np.isfinite(before) and np.isfinite(after) and before != 0
    change = f"{(after - before) / abs(before):+.0%}" if shown else ""
    return name, _number(before), _number(after), change


def _number(value: float) -> str:
    """Three digits; "?" where it was not counted."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if np.isfinite(value) else "?"


def _amount(value: float, unit: str) -> str:
    """Shares as percentages, everything else as of _number()."""
    return f"{value:.0%}" if unit == "share" and np.isfinite(value) else _number(value)


def _bandwidth(machine: Machine, direction: str) -> Float64Array:
    """(N,) GB/s that each node's memory gives or takes; NaN where the machine does not say."""
    if not machine.parameters or direction not in _DIRECTIONS:
        return np.full(machine.nodes, np.nan)
    return machine.distances.per_node(_DIRECTIONS[direction])


def _traffic(machine: Machine, snapshot: HardwareSnapshot, direction: str) -> Float64Array:
    """(N,) GB/s of each node's memory in one direction; NaN where it was not counted."""
    counted = _offcore(snapshot)
    names = [f"node{node}_{direction}_gb_per_s" for node in range(machine.nodes)]
    return np.array([counted.get(name, np.nan) for name in names])


def _offcore(snapshot: HardwareSnapshot) -> dict[str, float]:
    values = np.where(snapshot.offcore_available, snapshot.offcore, np.nan)
    return dict(zip(snapshot.offcore_names, values.tolist(), strict=True))


def _rate_unit(counter: Counter) -> str:
    """The unit of a counter's rate, such as "million queries/s"."""
    if counter.unit == "microsecond":
        return "cores"  # a million microseconds per second
    unit = re.sub("y$", "ie", counter.unit)
    return f"million {unit}{'es' if unit.endswith('s') else 's'}/s"


def _counters(snapshot: HardwareSnapshot) -> Float64Array:
    """(slices, H), NaN for what the backend did not count."""
    return np.where(snapshot.counters_available, snapshot.slice_counters, np.nan)


def _of_machine(run: Run) -> Float64Array:
    """(H, 2) rates and counts per query."""
    rates = _counters(run.snapshot).sum(axis=0)
    per_query = rates / max(run.snapshot.throughput, 1e-12)
    per_query[COUNTER_INDEX["queries"]] = 1.0  # whatever the rounding
    return np.stack([rates, per_query], axis=1)


def _served(machine: Machine, run: Run) -> Float64Array:
    """(C, 1 + H) slices and rates of each core; NaN for what was not counted."""
    counters = _counters(run.snapshot)
    of_slices = np.concatenate([np.ones((len(counters), 1)), counters], axis=1)
    served = per_core(machine, run.schedule, np.nan_to_num(of_slices))
    served[:, np.isnan(of_slices).any(axis=0)] = np.nan
    return served


def _of_cores(machine: Machine, run: Run) -> Float64Array:
    served = _served(machine, run)
    served[~machine.worker_mask] = np.nan
    if run.schedule.routing != "core":
        served[:, 0] = np.nan  # no slice has a core of its own
    return served


def _of_nodes(machine: Machine, run: Run) -> Float64Array:
    schedule, snapshot = run.schedule, run.snapshot
    data = np.bincount(schedule.nodes, minlength=machine.nodes).astype(np.float64)
    if schedule.data != "slice":
        data[:] = np.nan  # the operating system put them
    traffic = [_traffic(machine, snapshot, direction) for direction in _DIRECTIONS]
    limits = [_bandwidth(machine, direction) for direction in _DIRECTIONS]
    use = np.sum(np.divide(traffic, limits), axis=0)
    served = np.zeros((machine.nodes, 1 + len(COUNTER_NAMES)))
    np.add.at(served, machine.node_of_core, _served(machine, run))
    own = np.stack([data, *traffic, use], axis=1)
    return np.concatenate([own, served], axis=1)


def _of_channels(machine: Machine, run: Run, channels: Matches) -> Float64Array:
    """(channels, 3) traffic of a node's memory in a direction, that of a channel, its share."""
    counted, rows = _offcore(run.snapshot), []
    for match in channels:
        traffic = counted.get(match[0], np.nan)
        use = traffic / _bandwidth(machine, match[2])[int(match[1])]
        rows.append((traffic, traffic / (machine.memory_channels_per_node or np.nan), use))
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _of_links(machine: Machine, run: Run, links: Matches) -> Float64Array:
    """(links, 2) traffic and its share of the bandwidth."""
    counted, rows = _offcore(run.snapshot), []
    for match in links:
        traffic, limit = counted.get(match[0], np.nan), 0.0
        if machine.parameters:
            limit = float(machine.distances.link_gb_per_s[int(match[1]), int(match[2])])
        rows.append((traffic, traffic / (limit or np.nan)))
    return np.array(rows, dtype=np.float64).reshape(-1, 2)

"""The counter differences of two schedules, per core, node, memory channel and link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
#: A memory or link that is used more than this can take little more.
SATURATED = 0.85
_NODE = re.compile(r"node(\d+)_(\w+)_gb_per_s")
_LINK = re.compile(r"link(\d+)to(\d+)_gb_per_s")
#: What a counter's rate is called: a million microseconds per second are one core.
_UNITS = {"microsecond": "cores"}


@dataclass(frozen=True)
class Run:
    """One schedule and what it measured.

    Attributes:
        name: what people call it.
        schedule: the schedule.
        snapshot: its snapshot.
    """

    name: str
    schedule: Schedule
    snapshot: HardwareSnapshot


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

    @property
    def change(self) -> Float64Array:
        """(P, Q) after - before."""
        return self.after - self.before

    def column(self, quantity: str) -> tuple[Float64Array, Float64Array]:
        """The (P,) values of a quantity before and after; UnknownNameError if there is none."""
        if quantity not in self.quantities:
            raise UnknownNameError(f"quantity of a {self.kind}", quantity, self.quantities)
        at = self.quantities.index(quantity)
        return self.before[:, at], self.after[:, at]

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
        known = np.any(np.isfinite(size), axis=1)
        largest = np.max(size, axis=1, initial=0.0, where=np.isfinite(size))
        return [int(place) for place in np.argsort(-largest, kind="stable") if known[place]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two schedules of the same machine, workload and load.

    Attributes:
        machine: that both ran on.
        before: the first.
        after: the second.
        tables: by kind. "machine" has one place per counter, with its rate and its count per
            query; "core" and "node" have the slices and every counter, nodes also their memory's
            traffic; "channel" the traffic of each node's memory by direction; "link" that of each
            directed link. ``use`` is a share of the bandwidth that the machine's file gives.
    """

    machine: Machine
    before: Run
    after: Run
    tables: dict[Kind, Table]


def compare(machine: Machine, before: Run, after: Run) -> Comparison:
    """Sets two schedules side by side.

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
    return Comparison(
        machine=machine,
        before=before,
        after=after,
        tables={
            "machine": _of_machine(runs),
            "node": _of_nodes(machine, runs),
            "channel": _of_channels(machine, runs),
            "link": _of_links(machine, runs),
            "core": _of_cores(machine, runs),
        },
    )


def per_core(machine: Machine, schedule: Schedule, of_slices: Float64Array) -> Float64Array:
    """What slices count, summed over the core that serves them or divided among those that do.

    Args:
        machine: whose cores.
        schedule: who serves which slice.
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


def memory_use(machine: Machine, snapshot: HardwareSnapshot) -> Float64Array:
    """(N,) share of each node's memory bandwidth that reads and writes take; NaN if not known."""
    read, write = _traffic(machine, snapshot)
    if not machine.parameters:
        return np.full(machine.nodes, np.nan)
    distances = machine.distances
    return read / distances.per_node("dram_gb_per_s") + write / distances.per_node(
        "dram_write_gb_per_s"
    )


def number(value: float) -> str:
    """A value for people: three digits, "?" where it was not counted."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if np.isfinite(value) else "?"


def value(amount: float, unit: str) -> str:
    """A value for people: shares as percentages, everything else as of number()."""
    return f"{amount:.0%}" if unit == "share" and np.isfinite(amount) else number(amount)


def percent_change(before: float, after: float) -> str:
    """The change as a share of ``before``; empty where that says nothing."""
    if not (np.isfinite(before) and np.isfinite(after)) or before == 0:
        return ""
    return f"{(after - before) / abs(before):+.0%}"


def _traffic(machine: Machine, snapshot: HardwareSnapshot) -> tuple[Float64Array, Float64Array]:
    """(N,) GB/s read from and written to each node's memory, NaN where it was not counted."""
    found = {name: np.full(machine.nodes, np.nan) for name in ("read", "write")}
    for name, value in _offcore(snapshot).items():
        if (match := _NODE.fullmatch(name)) and match[2] in found:
            found[match[2]][int(match[1])] = value
    return found["read"], found["write"]


def _offcore(snapshot: HardwareSnapshot) -> dict[str, float]:
    values = np.where(snapshot.offcore_available, snapshot.offcore, np.nan)
    return dict(zip(snapshot.offcore_names, values.tolist(), strict=True))


def _counters(snapshot: HardwareSnapshot) -> Float64Array:
    """(slices, H), NaN for what the backend did not count."""
    return np.where(snapshot.counters_available, snapshot.slice_counters, np.nan)


def _plural(unit: str) -> str:
    """The plural of a counter's unit: queries, misses, events."""
    if unit.endswith("y"):
        return f"{unit[:-1]}ies"
    return f"{unit}es" if unit.endswith("s") else f"{unit}s"


def _counter_units() -> tuple[str, ...]:
    return tuple(
        _UNITS.get(counter.unit, f"million {_plural(counter.unit)}/s") for counter in COUNTERS
    )


def _of_machine(runs: tuple[Run, Run]) -> Table:
    def values(run: Run) -> Float64Array:
        rates = _counters(run.snapshot).sum(axis=0)
        per_query = rates / max(run.snapshot.throughput, 1e-12)
        per_query[COUNTER_INDEX["queries"]] = 1.0  # whatever the rounding
        return np.stack([rates, per_query], axis=1)

    return Table(
        kind="machine",
        places=COUNTER_NAMES,
        quantities=("rate", "per_query"),
        units=("million/s", "1/query"),
        before=values(runs[0]),
        after=values(runs[1]),
    )


def _of_cores(machine: Machine, runs: tuple[Run, Run]) -> Table:
    def values(run: Run) -> Float64Array:
        slices = np.ones((run.schedule.slices, 1))
        of_slices = np.concatenate([slices, _counters(run.snapshot)], axis=1)
        served = per_core(machine, run.schedule, np.nan_to_num(of_slices))
        served[:, np.isnan(of_slices).any(axis=0)] = np.nan
        served[~machine.worker_mask] = np.nan
        if run.schedule.routing != "core":
            served[:, 0] = np.nan  # no slice has a core of its own
        return served

    return Table(
        kind="core",
        places=tuple(
            f"core {core} (node {node})" for core, node in enumerate(machine.node_of_core.tolist())
        ),
        quantities=("slices", *COUNTER_NAMES),
        units=("number", *_counter_units()),
        before=values(runs[0]),
        after=values(runs[1]),
    )


def _of_nodes(machine: Machine, runs: tuple[Run, Run]) -> Table:
    def values(run: Run) -> Float64Array:
        schedule, snapshot = run.schedule, run.snapshot
        read, write = _traffic(machine, snapshot)
        data = np.bincount(schedule.nodes, minlength=machine.nodes).astype(np.float64)
        if schedule.data != "slice":
            data[:] = np.nan  # the operating system put them
        of_slices = np.concatenate([np.ones((schedule.slices, 1)), _counters(snapshot)], axis=1)
        served = np.zeros((machine.nodes, of_slices.shape[1]))
        np.add.at(served, machine.node_of_core, per_core(machine, schedule, of_slices))
        own = np.stack([data, read, write, memory_use(machine, snapshot)], axis=1)
        return np.concatenate([own, served], axis=1)

    return Table(
        kind="node",
        places=tuple(f"node {node}" for node in range(machine.nodes)),
        quantities=("data", "read", "write", "use", "slices", *COUNTER_NAMES),
        units=("slices", "GB/s", "GB/s", "share", "number", *_counter_units()),
        before=values(runs[0]),
        after=values(runs[1]),
    )


def _of_channels(machine: Machine, runs: tuple[Run, Run]) -> Table:
    names = list(
        dict.fromkeys(
            name for run in runs for name in run.snapshot.offcore_names if _NODE.fullmatch(name)
        )
    )
    capacity = {}
    if machine.parameters:
        capacity = {
            "read": machine.distances.per_node("dram_gb_per_s"),
            "write": machine.distances.per_node("dram_write_gb_per_s"),
        }

    def values(run: Run) -> Float64Array:
        seen = _offcore(run.snapshot)
        rows = []
        for name in names:
            match = _NODE.fullmatch(name)
            assert match is not None
            total = seen.get(name, np.nan)
            limit = capacity.get(match[2])
            known = limit is not None and machine.memory_channels_per_node > 0
            rows.append(
                (
                    total,
                    total / machine.memory_channels_per_node if known else np.nan,
                    np.nan if limit is None else total / limit[int(match[1])],
                )
            )
        return np.array(rows, dtype=np.float64).reshape(len(names), 3)

    return Table(
        kind="channel",
        places=tuple(_NODE.sub(r"node \1 \2", name).replace("_", " ") for name in names),
        quantities=("traffic", "per_channel", "use"),
        units=("GB/s", "GB/s", "share"),
        before=values(runs[0]),
        after=values(runs[1]),
    )


def _of_links(machine: Machine, runs: tuple[Run, Run]) -> Table:
    names = list(
        dict.fromkeys(
            name for run in runs for name in run.snapshot.offcore_names if _LINK.fullmatch(name)
        )
    )

    def values(run: Run) -> Float64Array:
        seen = _offcore(run.snapshot)
        rows = []
        for name in names:
            match = _LINK.fullmatch(name)
            assert match is not None
            traffic = seen.get(name, np.nan)
            limit = 0.0
            if machine.parameters:
                limit = float(machine.distances.link_gb_per_s[int(match[1]), int(match[2])])
            rows.append((traffic, traffic / limit if limit > 0 else np.nan))
        return np.array(rows, dtype=np.float64).reshape(len(names), 2)

    return Table(
        kind="link",
        places=tuple(_LINK.sub(r"socket \1 to \2", name) for name in names),
        quantities=("traffic", "use"),
        units=("GB/s", "share"),
        before=values(runs[0]),
        after=values(runs[1]),
    )

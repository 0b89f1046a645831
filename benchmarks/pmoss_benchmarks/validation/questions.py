"""How a published statement is asked: one class per question of ``targets/*.toml``.

A question's fields are the keys of its table. Its ask() gives our value from a laboratory and a
fidelity. What only the simulated machine can answer is NaN in the analytic fidelity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any, Literal

import msgspec
import numpy as np

from pmoss_benchmarks.access_path.measurements import CPU, OFFLOAD, PLACES, RELAXED, Measurements
from pmoss_benchmarks.access_path.models import ModelScores, score, train
from pmoss_benchmarks.threads.studies import (
    PATTERNS,
    bandwidth_gap,
    compare,
    convergence,
    settled_after,
    times_by_remote_share,
)
from pmoss_benchmarks.validation.laboratory import SEARCH, Laboratory
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine, load_machine

#: Ratios that differ by less are all the same.
_SAME = 0.01


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="question"):
    """What all questions have in common; each has a method ask()."""


class Measured(Question, frozen=True):
    """A question that only the simulated machine can answer."""

    def ask(self, laboratory: Laboratory, fidelity: str) -> float:
        """Our value; NaN of any other fidelity."""
        return self._measured() if fidelity == "simulated" else nan

    def _measured(self) -> float:
        """The value on the simulated machine."""
        raise NotImplementedError


class Ratio(Question, frozen=True, tag="ratio"):
    """Throughput of the best of some schedules over that of others; the mean over machines.

    Attributes:
        machines: catalogue names.
        workload: catalogue name.
        first: schedules, see Laboratory.schedule().
        others: likewise.
        over: what of the others counts.
    """

    machines: tuple[str, ...]
    workload: str
    first: tuple[str, ...]
    others: tuple[str, ...]
    over: Literal["best", "mean", "worst"] = "best"

    def ask(self, laboratory: Laboratory, fidelity: str) -> float:
        """See the class."""
        return sum(self._of(laboratory, fidelity, m) for m in self.machines) / len(self.machines)

    def _of(self, laboratory: Laboratory, fidelity: str, machine: str) -> float:
        of_all: dict[str, Callable[[list[float]], Any]] = {
            "best": max,
            "mean": np.mean,
            "worst": min,
        }
        place = (fidelity, machine, self.workload)
        above = max(laboratory.throughputs(*place, self.first))
        return above / float(of_all[self.over](laboratory.throughputs(*place, self.others)))


class LargestGap(Question, frozen=True, tag="largest-gap"):
    """The best over the worst of some schedules, on the machine where that is largest."""

    machines: tuple[str, ...]
    workload: str
    schedules: tuple[str, ...]

    def ask(self, laboratory: Laboratory, fidelity: str) -> float:
        """See the class."""
        gaps = []
        for machine in self.machines:
            values = laboratory.throughputs(fidelity, machine, self.workload, self.schedules)
            gaps.append(max(values) / min(values))
        return max(gaps)


class HottestShare(Question, frozen=True, tag="hottest-share"):
    """Share of the queries that the hottest slice gets, under closed load."""

    machine: str
    workload: str
    schedule: str

    def ask(self, laboratory: Laboratory, fidelity: str) -> float:
        """See the class."""
        snapshot = laboratory.snapshot(
            fidelity, self.machine, self.workload, self.schedule, "closed"
        )
        return float(snapshot.slice_throughput.max() / snapshot.slice_throughput.sum())


class Dispatched(Question, frozen=True, tag="dispatched"):
    """Throughput, Mq/s, where every query passes the original's routers."""

    machine: str
    workload: str
    schedule: str

    def ask(self, laboratory: Laboratory, fidelity: str) -> float:
        """See the class."""
        return laboratory.dispatched(fidelity, self.machine, self.workload, self.schedule)


class MemoryLatency(Measured, frozen=True, tag="memory-latency"):
    """Latency of the memory of node ``far`` over that of ``near``, from the first node."""

    machine: str
    far: int
    near: int

    def _measured(self) -> float:
        return latency_ns(self.machine, 0, self.far) / latency_ns(self.machine, 0, self.near)


class CoreToCore(Measured, frozen=True, tag="core-to-core"):
    """Latency of a modified line between sockets, or chiplets of one, over that within.

    Between stops of a mesh it is that of the farthest two cores over that of the nearest two.
    """

    machine: str
    between: Literal["sockets", "chiplets", "stops"]

    def _measured(self) -> float:
        ways = {"sockets": self._sockets, "chiplets": self._chiplets, "stops": self._stops}
        return ways[self.between]()

    def _sockets(self) -> float:
        """Lines are at home in turn at both sockets, each of which has two nodes."""
        machine = load_machine(self.machine)
        cores = machine.workers
        nodes = machine.node_of_core[cores]
        first, beside, away = int(cores[0]), int(cores[1]), int(cores[nodes == 2][0])
        across = [modified_ns(self.machine, first, away, home) for home in (0, 2)]
        return sum(across) / 2 / modified_ns(self.machine, first, beside, 0)

    def _chiplets(self) -> float:
        machine = load_machine(self.machine)
        cores = machine.workers
        chiplets = machine.llc_of_core[cores]
        first, beside = (int(core) for core in cores[chiplets == chiplets[0]][:2])
        away = int(cores[chiplets == chiplets[-1] // 2 - 1][0])
        far, near = (modified_ns(self.machine, first, core, 0) for core in (away, beside))
        return far / near

    def _stops(self) -> float:
        """Of all cores, whatever their role: each is measured as a worker."""
        machine = load_machine(self.machine)
        if machine.mesh is None:
            raise DescriptionError(f"{self.machine} has no mesh")
        far, near = (modified_ns(self.machine, *pair, 0) for pair in machine.mesh_ends)
        return far / near


class LoadedLatency(Measured, frozen=True, tag="loaded-latency"):
    """The largest relative error of loaded / idle latency.

    Attributes:
        machine: catalogue name.
        measured: pairs of a share of the bandwidth and loaded / idle latency at it.
    """

    machine: str
    measured: tuple[tuple[float, float], ...]

    def _measured(self) -> float:
        return max(
            abs(loaded_latency(self.machine, use) / measured - 1) for use, measured in self.measured
        )


class ScanBandwidth(Measured, frozen=True, tag="scan-bandwidth"):
    """GB/s of a scan of a node's memory by one core, or by all of the first node."""

    machine: str
    memory_node: int
    cores: Literal["one", "all"]

    def _measured(self) -> float:
        machine = load_machine(self.machine)
        mine = machine.workers[machine.node_of_core[machine.workers] == 0]
        count = 1 if self.cores == "one" else None
        return stream_gb_per_s(self.machine, mine[:count], self.memory_node)


def _best_choices(m: Measurements) -> float:
    """Share of the paper's three statements on the better path that hold."""
    local, small, far = (
        m.gb_per_s(CPU, place, size) / m.gb_per_s(OFFLOAD, place, size)
        for place, size in (("local", 1024.0), ("other blade", 1.0), ("other blade", 256.0))
    )
    return ((local > 1) + (small > 1) + (far < 1)) / 3


_SCANS: Mapping[str, Callable[[Measurements], float]] = {
    "mixed-offloaded": lambda m: (
        sum(m.mixed_gb_per_s(OFFLOAD, place) for place in PLACES) / len(PLACES)
    ),
    "gain": lambda m: m.gain(0.0),
    "full-speed-loads": lambda m: m.full_speed_mb(CPU),
    "full-speed-offloaded": lambda m: m.full_speed_mb(OFFLOAD),
    "best-choices": _best_choices,
    "relaxed": lambda m: m.gb_per_s(RELAXED, "other blade"),
}


class ScanPaths(Measured, frozen=True, tag="scan-paths"):
    """What scans on blades with copy engines get."""

    what: Literal[
        "mixed-offloaded",
        "gain",
        "full-speed-loads",
        "full-speed-offloaded",
        "best-choices",
        "relaxed",
    ]

    def _measured(self) -> float:
        return _SCANS[self.what](Measurements())


class LinearModels(Measured, frozen=True, tag="linear-models"):
    """A score of the pair of linear models of the paper's features, on combinations held out."""

    what: Literal["r2", "above-best"]

    def _measured(self) -> float:
        scores = self._scores()
        return min(scores.r2.values()) if self.what == "r2" else scores.above_best

    @staticmethod
    def _scores() -> ModelScores:
        # The first four fifths of the combinations to train on: they are drawn in no order.
        features, times = collect_scans(AccessPathRecipe(combinations=200, repeats=4)).pairs()
        cut = 160 * 4
        model = "linear pair"
        agent = train(model, features[:cut], times[:cut])
        return score(model, agent, features[cut:], times[cut:])


class ThreadTimes(Measured, frozen=True, tag="thread-times"):
    """Run time of a program under one method over that under another."""

    program: str
    first: str
    second: str

    def _measured(self) -> float:
        comparison = compare([self.program], (self.first, self.second), seeds=1)
        return comparison.ratio(self.program, self.first, self.second)


class RemoteShare(Measured, frozen=True, tag="remote-share"):
    """Time with a share of remote threads over that with none."""

    share: float

    def _measured(self) -> float:
        return times_by_remote_share((0.0, self.share))[self.share]


class BandwidthGap(Measured, frozen=True, tag="bandwidth-gap"):
    """Local over remote bandwidth of a node's memory under mixes of reads and writes."""

    node: int
    shares: tuple[float, ...]

    def _measured(self) -> float:
        return bandwidth_gap(self.node, self.shares)


class Decisions(Measured, frozen=True, tag="decisions"):
    """Decisions until LinUCB settles on an action, at most over the patterns."""

    action: int

    def _measured(self) -> float:
        return max(settled_after(convergence(p), action=self.action) for p in PATTERNS)


#: What a table ``[target.ask]`` can hold.
AnyQuestion = (
    Ratio
    | LargestGap
    | HottestShare
    | Dispatched
    | MemoryLatency
    | CoreToCore
    | LoadedLatency
    | ScanBandwidth
    | ScanPaths
    | LinearModels
    | ThreadTimes
    | RemoteShare
    | BandwidthGap
    | Decisions
)


def in_place_of_search(question: Any, names: Sequence[str]) -> Ratio | LargestGap | None:
    """A question with other schedules in place of the search; None if it asks about no search."""
    if not isinstance(question, Ratio | LargestGap):
        return None
    fields = ("schedules",) if isinstance(question, LargestGap) else ("first", "others")
    given = {field: getattr(question, field) for field in fields}
    if not any(SEARCH in schedules for schedules in given.values()):
        return None
    changed = {
        field: tuple(put for each in schedules for put in (names if each == SEARCH else (each,)))
        for field, schedules in given.items()
    }
    return msgspec.structs.replace(question, **changed)


def are_level(ratios: Sequence[float]) -> bool:
    """Whether some ratios are all the same: then nothing but the switch decides them."""
    return bool(ratios) and max(ratios) - min(ratios) < _SAME


_LINES = 30_000


def first_worker(machine: Machine, node: int = 0) -> int:
    """The first worker core of a node; DescriptionError if it has none."""
    mine = machine.workers[machine.node_of_core[machine.workers] == node]
    if not mine.size:
        raise DescriptionError(f"node {node} of {machine.name} has no worker")
    return int(mine[0])


def latency_ns(machine: str, core_node: int, memory_node: int) -> float:
    """Latency of memory in a pointer chase on the idle machine, ns."""
    described = load_machine(machine)
    native = native_machine(described)
    # No line comes a second time, so no cache has it.
    trace = _native.pointer_chase(1, _LINES, _LINES)
    server = _native.SimulatedServer(native, outstanding_per_worker=1)
    server.set_instance(trace)
    core = first_worker(described, core_node)
    raw = server.run(np.array([core], np.int32), np.array([memory_node], np.int32))
    return 1e3 / float(raw["throughput"]) * native.mlp_dependent


def modified_ns(machine: str, reader: int, owner: int, home: int) -> float:
    """Latency of a line that another core has modified, ns; of any two cores."""
    native = native_machine(load_machine(machine))
    working = list(native.is_worker)
    working[reader] = working[owner] = 1
    native.is_worker = working
    server = _native.SimulatedServer(native, outstanding_per_worker=1)
    server.set_instance(_native.modified_lines(1_000, 20_000))
    raw = server.run(np.array([reader, owner], np.int32), np.array([home, home], np.int32))
    counters = raw["counters"]
    cycles = counters["cycles"][0] / counters["queries"][0]
    return float(cycles) / native.clock_ghz * native.mlp_dependent


def stream_gb_per_s(machine: str, cores: Sequence[int], memory_node: int) -> float:
    """Bandwidth of memory that scans by some cores get together, GB/s."""
    native = native_machine(load_machine(machine))
    lines = int(4 * native.llc_lines / len(cores)) + _LINES
    queries = 2 * lines * len(cores) // 64
    trace = _native.streaming(len(cores), lines, 64, queries, 0.0)
    server = _native.SimulatedServer(native, load="saturated")
    server.set_instance(trace)
    raw = server.run(np.array(cores, np.int32), np.full(len(cores), memory_node, dtype=np.int32))
    return float(raw["read_gb_per_s"][memory_node] + raw["write_gb_per_s"][memory_node])


def loaded_latency(machine: str, use: float) -> float:
    """Loaded / idle latency of the first node's memory in a chase, at a share of its bandwidth."""
    described = load_machine(machine)
    native = native_machine(described)
    core = first_worker(described)

    bandwidth = native.dram_gb_per_s[0]

    def chase(background: float) -> tuple[float, float]:
        """Time per load, and the share of the bandwidth that the chase itself takes."""
        server = _native.SimulatedServer(native, outstanding_per_worker=1)
        co_tenants = _native.Interference()
        co_tenants.dram_gb_per_s = [background * bandwidth] + [0.0] * (described.nodes - 1)
        server.set_instance(_native.pointer_chase(1, _LINES, _LINES), co_tenants)
        raw = server.run(np.array([core], np.int32), np.zeros(1, np.int32))
        return 1.0 / float(raw["throughput"]), float(raw["read_gb_per_s"][0]) / bandwidth

    _, own = chase(use)
    loaded, _ = chase(use - own)
    idle = 1e-3 * native.dram_ns[0] / native.mlp_dependent
    return loaded / idle

"""The threads of a live process as a server, by /proc, perf events and affinity."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pmoss_env import _native
from pmoss_env.envs.threads.inputs import INPUT_NAMES
from pmoss_env.envs.threads.live.affinity import Affinity, threads_of
from pmoss_env.envs.threads.server import Outcome, Sample
from pmoss_env.errors import DescriptionError, ProcessError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.platforms import host_topology, require_host
from pmoss_env.types import Int32Array

_LINE_GB = 64e-9
#: Assumed accesses per second of processor time without counters.
_ASSUMED_LINES_PER_S = 1e7
#: Epochs between two counts of the process's pages.
_PAGES_EVERY = 10
_COLUMN = {name: column for column, name in enumerate(INPUT_NAMES)}


@dataclass
class Report:
    """A report about a process, for people and for logs.

    Attributes:
        intended: number of moves in a dry run.
        refused: number of refused moves, by reason.
        released: number of threads freed of an inherited pin.
        notes: sources of the numbers.
        monitoring_seconds: processor time of this process in ``advance``.
    """

    moves: int = 0
    intended: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    released: int = 0
    notes: list[str] = field(default_factory=list)
    monitoring_seconds: float = 0.0

    def refuse(self, reason: str) -> None:
        """Counts a refused move."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


@dataclass
class _Thread:
    """The kernel's counts of a thread since its start."""

    start: int
    cpu: int
    minor: int
    major: int
    user: int
    kernel: int


class ProcessServer:
    """A live process, observed once per epoch and scheduled by affinity.

    Accesses to slow memory are counted by perf events that distinguish local from remote loads. On
    a host without them they are estimated: a thread's processor time times the share of the
    process's pages on the slow node (/proc/PID/numa_maps). The estimate gives the same P_ub for
    threads with the same data. The bandwidths are those of last-level cache misses, 0 if they are
    not counted. ``report.notes`` names the sources.

    Attributes:
        machine: this host.
        nearest: the cores near the slow memory; all data count as lying there, home 0.

    Args:
        slow_node: the kernel's number of the node with the slow memory: CXL, Optane in memory
            mode, or a far node.
        dry_run: decides everything and sets nothing.
        moves_per_second: rate limit over all threads; further moves are refused and counted.
        machine: of the process; None: this host.
        near: the cores near the slow node's memory; None: by the kernel's distances.
        sleep: waits for the end of an epoch; for tests.

    Raises:
        ProcessError: the process does not exist, or this user may not set its affinity.
        DescriptionError: no such node, or an invalid rate.
    """

    def __init__(
        self,
        process: int,
        *,
        slow_node: int,
        dry_run: bool = False,
        moves_per_second: float = 10.0,
        seconds_between_moves: float = 5.0,
        machine: Machine | None = None,
        near: Sequence[int] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        require_host("scheduling the threads of a live process")
        if not moves_per_second > 0.0:
            raise DescriptionError(f"moves_per_second = {moves_per_second}: must be positive")
        self.machine = load_machine("host") if machine is None else machine
        self.report = Report()
        if near is None:
            near = self._cores_near(slow_node)
        self.nearest: list[Int32Array] = [np.array(near, dtype=np.int32)]
        if set(self.nearest[0].tolist()) == set(range(self.machine.cores)):
            self.report.notes.append(
                "every CPU is as near to the slow memory: no access is remote, nothing will move"
            )
        self.process = process
        self._slow_node = slow_node
        self._dry_run = dry_run
        self._rate = moves_per_second
        self._gap = seconds_between_moves
        self._sleep = sleep
        self._affinity = Affinity(process)
        self._core_of_cpu = {
            int(cpu): core for core, cpu in enumerate(self.machine.cpu_of_core.tolist())
        }
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK")
        self._began = time.monotonic()
        self._sampled = self._began
        self._counters: dict[int, _native.ThreadCounters] = {}
        self._counted: set[str] = set()
        self._threads: dict[int, _Thread] = self._read_threads()
        if not self._threads:
            raise ProcessError(f"process {process} does not exist")
        self._busy = self._read_busy()
        self._moved_at: dict[int, float] = {}
        self._budget = 1.0
        self._user = self._kernel = 0.0
        self._epochs = 0
        self._slow_share = 1.0
        self._count_from_now(self._threads)
        self._note_counters()

    @property
    def ended(self) -> bool:
        """Whether no thread of it lives; others may outlive its first one."""
        threads = threads_of(self.process)
        return all(_read_thread(self.process, thread) is None for thread in threads)

    def advance(self, seconds: float) -> Sample:
        """Waits for the end of the epoch and returns its sample."""
        left = self._sampled + seconds - time.monotonic()
        if left > 0.0:
            self._sleep(left)
        spent = time.process_time()
        sample = self._take()
        self.report.monitoring_seconds += time.process_time() - spent
        return sample

    def move(self, thread: int, core: int) -> bool:
        """Pins a thread to a core; False for a refused move, which the report counts."""
        now = time.monotonic()
        if self._dry_run:
            self.report.intended += 1
            return False
        if now - self._moved_at.get(thread, -1e9) < self._gap:
            self.report.refuse("the thread was moved a moment ago")
            return False
        if self._budget < 1.0:
            self.report.refuse("more moves than the rate limit allows")
            return False
        reason = self._affinity.pin(thread, int(self.machine.cpu_of_core[core]))
        if reason is not None:
            self.report.refuse(reason)
            return False
        self._budget -= 1.0
        self._moved_at[thread] = now
        self.report.moves += 1
        return True

    def outcome(self) -> Outcome:
        """Real and processor time since the start; requests are not counted."""
        nan = float("nan")
        return Outcome(self._sampled - self._began, self._user, self._kernel, nan, nan)

    def close(self) -> None:
        """Restores every thread's affinity; safe to repeat."""
        self._affinity.close()

    def _cores_near(self, slow_node: int) -> list[int]:
        topology = host_topology("scheduling the threads of a live process")
        nodes = {node["id"]: node for node in topology["nodes"]}
        if slow_node not in nodes:
            raise DescriptionError(
                f"slow_node = {slow_node}: this host has the nodes {', '.join(map(str, nodes))}"
            )
        order = list(nodes)
        allowed = set(self.machine.cpu_of_core.tolist())
        with_cpus = [n for n in order if allowed & set(nodes[n]["cpus"])]
        distance = dict(zip(order, nodes[slow_node]["distances"], strict=False))
        least = min(distance.get(n, 255) for n in with_cpus)
        cpus = {c for n in with_cpus if distance.get(n, 255) == least for c in nodes[n]["cpus"]}
        return [c for c, cpu in enumerate(self.machine.cpu_of_core.tolist()) if cpu in cpus]

    def _note_counters(self) -> None:
        if {"local_dram", "remote_dram"} <= self._counted:
            self.report.notes.append("accesses: perf events, retired loads of memory")
        else:
            self.report.notes.append(
                "accesses: estimated from processor time and pages; this host does not count loads "
                "of local and remote memory"
            )
        if "llc_misses" not in self._counted:
            self.report.notes.append("bandwidth: not counted on this host, taken as 0")

    def _take(self) -> Sample:
        now = time.monotonic()
        passed = max(now - self._sampled, 1e-9)
        self._sampled = now
        self._budget = min(self._budget + self._rate * passed, max(1.0, self._rate))
        before, self._threads = self._threads, self._read_threads()
        if self._epochs % _PAGES_EVERY == 0:
            self._slow_share = self._read_slow_share()
        self._epochs += 1
        if not self._dry_run:
            self.report.released += self._affinity.release_heirs()
        busy_before, self._busy = self._busy, self._read_busy()
        cores = self.machine.cores
        load = np.zeros(cores)
        for core, cpu in enumerate(self.machine.cpu_of_core.tolist()):
            spent = self._busy.get(cpu, 0.0) - busy_before.get(cpu, 0.0)
            load[core] = min(max(spent * self._tick / passed, 0.0), 1.0)

        near = set(self.nearest[0].tolist())
        inputs = np.zeros((cores, len(INPUT_NAMES)))
        cycles = np.zeros(cores)
        clock = np.zeros(cores)
        kept: list[tuple[int, int, float, float]] = []
        read = local = remote = 0.0
        for thread, state in self._threads.items():
            was = before.get(thread)
            if was is None or was.start != state.start:
                self._count_from_now({thread: state})
                continue  # a new thread, without an epoch
            user, kernel = state.user - was.user, state.kernel - was.kernel
            self._user += user * self._tick
            self._kernel += kernel * self._tick
            counts = self._count(thread)
            core = self._core_of_cpu.get(state.cpu, -1)
            busy = (user + kernel) * self._tick
            if core < 0 or busy <= 0.0:
                continue  # idle, or on a CPU that is not in the machine
            minor, major = (state.minor - was.minor) / passed, (state.major - was.major) / passed
            kept.append((thread, core, minor, major))
            row = inputs[core]
            row[_COLUMN["minor_faults"]] += minor
            row[_COLUMN["major_faults"]] += major
            away = core not in near
            if "local_dram" in counts and "remote_dram" in counts:
                lines = counts["remote_dram" if away else "local_dram"] / passed
                other = counts["local_dram" if away else "remote_dram"] / passed
                row[_COLUMN["local_dram_accesses" if away else "remote_dram_accesses"]] += other
            else:
                lines = busy / passed * self._slow_share * _ASSUMED_LINES_PER_S
            row[_COLUMN["remote_slow_accesses" if away else "local_slow_accesses"]] += lines
            local += 0.0 if away else lines
            remote += lines if away else 0.0
            read += counts.get("llc_misses", 0.0) * _LINE_GB / passed
            row[_COLUMN["instructions_per_cycle"]] += counts.get("instructions", 0.0)
            cycles[core] += counts.get("cycles", 0.0)
            clock[core] += counts.get("task_clock", 0.0)
            stalls = counts.get("cycles_l3_miss", 0.0)
            misses = counts.get("l1d_misses", 0.0)
            if misses > 0.0 and counts.get("cycles", 0.0) > 0.0:
                ghz = counts["cycles"] / max(counts.get("task_clock", 0.0), 1.0)
                row[_COLUMN["miss_latency_ns"]] = stalls / misses / max(ghz, 1e-9)
        ran = cycles > 0.0
        instructions = inputs[:, _COLUMN["instructions_per_cycle"]]
        inputs[:, _COLUMN["instructions_per_cycle"]] = np.divide(
            instructions, cycles, out=np.zeros(cores), where=ran
        )
        inputs[:, _COLUMN["clock_ghz"]] = np.divide(
            cycles, clock, out=np.zeros(cores), where=ran & (clock > 0.0)
        )
        inputs[:, _COLUMN["slow_read_gb_per_s"]] = read
        near_cores = self.nearest[0]
        inputs[:, _COLUMN["cpu_demand"]] = float(load[near_cores].mean())
        count = len(kept)
        return Sample(
            seconds=passed,
            threads=np.array([k[0] for k in kept], dtype=np.int32),
            cpus=np.array([k[1] for k in kept], dtype=np.int32),
            homes=np.zeros(count, dtype=np.int32),
            major_faults=np.array([k[3] for k in kept], dtype=np.float64),
            minor_faults=np.array([k[2] for k in kept], dtype=np.float64),
            core_load=load,
            inputs=inputs,
            slow_read_gb_per_s=read,
            slow_write_gb_per_s=0.0,
            local_slow_accesses=local,
            remote_slow_accesses=remote,
            utilisation=float(load.mean()),
        )

    def _read_threads(self) -> dict[int, _Thread]:
        result = {}
        for thread in threads_of(self.process):
            state = _read_thread(self.process, thread)
            if state is not None:
                result[thread] = state
        for ended in set(self._counters) - set(result):
            del self._counters[ended]
        return result

    def _count_from_now(self, threads: dict[int, _Thread]) -> None:
        for thread in threads:
            try:
                counters = _native.ThreadCounters(thread)
            except (OSError, RuntimeError, ValueError):
                continue
            self._counters[thread] = counters
            self._counted |= set(counters.names)
            counters.read()  # what comes later is counted from now

    def _count(self, thread: int) -> dict[str, float]:
        counters = self._counters.get(thread)
        return counters.read() if counters else {}

    def _read_busy(self) -> dict[int, float]:
        """Busy ticks of each CPU since boot."""
        result = {}
        for line in Path("/proc/stat").read_text().splitlines():
            words = line.split()
            if words[0].startswith("cpu") and words[0] != "cpu":
                ticks = [float(word) for word in words[1:9]]
                result[int(words[0][3:])] = sum(ticks) - ticks[3] - ticks[4]
        return result

    def _read_slow_share(self) -> float:
        """Share of the process's pages on the slow node; the last one if unreadable."""
        slow = total = 0
        try:
            text = Path(f"/proc/{self.process}/numa_maps").read_text(errors="replace")
        except OSError:
            return self._slow_share
        for line in text.splitlines():
            size = 4
            pages: dict[int, int] = {}
            for word in line.split():
                key, _, value = word.partition("=")
                if key == "kernelpagesize_kB":
                    size = int(value)
                elif key[:1] == "N" and key[1:].isdigit() and value.isdigit():
                    pages[int(key[1:])] = int(value)
            slow += size * pages.get(self._slow_node, 0)
            total += size * sum(pages.values())
        return slow / total if total else self._slow_share


def _read_thread(process: int, thread: int) -> _Thread | None:
    try:
        text = Path(f"/proc/{process}/task/{thread}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    minor, major, user, kernel = (int(fields[i]) for i in (7, 9, 11, 12))
    return _Thread(int(fields[19]), int(fields[36]), minor, major, user, kernel)

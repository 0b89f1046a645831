"""The hardware backend: the native runtime measures schedules on this host.

Pinned worker threads serve the index under a schedule (native/runtime). Routers feed them through
bounded queues. An enforcer moves the data to the nodes of the schedule. Events that this host does
not count are marked unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pmoss_env import __version__, _native
from pmoss_env.backends.base import Subject, SubjectBackend
from pmoss_env.backends.co_tenant_threads import FAMILIES, CoTenantThreads
from pmoss_env.backends.data_facts import data_facts, require_planned_cpus
from pmoss_env.backends.kernel_settings import check_settings, pages_balanced, switched
from pmoss_env.backends.native_counts import native_errors, rounds_of, snapshot_of
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.checks import check_name, check_number, check_type, check_whole
from pmoss_env.errors import BackendError, UnsupportedError
from pmoss_env.interference import check_co_tenants
from pmoss_env.machines.host import kernel_nodes
from pmoss_env.platforms import host_topology, require_host
from pmoss_env.types import (
    Float64Array,
    HardwareSnapshot,
    Instance,
    Schedule,
    whole_numbers,
)

#: How data move to another node: copies of the index's nodes, or moves of pages by the kernel.
STRATEGIES = ("copy", "move_pages")
#: When data move: before the measurement, or during it.
PACES = ("aggressive", "lazy")

#: CPUs of routers: the machine's routers or a CPU without a worker, or the workers' CPUs.
ROUTERS = ("spare", "workers")
#: Options that are plain JSON.
_PLAIN = (
    *("records", "seconds", "warmup_seconds", "window", "batch", "huge_pages", "strategy", "pace"),
    *("sweep_seconds", "numa_balancing", "transparent_hugepages", "max_growth", "routers"),
    "interleave_nodes",
)
#: Most attempts of a measurement that completes no query.
_MAX_ATTEMPTS = 3


class HardwareBackend(SubjectBackend):
    """Implements Backend (pmoss_env.backends.base) on the machine this process runs on.

    The index is loaded at the first measurement. A new instance loads it again, because other keys
    are hot. So do inserts above ``max_growth``: by default every measurement begins with the same
    records, because a larger index, and one with split nodes, is another one.

    Args:
        subject: the measured system; its machine is this host, ``load_machine("host")``.
        records: number of records in the index; None: the workload's.
        warmup_seconds: time before it that does not count.
        window: least queries per counter window; see docs/concepts/counters.md.
        batch: queries that a worker executes together, 1 (the paper's) to 64.
        huge_pages: whether to ask for 2 MiB pages.
        strategy: how data move, see STRATEGIES.
        pace: when data move, see PACES.
        sweep_seconds: length of a sweeping round, in which the counters of all workers are
            collected; 0 for none.
        numa_balancing: sets the kernel's automatic NUMA balancing during measurements ("0" or "1";
            needs root); None keeps it. The setting is recorded in both cases.
        transparent_hugepages: the same for huge pages: "always", "madvise" or "never".
        max_growth: largest number of inserted records at which a measurement starts, as a share of
            the loaded records. Above 0 loading is rarer, and schedules are compared on indexes
            that differ so much. Workloads without inserts are loaded once.
        routers: CPUs of the routers, see ROUTERS. If workers use all CPUs, a single router shares
            the CPU of a worker, which has less time for queries than the others.
        interleave_nodes: the kernel's numbers of the nodes for interleaved data; by default all
            nodes with CPUs.
        progress: called with the number of records loaded so far.
        on_round: called during a measurement with every sweeping round: its end (``seconds``), and
            for the workers of each node their throughput (``node_mq_per_s``) and counts per query
            (``node_counters_per_query``, by the kernel's names of events).
    """

    name = "hardware"
    method = "On a real server"
    repeatable = False
    measures_host = True
    incremental = False
    co_tenant_families: tuple[str, ...] = FAMILIES

    def __init__(
        self,
        subject: Subject,
        *,
        records: int | None = None,
        seconds: float = 1.0,
        warmup_seconds: float = 0.2,
        window: int = 100,
        batch: int = 1,
        huge_pages: bool = True,
        strategy: str = "copy",
        pace: str = "aggressive",
        sweep_seconds: float = 0.1,
        numa_balancing: str | None = None,
        transparent_hugepages: str | None = None,
        max_growth: float = 0.0,
        routers: str = "spare",
        interleave_nodes: Sequence[int] | int = (),
        progress: Callable[[int], None] | None = None,
        on_round: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        given = locals()
        #: The options that are plain JSON.
        self.options = {name: given[name] for name in _PLAIN}
        for name, kind in HardwareBackend.__init__.__annotations__.items():
            check_type(name, kind, given.get(name))
        machine = subject.machine
        if machine.name != "host":
            raise UnsupportedError(
                f"machine {machine.name!r} is not this host: the hardware backend measures "
                "machine 'host'; to model that one, choose the backend analytic or simulated "
                "(--backend analytic)"
            )
        require_host("the backend 'hardware'")
        if not seconds > 0 or not warmup_seconds >= 0:
            raise BackendError(f"{seconds = }, {warmup_seconds = }: must be above 0 and at least 0")
        if subject.load.kind == "saturated:mix":
            raise UnsupportedError(
                "load = 'saturated:mix': the routers of a real server do not count what they drop; "
                "measure load='closed', which serves the mix as it is offered, or 'saturated'"
            )
        check_name("strategy", strategy, STRATEGIES)
        check_name("pace", pace, PACES)
        check_name("routers", routers, ROUTERS)
        check_whole("batch", batch, 1, 64)
        check_whole("window", window, 0, 1 << 24)
        check_number("sweep_seconds", sweep_seconds, 0)
        check_number("max_growth", max_growth, 0)
        self.settings = {
            "numa_balancing": numa_balancing,
            "transparent_hugepages": transparent_hugepages,
        }
        check_settings(self.settings)
        self.sweep_seconds = sweep_seconds
        super().__init__(subject, records)
        self.step_cost = seconds + warmup_seconds
        self.seconds = seconds
        self.warmup_seconds = warmup_seconds
        self.window = window
        self.batch = batch
        self.huge_pages = huge_pages
        self.strategy = strategy
        self.pace = pace
        self.routers = routers
        self.max_growth = max_growth
        self.interleave_nodes: list[int] = whole_numbers(
            "interleave_nodes", np.atleast_1d(interleave_nodes)
        ).tolist()
        self._progress = progress
        self.on_round = on_round
        self._event_names: list[str] = []
        self._facts = _native.host_facts("/")
        topology = host_topology("the backend 'hardware'")
        self._cpus = {cpu["id"] for cpu in topology["cpus"]}
        self._require_online(topology["allowed_cpus"])
        #: The kernel's number of each of the machine's nodes.
        self._kernel_node = kernel_nodes(machine)
        self.co_tenants = CoTenantThreads(machine, topology, self._kernel_node)
        #: The reason not to ask the kernel for the nodes of data, on a host with one node; or "".
        self.not_asked = _native.placement_refusal() if len(topology["nodes"]) == 1 else ""
        self._instance = Instance()
        self._runner: _native.Runner | None = None
        #: The kernel's node of each slice, if bound loaders placed the data; else [].
        self._loaded_on: list[int] = []

    def _require_online(self, allowed: list[int]) -> None:
        """Raises BackendError if the description has a CPU that is not available (any longer)."""
        usable = set(allowed) & self._cpus
        missing = [cpu for cpu in self.machine.cpu_of_core.tolist() if cpu not in usable]
        if missing:
            raise BackendError(
                f"CPU {', '.join(map(str, missing))} of the machine's description is offline or "
                "outside of this process's cpuset: bring it back, or describe the host anew "
                "with load_machine('host') in a new process"
            )

    def set_instance(self, instance: Instance) -> None:
        """Sets hot keys (another seed loads the index again) and co-tenants."""
        check_co_tenants(instance.co_tenants, self.machine, self.co_tenant_families, self.name)
        if instance.workload_seed != self._instance.workload_seed:
            self._runner = None
        self._instance = instance

    def loaded_runner(self, schedule: Schedule | None = None) -> _native.Runner:
        """The index, loaded for the instance.

        Args:
            schedule: the next schedule. A library that hides its memory is loaded again if the
                schedule has data on other nodes, by loaders that are bound to these nodes.

        Raises:
            PlacementError: bound loaders are needed for a node without CPUs.
            BackendError: too little memory, or an error of a library.
        """
        records = self.workload.records
        if self._runner and self._runner.next_insert_record > records * (1 + self.max_growth):
            self._runner = None  # frees the old index before the new one is loaded
        if self._runner and self._nodes_to_load_on(self._runner, schedule) not in (
            [],
            self._loaded_on,
        ):
            self._runner = None
        if self._runner is None:
            with native_errors("the index cannot be loaded", self.workload.index):
                runner = _native.Runner(
                    native_workload(self.workload, self._instance.workload_seed),
                    slices=self.slices,
                    huge_pages=self.huge_pages,
                    index=self.workload.index,
                )
                self._loaded_on = self._nodes_to_load_on(runner, schedule)
                runner.load(progress=self._progress, nodes=self._loaded_on)
            self._runner = runner
        return self._runner

    @property
    def records(self) -> int:
        """Records in the index now; those to be loaded if there is none."""
        return self._runner.size if self._runner else self.workload.records

    def _nodes_to_load_on(self, runner: _native.Runner, schedule: Schedule | None) -> list[int]:
        """The kernel's node of each slice, if loading alone can place its data; else []."""
        if schedule is None or not runner.hidden_memory:
            return []
        native = self.native_schedule(schedule)
        nodes: list[int] = native["nodes"]
        return nodes if native["data"] in ("slice", "first_touch") else []

    def measure(self, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        """Measures ``schedule`` for ``seconds``.

        Other programs may take all of the CPU time. So a measurement without a completed query is
        repeated, up to three attempts.

        Raises:
            ScheduleError: this host cannot run the schedule.
            PlacementError: this process may not place data or query their nodes, and the host has
                several nodes; the message names the way out.
            BackendError: a thread failed, and the message names its role and CPU; or too little
                memory, a missing CPU, or a setting of the kernel that cannot be changed.
        """
        self.machine.check_schedule(schedule, self.slices)
        with self.ready():
            return self._measure(schedule, seed)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Applies the kernel's settings while the index is served; BackendError if it cannot."""
        self._require_online(_native.host_topology()["allowed_cpus"])
        with switched(self.settings):
            # Read now, with the settings of the measurement.
            self._facts = _native.host_facts("/")
            yield

    def _measure(self, schedule: Schedule, seed: int) -> HardwareSnapshot:
        runner = self.loaded_runner(schedule)
        before, balanced_before = runner.size, pages_balanced()
        if self.on_round and not self._event_names:
            # Not during the measurement: probing opens counters.
            self._event_names = [event["name"] for event in _native.probe_events()]
        for _ in range(_MAX_ATTEMPTS):
            with native_errors("the measurement failed", self.workload.index):
                raw = runner.measure(
                    **self.native_schedule(schedule),
                    **self.native_options(seed),
                    pace=self.pace,
                    sweep_seconds=self.sweep_seconds,
                    seconds=self.seconds,
                    on_rounds=self._report_rounds if self.on_round else None,
                )
            if raw["completed"]:
                break
        balanced = pages_balanced() - balanced_before
        return self._snapshot(raw, seed, (before, runner.size), balanced, runner.load_report)

    def native_schedule(self, schedule: Schedule) -> dict[str, Any]:
        """A schedule as the native runner takes it; ScheduleError if this host cannot run it."""
        self.machine.check_schedule(schedule, self.slices)
        return {
            "cores": self.machine.cpu_of_core[schedule.cores],
            "nodes": self._kernel_node[schedule.nodes].tolist(),
            "routing": schedule.routing,
            # With a single node all data are in place.
            "data": "keep" if self.not_asked else schedule.data,
        }

    def native_options(self, seed: int) -> dict[str, Any]:
        """The options of the native runner in this instance."""
        return {
            "interleave_nodes": self.interleave_nodes,
            "strategy": self.strategy,
            "worker_cpus": self.machine.cpu_of_core[self.machine.workers].tolist(),
            "router_cpus": self._cpus_of("router" if self.routers == "spare" else "worker"),
            "sweeper_cpus": self._cpus_of("sweeper"),
            "co_tenants": self.co_tenants.native(self._instance.co_tenants),
            "load": self.load.kind,
            "outstanding_per_worker": self.load.outstanding_per_worker,
            "rate_mqs": self.load.offered_mq_per_s,
            "warmup_seconds": self.warmup_seconds,
            "seed": seed,
            "window": self.window,
            "batch": self.batch,
        }

    def provenance(self, seed: int) -> dict[str, Any]:
        """The part of the provenance that all snapshots of this host share."""
        return {
            "backend": self.name,
            "version": __version__,
            "seed": seed,
            "host": self._facts,
            "index": self.workload.index,
        }

    def _cpus_of(self, role: str) -> list[int]:
        cores = np.array(self.machine.role_of_core) == role
        cpus: list[int] = self.machine.cpu_of_core[cores].tolist()
        return cpus

    def _snapshot(
        self,
        raw: dict[str, Any],
        seed: int,
        records: tuple[int, int],
        balanced: int,
        loading: dict[str, Any] | None,
    ) -> HardwareSnapshot:
        seconds = raw["seconds"]
        require_planned_cpus(raw["worker_cpus"], self.machine, self.workload.index)
        return snapshot_of(
            raw,
            self.load,
            {
                **self.provenance(seed),
                "records_before": records[0],
                "records_after": records[1],
                "seconds": seconds,
                "window": self.window,
                "worker_cpus": [int(cpu) for cpu in raw["worker_cpus"]],
                "router_cpus": [int(cpu) for cpu in raw["router_cpus"]],
                "co_tenant_cpus": [int(cpu) for cpu in raw["co_tenant_cpus"]],
                "co_tenant_gb_per_s": raw["co_tenant_bytes"] / seconds / 1e9,
                "batch": self.batch,
                "roles_share_cores": bool(raw["roles_share_cores"]),
                "shared_cores": raw["shared_cores"],
                "unbound_roles": raw["unbound_roles"],
                "node_mq_per_s": self._by_node(raw["worker_queries"] / seconds / 1e6),
                "data": {
                    **data_facts(raw, self.strategy, self.pace, self.not_asked, loading),
                    "pages_balanced": balanced,
                },
                "rounds": rounds_of(raw["rounds"]),
                "sweeper_cpus": [int(cpu) for cpu in raw["sweeper_cpus"]],
                "user_read_groups": [raw["user_read_groups"], raw["counter_groups"]],
            },
        )

    def _report_rounds(self, raw: dict[str, Any]) -> None:
        """Calls on_round with every new round."""
        assert self.on_round
        rounds = rounds_of(raw)
        nodes = [str(node) for node in rounds["nodes"]]
        per_query = raw["counters"].reshape(len(rounds["seconds"]), len(nodes), -1)
        per_query = per_query / np.maximum(raw["sampled"], 1)[:, :, np.newaxis]
        for i, end in enumerate(rounds["seconds"]):
            self.on_round(
                {
                    "seconds": end,
                    "node_mq_per_s": dict(zip(nodes, rounds["node_mq_per_s"][i], strict=True)),
                    "node_counters_per_query": {
                        node: {
                            name: float(value)
                            for name, value in zip(self._event_names, of_node, strict=True)
                            if value > 0
                        }
                        for node, of_node in zip(nodes, per_query[i], strict=True)
                    },
                }
            )

    def _by_node(self, of_worker: Float64Array) -> dict[str, float]:
        """Sums over the workers of each node, by the kernel's numbers."""
        nodes = self._kernel_node[self.machine.node_of_core[self.machine.workers]]
        return {str(node): float(of_worker[nodes == node].sum()) for node in np.unique(nodes)}

    def close(self) -> None:
        """Frees the index."""
        self._runner = None

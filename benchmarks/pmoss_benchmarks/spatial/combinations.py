"""Combinations of machine, index, workload, load and co-tenants: as cells, and as backends.

Simulated backends of one process share their recordings: these cost more than a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pmoss_benchmarks.study.function import Cell
from pmoss_env.backends import Backend, IncrementalBackend, make_backend
from pmoss_env.backends.recordings import Recordings
from pmoss_env.errors import UnsupportedError
from pmoss_env.indexes import index_kind
from pmoss_env.interference import possible_draws
from pmoss_env.machines import Machine, load_machine, machine_names
from pmoss_env.workloads import load_workload, workload_names

_RECORDINGS = Recordings(kept=6)


@dataclass(frozen=True)
class Combined:
    """Settings that choose combinations.

    Attributes:
        machines: by catalogue name; none: all that can be modelled.
        workloads: by catalogue name; none: all.
        loads: load regimes, as in the environment's argument.
        interference: families of co-tenants.
    """

    AXES: ClassVar[tuple[str, ...]] = ("machines", "workloads", "loads", "interference")

    machines: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ("ycsb-a",)
    loads: tuple[str, ...] = ("closed",)
    interference: tuple[str, ...] = ("none",)

    def cells(self, indexes: Sequence[str] = ()) -> list[Cell]:
        """Their combinations, with the index of the workload.

        Families of co-tenants that a machine cannot have are left out, and workloads for other
        indexes.

        Raises:
            UnknownNameError: a name that is in no catalogue.
        """
        for index in indexes:
            index_kind(index)
        names = self.machines or machine_names()
        modelled = [name for name in names if load_machine(name).parameters]
        return [
            {
                "machine": machine,
                "index": load_workload(workload).index,
                "workload": workload,
                "load": load,
                "interference": family,
            }
            # Machines innermost: those of one workload share its recording.
            for workload in self.workloads or workload_names()
            if not indexes or load_workload(workload).index in indexes
            for machine in modelled
            for load in self.loads
            for family in self.interference
            if _is_possible(family, load_machine(machine))
        ]


def _is_possible(interference: str, machine: Machine) -> bool:
    try:
        possible_draws(interference, machine)
    except UnsupportedError:
        return False
    return True


def simulation(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a simulated backend, with the recordings of this process."""
    return {**(options or {}), "recordings": _RECORDINGS}


def model_and_server(
    cell: Cell, slices: int, options: Mapping[str, Any] | None
) -> tuple[IncrementalBackend, Backend]:
    """The analytic and the simulated backend of a cell."""
    common = {name: cell[name] for name in ("machine", "index", "workload", "load")}
    common["slices"] = slices
    model = make_backend("analytic", **common)
    assert isinstance(model, IncrementalBackend)
    return model, make_backend("simulated", **common, **simulation(options))

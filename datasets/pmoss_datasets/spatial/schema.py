"""The schema of spatial scheduling: every field with its shape, dtype and unit.

An episode is stored compactly: what the environment drew, what the backend measured before and
after, and what the policy chose. Observations, rewards and returns are computed from that when
they are asked for (``expansion``), so one file serves every reward mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pmoss_datasets.schema import COMMON_FIELDS, INSTANCE_FIELDS, Field, Metadata
from pmoss_env.errors import DatasetError, PmossError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import (
    CO_TENANT_FAMILIES,
    CoTenant,
    Float32Array,
    Float64Array,
    HardwareSnapshot,
    Instance,
    Schedule,
)

Int16Array = npt.NDArray[np.int16]

#: What is kept of both the incumbent and the final schedule, in the order of their fields.
_OF_SCHEDULE: tuple[Field, ...] = (
    Field("cores", "T", "int16", "core", "core of each slice at the {when}"),
    Field("nodes", "T", "int16", "node", "NUMA node of each slice's data at the {when}"),
    Field("throughput", "", "float64", "Mq/s", "throughput at the {when}"),
    Field("counters", "TH", "float32", "million counts/s", "COUNTERS of each slice"),
    Field("slice_throughput", "T", "float64", "Mq/s", "throughput of each slice"),
    Field("running_ratio", "H", "float32", "1", "share of time each counter counted"),
    Field("offcore", "O", "float32", "GB/s", "off-core values, metadata offcore_names", nan=True),
    Field("latency", "L", "float32", "microsecond", "median and 99th percentile"),
)

#: The axes: T slices, H counters, O off-core values, K co-tenants, W worker cores (in the order of
#: the machine's ``workers``), L latency percentiles.
FIELDS: tuple[Field, ...] = (
    COMMON_FIELDS["episode"],
    COMMON_FIELDS["seed"],
    Field("workload_seed", "", "int64", "1", "workload instance: which keys are hot"),
    Field("neighbour_family", "K", "int16", "1", "index into CO_TENANT_FAMILIES, or -1", fill=-1),
    Field("neighbour_target", "K", "int16", "1", "number of the core, cache, node or link it has"),
    Field("neighbour_strength", "K", "float64", "1", "share that it takes, 0 to 1"),
    COMMON_FIELDS["policy"],
    Field("order", "T", "int16", "slice", "slice placed at each step"),
    Field("actions", "T", "int16", "tile", "core tile chosen at each step"),
    COMMON_FIELDS["propensity"],
    Field(
        "throughput",
        "T",
        "float64",
        "Mq/s",
        "throughput after each step, NaN if not measured",
        nan=True,
    ),
    *(
        replace(field, name=f"{which}_{field.name}", meaning=field.meaning.format(when=when))
        for which, when in (("incumbent", "start"), ("final", "end"))
        for field in _OF_SCHEDULE
    ),
    Field(
        "counterfactual",
        "TW",
        "float32",
        "Mq/s",
        "throughput after each step had its slice gone to each worker core, without noise",
        optional=True,
    ),
    *(
        Field(name, "", "float64", "Mq/s", f"throughput of {what}, without noise", optional=True)
        for name, what in zip(
            INSTANCE_FIELDS,
            ("random schedules on this instance, a mean", "what search finds on this instance"),
            strict=True,
        )
    ),
)
FIELD: Mapping[str, Field] = {field.name: field for field in FIELDS}
FAMILIES = tuple(CO_TENANT_FAMILIES)
#: Latency percentiles kept of a snapshot: p50 and p99.
LATENCIES = 2


@dataclass(frozen=True)
class Episode:
    """One episode: a scalar or array per Field, under the same names and dtypes."""

    episode: int
    seed: int
    workload_seed: int
    neighbour_family: Int16Array
    neighbour_target: Int16Array
    neighbour_strength: Float64Array
    policy: int
    order: Int16Array
    actions: Int16Array
    propensity: Float32Array
    throughput: Float64Array
    incumbent_cores: Int16Array
    incumbent_nodes: Int16Array
    incumbent_throughput: float
    incumbent_counters: Float32Array
    incumbent_slice_throughput: Float64Array
    incumbent_running_ratio: Float32Array
    incumbent_offcore: Float32Array
    incumbent_latency: Float32Array
    final_cores: Int16Array
    final_nodes: Int16Array
    final_throughput: float
    final_counters: Float32Array
    final_slice_throughput: Float64Array
    final_running_ratio: Float32Array
    final_offcore: Float32Array
    final_latency: Float32Array
    counterfactual: Float32Array | None = None
    instance_random: float | None = None
    instance_search: float | None = None

    @property
    def slices(self) -> int:
        """Number of slices, T."""
        return int(self.actions.size)

    @property
    def steps(self) -> int:
        """Number of steps: as many as slices."""
        return self.slices

    @property
    def incumbent(self) -> Schedule:
        """The schedule that ran when the episode began."""
        return _schedule(self.incumbent_cores, self.incumbent_nodes)

    @property
    def final(self) -> Schedule:
        """The schedule that the episode ended with."""
        return _schedule(self.final_cores, self.final_nodes)

    @property
    def instance(self) -> Instance:
        """Workload instance and co-tenants."""
        co_tenants = tuple(
            CoTenant(FAMILIES[family], int(target), float(strength))
            for family, target, strength in zip(
                self.neighbour_family, self.neighbour_target, self.neighbour_strength, strict=True
            )
            if family >= 0
        )
        return Instance(int(self.workload_seed), co_tenants)

    def snapshot(self, which: str, metadata: SpatialMetadata) -> HardwareSnapshot:
        """The "incumbent" or "final" snapshot, as measured up to the float32 of its counters."""
        ratio = np.asarray(getattr(self, f"{which}_running_ratio"), dtype=np.float64)
        offcore = np.asarray(getattr(self, f"{which}_offcore"), dtype=np.float64)
        latency = getattr(self, f"{which}_latency")
        return HardwareSnapshot(
            throughput=float(getattr(self, f"{which}_throughput")),
            slice_throughput=getattr(self, f"{which}_slice_throughput"),
            slice_counters=getattr(self, f"{which}_counters").astype(np.float64),
            counters_available=ratio > 0,
            running_ratio=ratio,
            offcore=np.where(np.isnan(offcore), 0.0, offcore),
            offcore_names=metadata.offcore_names,
            offcore_available=~np.isnan(offcore),
            latency_p50_us=float(latency[0]),
            latency_p99_us=float(latency[1]),
            load=str(metadata.env_kwargs.get("load", "closed")),
            provenance=dict(metadata.provenance),
        )


def _schedule(cores: Int16Array, nodes: Int16Array) -> Schedule:
    return Schedule(cores.astype(np.int32), nodes.astype(np.int32))


def snapshot_fields(which: str, snapshot: HardwareSnapshot) -> dict[str, Any]:
    """The fields that hold ``snapshot`` as the "incumbent" or "final" one."""
    offcore = np.where(snapshot.offcore_available, snapshot.offcore, np.nan)
    counters = snapshot.slice_counters.astype(np.float32)
    # A counter that the backend lacks is known by its running ratio of 0, never by its values.
    counters[:, ~snapshot.counters_available] = 0
    return {
        f"{which}_throughput": float(snapshot.throughput),
        f"{which}_counters": counters,
        f"{which}_slice_throughput": snapshot.slice_throughput.astype(np.float64),
        f"{which}_running_ratio": np.where(
            snapshot.counters_available, snapshot.running_ratio, 0
        ).astype(np.float32),
        f"{which}_offcore": offcore.astype(np.float32),
        f"{which}_latency": np.array(
            [snapshot.latency_p50_us, snapshot.latency_p99_us], dtype=np.float32
        ),
    }


@dataclass(frozen=True, kw_only=True)
class SpatialMetadata(Metadata):
    """What the metadata of spatial scheduling says beyond that of every dataset.

    Attributes:
        slices: number of slices, T.
        counter_names: (H,) names, the order of the counters' last axis.
        offcore_names: (O,) names, the order of the off-core values.
        machine: grid, cores and roles that actions and schedules refer to, see machine_facts().
    """

    slices: int
    counter_names: tuple[str, ...]
    offcore_names: tuple[str, ...]
    machine: Mapping[str, Any]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the data file, those that every dataset has first."""
        return tuple(f for f in FIELDS if not f.optional or f.name in self.optional_fields)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Length of each axis but K, which the data file tells."""
        return {
            "T": self.slices,
            "H": len(self.counter_names),
            "O": len(self.offcore_names),
            "L": LATENCIES,
            "W": len(self.machine.get("workers", ())),
        }

    @classmethod
    def from_json(cls, data: Any, where: Path) -> Self:
        """See Metadata.from_json; refuses unknown optional fields, too."""
        made = super().from_json(data, where)
        optional = [field.name for field in FIELDS if field.optional]
        for name in made.optional_fields:
            if name not in optional:
                raise DatasetError(
                    f"{where}: optional_fields: {name!r}: unknown; known are {', '.join(optional)}"
                )
        return made


def machine_facts(machine: Machine) -> dict[str, Any]:
    """What schedules and actions of a dataset refer to, as plain JSON."""
    return {
        "name": machine.name,
        "rows": machine.rows,
        "cols": machine.cols,
        "tile_of_core": machine.tile_of_core.tolist(),
        "node_of_core": machine.node_of_core.tolist(),
        "socket_of_node": machine.socket_of_node.tolist(),
        "workers": machine.workers.tolist(),
    }


def machine_of(metadata: SpatialMetadata, where: Path | str) -> Machine:
    """The machine of a dataset.

    Raises:
        DatasetError: no such machine, or this version's description has other cores or tiles.
    """
    name = str(metadata.env_kwargs.get("machine"))
    try:
        machine = load_machine(name)
    except PmossError as error:
        raise DatasetError(f"{where}: env_kwargs: machine = {name!r}: {error}") from error
    facts = machine_facts(machine)
    for key, value in facts.items():
        if key != "name" and metadata.machine.get(key) != value:
            raise DatasetError(
                f"{where}: machine {metadata.machine.get('name')!r}: its {key} differ from those "
                f"of the {machine.name!r} that is installed"
            )
    return machine

"""What a dataset holds: every field of an episode with its shape, dtype and unit.

An episode is stored compactly: what the environment drew, what the backend measured before and
after, and what the policy chose. Observations, rewards and returns are computed from that when
they are asked for (``expansion``), so one file serves every reward mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import DatasetError, PmossError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import (
    NEIGHBOUR_FAMILIES,
    Float32Array,
    Float64Array,
    HardwareSnapshot,
    Instance,
    Neighbour,
    Schedule,
)

Array = npt.NDArray[Any]
Int16Array = npt.NDArray[np.int16]

#: Raised by one whenever a reader of the older version could misread the newer one.
SCHEMA_VERSION = 3
FORMAT = "pmoss-dataset"
#: ``pmoss/<machine>-<index>-<workload>/<tier>-v<version>``, the task followed by load and
#: interference where they are not the usual ones; also a legal Minari id.
ID_PATTERN = re.compile(r"pmoss/[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*-v\d+")


@dataclass(frozen=True)
class Field:
    """One array of ``data.hdf5``; axis 0 is the episode and is not part of ``axes``.

    Attributes:
        name: its name in the file.
        axes: symbols of the other axes: T slices, H counters, O off-core values, K neighbours, W
            worker cores (in the order of the machine's ``workers``), L latency percentiles.
        dtype: NumPy dtype.
        unit: of its values.
        meaning: one line.
        optional: only in datasets whose metadata lists it under ``optional_fields``.
    """

    name: str
    axes: str
    dtype: str
    unit: str
    meaning: str
    optional: bool = False


FIELDS: tuple[Field, ...] = (
    Field("episode", "", "int64", "1", "its number in the recipe, once in a dataset"),
    Field("seed", "", "int64", "1", "seed given to the environment's reset()"),
    Field("workload_seed", "", "int64", "1", "workload instance: which keys are hot"),
    Field("neighbour_family", "K", "int16", "1", "position in NEIGHBOUR_FAMILIES, -1 for none"),
    Field("neighbour_target", "K", "int16", "1", "number of the core, cache, node or link it has"),
    Field("neighbour_strength", "K", "float64", "1", "share that it takes, 0 to 1"),
    Field("policy", "", "int16", "1", "behaviour policy: index into metadata policy_names"),
    Field("order", "T", "int16", "slice", "slice placed at each step"),
    Field("actions", "T", "int16", "tile", "core tile chosen at each step"),
    Field("propensity", "T", "float32", "1", "probability of that choice, NaN if not known"),
    Field("throughput", "T", "float64", "Mq/s", "throughput after each step, NaN if not measured"),
    Field("incumbent_cores", "T", "int16", "core", "core of each slice at the start"),
    Field("incumbent_nodes", "T", "int16", "node", "NUMA node of each slice's data at the start"),
    Field("incumbent_throughput", "", "float64", "Mq/s", "throughput at the start"),
    Field("incumbent_counters", "TH", "float32", "million counts/s", "COUNTERS of each slice"),
    Field("incumbent_slice_throughput", "T", "float64", "Mq/s", "throughput of each slice"),
    Field("incumbent_running_ratio", "H", "float32", "1", "share of time each counter counted"),
    Field("incumbent_offcore", "O", "float32", "GB/s", "off-core values, metadata offcore_names"),
    Field("incumbent_latency", "L", "float32", "microsecond", "median and 99th percentile"),
    Field("final_cores", "T", "int16", "core", "core of each slice at the end"),
    Field("final_nodes", "T", "int16", "node", "NUMA node of each slice's data at the end"),
    Field("final_throughput", "", "float64", "Mq/s", "throughput at the end"),
    Field("final_counters", "TH", "float32", "million counts/s", "COUNTERS of each slice"),
    Field("final_slice_throughput", "T", "float64", "Mq/s", "throughput of each slice"),
    Field("final_running_ratio", "H", "float32", "1", "share of time each counter counted"),
    Field("final_offcore", "O", "float32", "GB/s", "off-core values, metadata offcore_names"),
    Field("final_latency", "L", "float32", "microsecond", "median and 99th percentile"),
    Field(
        "counterfactual",
        "TW",
        "float32",
        "Mq/s",
        "throughput after each step had its slice gone to each worker core, without noise",
        optional=True,
    ),
)
FIELD: Mapping[str, Field] = {field.name: field for field in FIELDS}
FAMILIES = tuple(NEIGHBOUR_FAMILIES)
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

    @property
    def slices(self) -> int:
        """Number of slices, T."""
        return int(self.actions.size)

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
        """Workload instance and neighbours."""
        neighbours = tuple(
            Neighbour(FAMILIES[family], int(target), float(strength))
            for family, target, strength in zip(
                self.neighbour_family, self.neighbour_target, self.neighbour_strength, strict=True
            )
            if family >= 0
        )
        return Instance(int(self.workload_seed), neighbours)

    def snapshot(self, which: str, metadata: Metadata) -> HardwareSnapshot:
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


#: What each annotation of Metadata is in JSON.
_JSON_KINDS: Mapping[str, type] = {"int": int, "str": str, "Mapping": dict, "tuple": list}


@dataclass(frozen=True)
class Metadata:
    """The contents of ``metadata.json``: what one must know to use, cite and redo a dataset.

    Attributes:
        id: ``pmoss/<machine>-<index>-<workload>/<tier>-v<n>``.
        env_kwargs: keyword arguments of ``pmoss/SpatialScheduling-v0``.
        recipe: how it was collected, see ``recipes.Recipe``; empty for imported data.
        seed: the recipe's seed.
        code_version: of pmoss_env.
        episodes: number of episodes, N.
        slices: number of slices, T.
        counter_names: (H,) names, the order of the counters' last axis.
        offcore_names: (O,) names, the order of the off-core values.
        policy_names: what ``policy`` indexes.
        machine: grid, cores and roles that actions and schedules refer to, see machine_facts().
        reference_scores: ``{"random": {mean, std, n}, "search": {mean, std, n, budget},
            "incumbent": {mean, std, n}}`` of throughput in Mq/s over the same reference episodes:
            final under random and under searched schedules, which are 0 and 100 of
            Dataset.normalized_score(), and at the start. Empty if not computed.
        provenance: backend, its version and, on hardware, the host.
        checksums: sha256 of each field's dtype, shape and bytes.
        optional_fields: names of the optional fields that it holds.
        headroom: of the task, a row of ``pmoss benchmark headroom``; empty if nobody measured it.
        schema_version: SCHEMA_VERSION of the writer.
    """

    id: str
    env_kwargs: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seed: int
    code_version: str
    episodes: int
    slices: int
    counter_names: tuple[str, ...]
    offcore_names: tuple[str, ...]
    policy_names: tuple[str, ...]
    machine: Mapping[str, Any]
    reference_scores: Mapping[str, Mapping[str, float]]
    provenance: Mapping[str, Any]
    checksums: Mapping[str, str]
    optional_fields: tuple[str, ...] = ()
    headroom: Mapping[str, Any] = dataclass_field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the data file, those that every dataset has first."""
        return tuple(f for f in FIELDS if not f.optional or f.name in self.optional_fields)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: Any, where: Path) -> Metadata:
        """Reads what to_json() wrote; raises DatasetError naming the file and the key."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise DatasetError(f"{where}: is not the metadata of a {FORMAT}")
        version = data.get("schema_version")
        if not isinstance(version, int) or version < 1:
            raise DatasetError(f"{where}: schema_version = {version!r}: must be a whole number")
        if version < SCHEMA_VERSION:
            raise DatasetError(
                f"{where}: schema_version = {version}: written by an older version, pmoss-env "
                f"{data.get('code_version')!r}; collect it again from its recipe"
            )
        if version > SCHEMA_VERSION:
            raise DatasetError(
                f"{where}: schema_version = {version}: written by a newer version, pmoss-env "
                f"{data.get('code_version')!r}; this one reads up to {SCHEMA_VERSION}"
            )
        values: dict[str, Any] = {}
        for field in fields(cls):
            if field.name not in data:
                raise DatasetError(f"{where}: {field.name}: is missing")
            value = data[field.name]
            kind = _JSON_KINDS[str(field.type).partition("[")[0]]
            if not isinstance(value, kind):
                raise DatasetError(f"{where}: {field.name} = {value!r}: has the wrong type")
            values[field.name] = tuple(value) if isinstance(value, list) else value
        known = [field.name for field in FIELDS if field.optional]
        for name in values["optional_fields"]:
            if name not in known:
                raise DatasetError(
                    f"{where}: optional_fields: {name!r}: unknown; known are {', '.join(known)}"
                )
        return cls(**values)


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


def machine_of(metadata: Metadata, where: Path | str) -> Machine:
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


def field_shape(field: Field, metadata: Metadata, neighbours: int) -> tuple[int, ...]:
    """Shape of a field's array over all episodes."""
    size = {
        "T": metadata.slices,
        "H": len(metadata.counter_names),
        "O": len(metadata.offcore_names),
        "K": neighbours,
        "L": LATENCIES,
        "W": len(metadata.machine.get("workers", ())),
    }
    return (metadata.episodes, *(size[axis] for axis in field.axes))


def stack(episodes: list[Episode]) -> dict[str, Array]:
    """Episodes as one array per field, axis 0 the episode; pads the neighbours."""
    most = max((episode.neighbour_family.size for episode in episodes), default=0)
    arrays: dict[str, Array] = {}
    for field in FIELDS:
        lacking = [i for i, e in enumerate(episodes) if getattr(e, field.name) is None]
        if len(lacking) == len(episodes):
            continue
        if lacking:
            raise DatasetError(f"episode {lacking[0]}: {field.name}: is missing; others have it")
        rows = [np.asarray(getattr(episode, field.name)) for episode in episodes]
        if field.axes == "K":
            fill = -1 if field.name == "neighbour_family" else 0
            rows = [np.pad(row, (0, most - row.size), constant_values=fill) for row in rows]
        shapes = {row.shape for row in rows}
        if len(shapes) > 1:
            raise DatasetError(f"{field.name}: episodes of different shapes: {sorted(shapes)}")
        for i, row in enumerate(rows):
            kind = np.dtype(field.dtype)
            if not np.can_cast(row.dtype, kind, "same_kind"):
                raise DatasetError(f"episode {i}: {field.name}: {row.dtype} does not fit {kind}")
            if kind.kind == "i" and row.size and np.abs(row).max() > np.iinfo(kind).max:
                raise DatasetError(f"episode {i}: {field.name}: a value does not fit {kind}")
        arrays[field.name] = np.stack(rows).astype(field.dtype)
    return arrays

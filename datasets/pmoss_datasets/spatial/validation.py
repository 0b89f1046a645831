"""Rules for datasets of spatial scheduling, beyond those for every dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pmoss_datasets.schema import Array, first_wrong
from pmoss_datasets.spatial.counter_columns import name_problems
from pmoss_datasets.spatial.schema import FAMILIES, SpatialMetadata
from pmoss_env.checks import check_name, is_whole
from pmoss_env.envs.spatial.observation import OBSERVATION_MODES, PLACEMENT_ORDERS
from pmoss_env.envs.spatial.rules import ACTIONS, CONSTRAINTS
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.interference import INTERFERENCE, target_count
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES, LoadRegime

_M = SpatialMetadata
#: Million counts per second; no machine counts so fast.
_MOST_COUNTS = 1e12


def spatial_problems(
    arrays: Mapping[str, Array], metadata: SpatialMetadata, machine: Machine
) -> Iterator[str]:
    """The first problem of each rule; rules about fields that are not given are left out."""
    rules = (
        (("workload_seed",), _origin_problems),
        (("actions", "propensity"), _action_problems),
        (("order",), _order_problems),
        (("incumbent_cores", "incumbent_nodes", "final_cores", "final_nodes"), _place_problems),
        (
            ("order", "actions", "final_cores", "final_nodes", "throughput", "final_throughput"),
            _end_problems,
        ),
        (("neighbour_family", "neighbour_target", "neighbour_strength"), _co_tenant_problems),
        (("incumbent_counters", "incumbent_running_ratio"), _counter_problems),
        (("counterfactual", "actions", "throughput"), _counterfactual_problems),
    )
    for names, rule_of in rules:
        if all(name in arrays for name in names):
            yield from rule_of(arrays, metadata, machine)


def spatial_metadata_problems(metadata: SpatialMetadata, *, stored: bool) -> Iterator[str]:
    """Checks what readers rely on in the metadata; see Domain.metadata_problems."""
    yield from name_problems(metadata.counter_names)
    if not stored and metadata.counter_names != COUNTER_NAMES:
        yield f"counter_names = {list(metadata.counter_names)}: must be {list(COUNTER_NAMES)}"
    for name, modes in (("observation", OBSERVATION_MODES), ("order", PLACEMENT_ORDERS)):
        value = metadata.env_kwargs.get(name, modes[0])
        if value not in modes:
            yield f"env_kwargs: {name} = {value!r}: must be one of {modes}"
    try:
        kwargs = metadata.env_kwargs
        LoadRegime.parse(str(kwargs.get("load", "closed")))
        index_kind(str(kwargs.get("index", DEFAULT)))
        check_name("interference", kwargs.get("interference", "none"), INTERFERENCE)
    except (UnknownNameError, DescriptionError) as error:
        yield f"env_kwargs: {error}"
    slices = metadata.env_kwargs.get("slices", metadata.slices)
    if slices != metadata.slices:
        yield f"env_kwargs: slices = {slices!r}: must be {metadata.slices}, as the data have"
    constraints = metadata.env_kwargs.get("constraints")
    named = isinstance(constraints, dict) and set(constraints) <= set(CONSTRAINTS)
    limit = constraints.get("max_slices_per_core", 1) if isinstance(constraints, dict) else None
    if constraints is not None and not (constraints and named and is_whole(limit)):
        yield (
            f"env_kwargs: constraints = {constraints!r}: must be null or "
            '{"max_slices_per_core": a whole number, "node_memory_gib": numbers}'
        )
    actions = metadata.env_kwargs.get("actions", "core")
    if actions not in ACTIONS:
        yield f"env_kwargs: actions = {actions!r}: must be one of {ACTIONS}"


def _chooses_node(metadata: SpatialMetadata) -> bool:
    return bool(metadata.env_kwargs.get("actions", "core") == "core_node")


def tiles_of(actions: Array, metadata: SpatialMetadata, machine: Machine) -> Array:
    """The tiles that actions name."""
    return actions // machine.nodes if _chooses_node(metadata) else actions


def _origin_problems(arrays: Mapping[str, Array], _: _M, __: Machine) -> Iterator[str]:
    seeds = arrays["workload_seed"]
    yield from first_wrong(seeds < 0, "workload_seed", seeds, "must not be negative")


def _action_problems(
    arrays: Mapping[str, Array], metadata: SpatialMetadata, machine: Machine
) -> Iterator[str]:
    propensity = arrays["propensity"]
    actions = tiles_of(arrays["actions"], metadata, machine)
    outside = (actions < 0) | (actions >= machine.tiles)
    illegal = outside | ~machine.worker_tiles[np.where(outside, 0, actions)]
    rule = f"is no tile of a worker core of {machine.name}"
    yield from first_wrong(illegal, "actions", arrays["actions"], rule)
    yield from first_wrong(
        propensity == 0, "propensity", propensity, "of an action that was chosen"
    )
    limit = (metadata.env_kwargs.get("constraints") or {}).get("max_slices_per_core")
    if limit is None or outside.any():
        return
    for e, row in enumerate(actions):
        counts = np.bincount(row)
        if counts.max() > limit:
            yield (
                f"episode {e}: actions: tile {counts.argmax()} takes {counts.max()} slices: "
                f"the constraint allows {limit}"
            )
            return


def _order_problems(
    arrays: Mapping[str, Array], metadata: SpatialMetadata, _: Machine
) -> Iterator[str]:
    order = np.sort(arrays["order"], axis=1)
    mixed = order != np.arange(metadata.slices)
    yield from first_wrong(mixed, "order", order, "must name each slice exactly once")


def _place_problems(arrays: Mapping[str, Array], _: _M, machine: Machine) -> Iterator[str]:
    for which in ("incumbent", "final"):
        cores, nodes = arrays[f"{which}_cores"], arrays[f"{which}_nodes"]
        outside = (cores < 0) | (cores >= machine.cores)
        illegal = outside | ~machine.worker_mask[np.where(outside, 0, cores)]
        rule = f"is no worker core of {machine.name}"
        yield from first_wrong(illegal, f"{which}_cores", cores, rule)
        outside = (nodes < 0) | (nodes >= machine.nodes)
        yield from first_wrong(outside, f"{which}_nodes", nodes, f"is no node of {machine.name}")


def _end_problems(
    arrays: Mapping[str, Array], metadata: SpatialMetadata, machine: Machine
) -> Iterator[str]:
    order, actions = arrays["order"], tiles_of(arrays["actions"], metadata, machine)
    inside = (order >= 0) & (order < metadata.slices) & (actions >= 0) & (actions < machine.tiles)
    if inside.all():
        placed = np.take_along_axis(arrays["final_cores"], order.astype(np.int64), axis=1)
        moved = placed != machine.core_of_tile[actions]
        yield from first_wrong(
            moved, "final_cores", placed, "is not where the actions put the slice"
        )
    final = arrays["final_throughput"]
    cores, nodes = arrays["final_cores"], arrays["final_nodes"]
    real_cores = (cores >= 0) & (cores < machine.cores)
    if _chooses_node(metadata):
        if inside.all():
            data = np.take_along_axis(nodes, order.astype(np.int64), axis=1)
            other = data != arrays["actions"] % machine.nodes
            yield from first_wrong(
                other, "final_nodes", data, "is not where the actions put the data"
            )
    else:
        remote = real_cores & (nodes != machine.node_of_core[np.where(real_cores, cores, 0)])
        yield from first_wrong(remote, "final_nodes", nodes, "is not the node of the slice's core")
    rule = "differs from the last step's throughput"
    yield from first_wrong(arrays["throughput"][:, -1] != final, "final_throughput", final, rule)


def _co_tenant_problems(arrays: Mapping[str, Array], _: _M, machine: Machine) -> Iterator[str]:
    family, strength = arrays["neighbour_family"], arrays["neighbour_strength"]
    target = arrays["neighbour_target"]
    unknown = (family >= len(FAMILIES)) | (family < -1)
    yield from first_wrong(unknown, "neighbour_family", family, "is no family of co-tenants")
    # Family -1, which is none, has the last position.
    targets = np.array([*(target_count(name, machine) for name in FAMILIES), 1])
    absent = (target >= targets[np.where(unknown, -1, family)]) | (target < 0)
    rule = f"does not exist on {machine.name}"
    yield from first_wrong(absent, "neighbour_target", target, rule)
    outside = (strength >= 1) | (strength < 0)
    yield from first_wrong(outside, "neighbour_strength", strength, "must lie in [0, 1)")


def _counter_problems(arrays: Mapping[str, Array], _: _M, __: Machine) -> Iterator[str]:
    ratios = arrays["incumbent_running_ratio"]
    yield from first_wrong(ratios > 1.001, "incumbent_running_ratio", ratios, "must be at most 1")
    counts = arrays["incumbent_counters"]
    yield from first_wrong(counts > _MOST_COUNTS, "incumbent_counters", counts, "is absurd")
    counter = COUNTER_INDEX["queries"]
    queries = arrays["incumbent_counters"][..., counter].sum(axis=1)
    idle = (queries <= 0) & (arrays["incumbent_running_ratio"][:, counter] > 0)
    rule = "queries in all: the incumbent must serve some"
    yield from first_wrong(idle, "incumbent_counters", queries, rule)


def _counterfactual_problems(
    arrays: Mapping[str, Array], metadata: SpatialMetadata, machine: Machine
) -> Iterator[str]:
    if metadata.env_kwargs.get("noise"):
        return  # the throughputs carry noise, the counterfactuals do not
    actions, values = arrays["actions"], arrays["counterfactual"]
    position = np.full(machine.tiles, -1)
    position[machine.tile_of_core[machine.workers]] = np.arange(machine.workers.size)
    inside = (actions >= 0) & (actions < machine.tiles)
    chosen = position[np.where(inside, actions, 0)]
    if not inside.all() or (chosen < 0).any():
        return  # the rule about actions reports it
    foreseen = np.take_along_axis(values, chosen[..., None], axis=2)[..., 0]
    measured = arrays["throughput"].astype(np.float32)
    wrong = ~np.isnan(measured) & (foreseen != measured)
    rule = "of the chosen core differs from the throughput after the step"
    yield from first_wrong(wrong, "counterfactual", foreseen, rule)

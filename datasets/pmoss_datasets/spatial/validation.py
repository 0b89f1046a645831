"""What must hold in a dataset: every value that a reader relies on, checked by one rule each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from pmoss_datasets.schema import FAMILIES, FIELD, ID_PATTERN, Array, Metadata, field_shape
from pmoss_env.envs.spatial.observation import OBSERVATION_MODES, PLACEMENT_ORDERS
from pmoss_env.errors import DatasetError
from pmoss_env.interference import target_count
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES, BoolArray


def validate(arrays: Mapping[str, Array], metadata: Metadata, machine: Machine) -> None:
    """Raises DatasetError for the first of find_problems()."""
    for problem in find_problems(arrays, metadata, machine):
        raise DatasetError(problem)


def find_problems(
    arrays: Mapping[str, Array], metadata: Metadata, machine: Machine
) -> Iterator[str]:
    """Checks every value; each problem names the first episode, entry and value that it is of.

    Args:
        arrays: of all fields, axis 0 the episode. Rules about fields that are missing or have a
            wrong shape are left out.
        metadata: the dataset's, with the counters of today's table.
        machine: the dataset's.
    """
    yield from metadata_problems(metadata)
    if metadata.counter_names != COUNTER_NAMES:
        yield f"counter_names = {list(metadata.counter_names)}: must be {list(COUNTER_NAMES)}"
    sound: dict[str, Array] = {}
    neighbours = arrays["neighbour_family"].shape[-1] if "neighbour_family" in arrays else 0
    for field in metadata.fields:
        if field.name not in arrays:
            yield f"{field.name}: is missing"
            continue
        array = arrays[field.name]
        shape = field_shape(field, metadata, neighbours)
        if array.shape != shape or array.dtype != field.dtype:
            yield f"{field.name}: {array.dtype} {array.shape}: must be {field.dtype} {shape}"
            continue
        sound[field.name] = array
        yield from value_problems(field.name, array)
    rules = (
        (("episode",), _episode_problems),
        (("seed", "workload_seed", "policy"), _origin_problems),
        (("actions", "propensity"), _action_problems),
        (("order",), _order_problems),
        (("incumbent_cores", "incumbent_nodes", "final_cores", "final_nodes"), _place_problems),
        (
            ("order", "actions", "final_cores", "final_nodes", "throughput", "final_throughput"),
            _end_problems,
        ),
        (("neighbour_family", "neighbour_target", "neighbour_strength"), _neighbour_problems),
        (("incumbent_counters", "incumbent_running_ratio"), _counter_problems),
        (("counterfactual", "actions", "throughput"), _counterfactual_problems),
    )
    for names, rule_of in rules:
        if all(name in sound for name in names):
            yield from rule_of(sound, metadata, machine)


def value_problems(name: str, array: Array) -> Iterator[str]:
    """The first value of a field that is impossible by itself."""
    if array.dtype.kind != "f":
        return
    # Off-core values that a host lacks, steps that nobody measured and chances that nobody knows
    # are stored as NaN.
    may_lack = FIELD[name].axes == "O" or name in ("throughput", "propensity")
    wrong = np.isinf(array) if may_lack else ~np.isfinite(array)
    yield from _wrong(wrong | (array < 0), name, array, "must be finite and not negative")


def metadata_problems(metadata: Metadata) -> Iterator[str]:
    """Checks what readers rely on in the metadata."""
    if not ID_PATTERN.fullmatch(metadata.id):
        yield f"id {metadata.id!r}: must look like pmoss/<machine>-<index>-<workload>/<tier>-v0"
    if metadata.episodes < 1:
        yield "episodes = 0: a dataset must hold at least one"
    for name, known in (("observation", OBSERVATION_MODES), ("order", PLACEMENT_ORDERS)):
        value = metadata.env_kwargs.get(name, known[0])
        if value not in known:
            yield f"env_kwargs: {name} = {value!r}: must be one of {known}"
    slices = metadata.env_kwargs.get("slices", metadata.slices)
    if slices != metadata.slices:
        yield f"env_kwargs: slices = {slices!r}: must be {metadata.slices}, as the data have"
    constraints = metadata.env_kwargs.get("constraints")
    most = constraints.get("max_slices_per_core") if isinstance(constraints, dict) else None
    if constraints is not None and not _is_whole(most):
        yield (
            f"env_kwargs: constraints = {constraints!r}: must be null or "
            '{"max_slices_per_core": a whole number}'
        )
    scores = metadata.reference_scores
    for name in ("random", "search", "incumbent") if scores else ():
        score = scores.get(name)
        if not isinstance(score, dict) or not all(
            _is_number(score.get(key)) for key in ("mean", "std", "n")
        ):
            yield f"reference_scores: {name} = {score!r}: must hold the numbers mean, std and n"
    headroom = metadata.headroom
    for name in ("headroom", "simulated_headroom") if headroom else ():
        if not _is_number(headroom.get(name)):
            yield f"headroom: {name} = {headroom.get(name)!r}: must be a number"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _episode_problems(arrays: Mapping[str, Array], _: Metadata, __: Machine) -> Iterator[str]:
    numbers = arrays["episode"]
    twice = np.ones(numbers.size, dtype=bool)
    twice[np.unique(numbers, return_index=True)[1]] = False
    yield from _wrong(twice, "episode", numbers, "is the number of an earlier episode, too")
    yield from _wrong(numbers < 0, "episode", numbers, "must not be negative")


def _origin_problems(arrays: Mapping[str, Array], metadata: Metadata, _: Machine) -> Iterator[str]:
    policies, known = arrays["policy"], len(metadata.policy_names)
    rule = f"must lie between 0 and {known - 1}"
    yield from _wrong((policies < 0) | (policies >= known), "policy", policies, rule)
    for name in ("seed", "workload_seed"):
        yield from _wrong(arrays[name] < 0, name, arrays[name], "must not be negative")


def _action_problems(
    arrays: Mapping[str, Array], metadata: Metadata, machine: Machine
) -> Iterator[str]:
    actions, propensity = arrays["actions"], arrays["propensity"]
    outside = (actions < 0) | (actions >= machine.tiles)
    illegal = outside | ~machine.worker_tiles[np.where(outside, 0, actions)]
    rule = f"is no tile of a worker core of {machine.name}"
    yield from _wrong(illegal, "actions", actions, rule)
    yield from _wrong(propensity > 1, "propensity", propensity, "must lie in [0, 1]")
    yield from _wrong(propensity == 0, "propensity", propensity, "of an action that was chosen")
    most = (metadata.env_kwargs.get("constraints") or {}).get("max_slices_per_core")
    if most is None or outside.any():
        return
    for e, row in enumerate(actions):
        counts = np.bincount(row)
        if counts.max() > most:
            yield (
                f"episode {e}: actions: tile {counts.argmax()} takes {counts.max()} slices: "
                f"the constraint allows {most}"
            )
            return


def _order_problems(arrays: Mapping[str, Array], metadata: Metadata, _: Machine) -> Iterator[str]:
    order = np.sort(arrays["order"], axis=1)
    mixed = order != np.arange(metadata.slices)
    yield from _wrong(mixed, "order", order, "must name each slice exactly once")


def _place_problems(arrays: Mapping[str, Array], _: Metadata, machine: Machine) -> Iterator[str]:
    for which in ("incumbent", "final"):
        cores, nodes = arrays[f"{which}_cores"], arrays[f"{which}_nodes"]
        outside = (cores < 0) | (cores >= machine.cores)
        illegal = outside | ~machine.worker_mask[np.where(outside, 0, cores)]
        rule = f"is no worker core of {machine.name}"
        yield from _wrong(illegal, f"{which}_cores", cores, rule)
        outside = (nodes < 0) | (nodes >= machine.nodes)
        yield from _wrong(outside, f"{which}_nodes", nodes, f"is no node of {machine.name}")


def _end_problems(
    arrays: Mapping[str, Array], metadata: Metadata, machine: Machine
) -> Iterator[str]:
    order, actions = arrays["order"], arrays["actions"]
    inside = (order >= 0) & (order < metadata.slices) & (actions >= 0) & (actions < machine.tiles)
    if inside.all():
        placed = np.take_along_axis(arrays["final_cores"], order.astype(np.int64), axis=1)
        moved = placed != machine.core_of_tile[actions]
        yield from _wrong(moved, "final_cores", placed, "is not where the actions put the slice")
    final = arrays["final_throughput"]
    cores, nodes = arrays["final_cores"], arrays["final_nodes"]
    known = (cores >= 0) & (cores < machine.cores)
    remote = known & (nodes != machine.node_of_core[np.where(known, cores, 0)])
    yield from _wrong(remote, "final_nodes", nodes, "is not the node of the slice's core")
    rule = "differs from the last step's throughput"
    yield from _wrong(arrays["throughput"][:, -1] != final, "final_throughput", final, rule)


def _neighbour_problems(
    arrays: Mapping[str, Array], _: Metadata, machine: Machine
) -> Iterator[str]:
    family, strength = arrays["neighbour_family"], arrays["neighbour_strength"]
    target = arrays["neighbour_target"]
    unknown = (family >= len(FAMILIES)) | (family < -1)
    yield from _wrong(unknown, "neighbour_family", family, "is no family of neighbours")
    # Family -1, which is none, has the last position.
    most = np.array([*(target_count(name, machine) for name in FAMILIES), 1])
    absent = (target >= most[np.where(unknown, -1, family)]) | (target < 0)
    rule = f"does not exist on {machine.name}"
    yield from _wrong(absent, "neighbour_target", target, rule)
    outside = (strength >= 1) | (strength < 0)
    yield from _wrong(outside, "neighbour_strength", strength, "must lie in [0, 1)")


def _counter_problems(arrays: Mapping[str, Array], _: Metadata, __: Machine) -> Iterator[str]:
    counter = COUNTER_INDEX["queries"]
    queries = arrays["incumbent_counters"][..., counter].sum(axis=1)
    idle = (queries <= 0) & (arrays["incumbent_running_ratio"][:, counter] > 0)
    rule = "queries in all: the incumbent must serve some"
    yield from _wrong(idle, "incumbent_counters", queries, rule)


def _counterfactual_problems(
    arrays: Mapping[str, Array], metadata: Metadata, machine: Machine
) -> Iterator[str]:
    if metadata.env_kwargs.get("noise"):
        return  # the throughputs carry noise, the counterfactuals do not
    actions, values = arrays["actions"], arrays["counterfactual"]
    position = np.full(machine.tiles, -1)
    position[machine.tile_of_core[machine.workers]] = np.arange(machine.workers.size)
    inside = (actions >= 0) & (actions < machine.tiles)
    chosen = position[np.where(inside, actions, 0)]
    if not inside.all() or (chosen < 0).any():
        return  # told by the rule about actions
    told = np.take_along_axis(values, chosen[..., None], axis=2)[..., 0]
    measured = arrays["throughput"].astype(np.float32)
    wrong = ~np.isnan(measured) & (told != measured)
    rule = "of the chosen core differs from the throughput after the step"
    yield from _wrong(wrong, "counterfactual", told, rule)


def _wrong(wrong: BoolArray, name: str, values: Array, rule: str) -> Iterator[str]:
    """The first wrong entry of a field, if there is one."""
    if not wrong.any():
        return
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    place = ", ".join(
        f"{axis} {i}" for axis, i in zip(("episode", "entry", "counter"), index, strict=False)
    )
    yield f"{place}: {name} = {values[index]}: {rule}"

"""Rules for every dataset: each value that a reader relies on, checked by one rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pmoss_datasets.domain import find_domain
from pmoss_datasets.schema import (
    ID_PATTERN,
    Array,
    Field,
    Metadata,
    field_shape,
    first_wrong,
    sizes_of,
)
from pmoss_env.checks import is_number, is_whole
from pmoss_env.errors import DatasetError
from pmoss_env.machines import Machine


def validate(arrays: Mapping[str, Array], metadata: Metadata, machine: Machine | None) -> None:
    """Raises DatasetError for the first of find_problems()."""
    for problem in find_problems(arrays, metadata, machine):
        raise DatasetError(problem)


def find_problems(
    arrays: Mapping[str, Array], metadata: Metadata, machine: Machine | None
) -> Iterator[str]:
    """Checks every value; each problem names the first episode, entry and value that it is of.

    Args:
        arrays: of all fields, axis 0 the episode. Rules about fields that are missing or have a
            wrong shape are left out.
    """
    yield from metadata_problems(metadata, stored=False)
    sound: dict[str, Array] = {}
    sizes = sizes_of(metadata, {name: array.shape for name, array in arrays.items()})
    for field in metadata.fields:
        if field.name not in arrays:
            yield f"{field.name}: is missing"
            continue
        array = arrays[field.name]
        shape = field_shape(field, metadata, sizes)
        if array.shape != shape or array.dtype != field.dtype:
            yield f"{field.name}: {array.dtype} {array.shape}: must be {field.dtype} {shape}"
            continue
        sound[field.name] = array
        yield from value_problems(field, array)
    yield from _common_problems(sound, metadata)
    yield from find_domain(metadata.domain).problems(sound, metadata, machine)


def value_problems(field: Field, array: Array) -> Iterator[str]:
    """The first value of a field that is impossible by itself."""
    if array.dtype.kind != "f":
        return
    wrong = np.isinf(array) if field.nan else ~np.isfinite(array)
    rule = "must be finite"
    if not field.signed:
        wrong, rule = wrong | (array < 0), f"{rule} and not negative"
    yield from first_wrong(wrong, field.name, array, rule)


def metadata_problems(metadata: Metadata, *, stored: bool) -> Iterator[str]:
    """Checks what readers rely on in the metadata; see Domain.metadata_problems."""
    if not ID_PATTERN.fullmatch(metadata.id):
        yield f"id {metadata.id!r}: must look like <namespace>/<task>/<tier>-v0"
    if metadata.episodes < 1:
        yield "episodes = 0: a dataset must hold at least one"
    yield from find_domain(metadata.domain).metadata_problems(metadata, stored=stored)
    scores = metadata.reference_scores
    for name in find_domain(metadata.domain).references if scores else ():
        score = scores.get(name)
        if not isinstance(score, dict) or not all(
            is_number(score.get(key)) for key in ("mean", "std", "n")
        ):
            yield f"reference_scores: {name} = {score!r}: must hold the numbers mean, std and n"
        elif not (is_whole(score["n"]) and score["n"] >= 1 and score["std"] >= 0):
            yield f"reference_scores: {name} = {score!r}: n must be at least 1, std at least 0"
    headroom = metadata.headroom
    for name in ("headroom", "simulated_headroom") if headroom else ():
        if not is_number(headroom.get(name)):
            yield f"headroom: {name} = {headroom.get(name)!r}: must be a number"


def _common_problems(arrays: Mapping[str, Array], metadata: Metadata) -> Iterator[str]:
    """Rules of the fields that every dataset has."""
    if (numbers := arrays.get("episode")) is not None:
        twice = np.ones(numbers.size, dtype=bool)
        twice[np.unique(numbers, return_index=True)[1]] = False
        yield from first_wrong(
            twice, "episode", numbers, "is the number of an earlier episode, too"
        )
        yield from first_wrong(numbers < 0, "episode", numbers, "must not be negative")
    if (policies := arrays.get("policy")) is not None:
        policy_count = len(metadata.policy_names)
        rule = f"must lie between 0 and {policy_count - 1}"
        yield from first_wrong(
            (policies < 0) | (policies >= policy_count), "policy", policies, rule
        )
    if (seeds := arrays.get("seed")) is not None:
        yield from first_wrong(seeds < 0, "seed", seeds, "must not be negative")
    if (chances := arrays.get("propensity")) is not None:
        yield from first_wrong(chances > 1, "propensity", chances, "must lie in [0, 1]")

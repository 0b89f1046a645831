"""The statements of P-MOSS by the analytic model, over instances and with switches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_benchmarks.validation.targets import TARGETS, Ask, Target

_FIDELITY = "analytic"


def switched(
    changes: Mapping[str, Any], instances: int, targets: Sequence[Target] = TARGETS
) -> dict[str, Any]:
    """What the statements come to.

    Args:
        changes: fields of the laboratory.
        instances: workload instances, of seeds 1, 2, ...
        targets: the statements; what only the simulated machine can answer is left out.

    Returns:
        "got" and "random", by number of a statement: a value per instance. The second has Random
        in the place of the search, where a search is asked about.
    """
    asked: dict[str, dict[str, Ask]] = {"got": {}, "random": {}}
    for target in targets:
        if target.ask is not None:
            asked["got"][target.number] = target.ask
        if target.ask_random is not None:
            asked["random"][target.number] = target.ask_random
    found: dict[str, dict[str, list[float]]] = {name: {} for name in asked}
    for seed in range(1, instances + 1):
        laboratory = Laboratory(seed=seed, **changes)
        try:
            for name, questions in asked.items():
                for number, value in _values(laboratory, questions):
                    found[name].setdefault(number, []).append(value)
        finally:
            laboratory.close()
    return found


def _values(laboratory: Laboratory, questions: Mapping[str, Ask]) -> Iterator[tuple[str, float]]:
    for number, ask in questions.items():
        if not math.isnan(value := ask(laboratory, _FIDELITY)):
            yield number, value

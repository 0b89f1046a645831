"""Whether the simulated server says of policies what the model says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pmoss_datasets.evaluation.statistics import (
    Difference,
    paired_difference,
    ratio_of_means,
    spearman,
)
from pmoss_env.types import Float64Array

CONFIRMED, OPEN, CONTRADICTED = "confirmed", "not told apart", "contradicted"
#: Both say how fast a schedule is.
FIDELITIES = ("model", "simulated")


def summarise(
    episodes: Mapping[int, Mapping[str, Mapping[str, float]]], rules: Sequence[str]
) -> dict[str, Any]:
    """What the episodes of a task say.

    Args:
        episodes: by number and policy ``model``, ``simulated`` and, in some, ``finer``, Mq/s.
        rules: the policies that are rules, at least one.

    Returns:
        ``episodes``, their number.
        ``rule``, the one with the best mean by the model.
        ``policies``, by name ``model`` and ``simulated``, means in Mq/s. All but that rule have
        ``over_rule``, by fidelity how far the mean lies above the rule's in percent, and
        ``verdict``. Values have 95 % intervals.
        ``ranks``, Spearman's correlation of the policies' means; None where all are equal.
        ``finer``, if there are finer measurements; see _finer().
    """
    numbers = list(episodes)
    policies = list(episodes[numbers[0]])
    values = {
        fidelity: {
            name: np.array([episodes[number][name][fidelity] for number in numbers])
            for name in policies
        }
        for fidelity in FIDELITIES
    }
    rule = max(rules, key=lambda name: float(values["model"][name].mean()))
    told: dict[str, Any] = {}
    for name in policies:
        told[name] = {
            fidelity: asdict(paired_difference(values[fidelity][name][None]))
            for fidelity in FIDELITIES
        }
        if name != rule:
            over = [_over(of[name], of[rule]) for of in values.values()]
            told[name]["over_rule"] = dict(zip(FIDELITIES, map(asdict, over), strict=True))
            told[name]["verdict"] = verdict(*over)
    means = [np.array([of[name].mean() for name in policies]) for of in values.values()]
    ranks = spearman(*means)
    second = [of for of in episodes.values() if all("finer" in row for row in of.values())]
    return {
        "episodes": len(numbers),
        "rule": rule,
        "policies": told,
        "ranks": None if math.isnan(ranks) else ranks,
        **({"finer": _finer(second, rule)} if second else {}),
    }


def verdict(model: Difference, simulated: Difference) -> str:
    """Whether both say which of two policies is ahead, and the same; by their intervals."""
    sides = [_side(one) for one in (model, simulated)]
    if 0 in sides:
        return OPEN
    return CONFIRMED if sides[0] == sides[1] else CONTRADICTED


def _side(difference: Difference) -> int:
    """1 ahead, -1 behind, 0 where the interval holds 0 or there is none."""
    if difference.low is None or difference.high is None:
        return 0
    return int(difference.low > 0) - int(difference.high < 0)


def _over(mine: Float64Array, rule: Float64Array) -> Difference:
    """Percent by which a mean lies above that of the rule in the same episodes."""
    ratio = ratio_of_means(mine, rule)
    ends = [None if end is None else 100 * (end - 1) for end in (ratio.low, ratio.high)]
    return Difference(100 * (ratio.value - 1), *ends)


def _finer(
    episodes: Sequence[Mapping[str, Mapping[str, float]]], rule: str
) -> dict[str, float | int]:
    """How far finer measurements differ from the usual ones.

    Returns:
        ``episodes``, that were measured twice; ``throughput``, the median over policies and
        episodes of the absolute difference in percent; and ``over_rule``, the same of the
        throughput over the rule's, in percent of that.
    """
    alone, over = [], []
    for of in episodes:
        base = of[rule]["finer"] / of[rule]["simulated"]
        for name, row in of.items():
            changed = row["finer"] / row["simulated"]
            alone.append(abs(changed - 1))
            if name != rule:
                over.append(abs(changed / base - 1))
    return {
        "episodes": len(episodes),
        "throughput": 100 * float(np.median(alone)),
        "over_rule": 100 * float(np.median(over)) if over else 0.0,
    }

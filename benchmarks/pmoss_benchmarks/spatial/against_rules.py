"""An agent and rules that play the same episodes, with differences from the best rule."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pmoss_datasets.evaluation import evaluate, paired_difference
from pmoss_datasets.policies import Policy, SchedulePolicy

#: Episodes of the evaluation begin here: no dataset has them.
EVALUATION = 101


def against_rules(
    env: Mapping[str, Any],
    policies: Mapping[str, Policy],
    rules: Sequence[str],
    episodes: int,
    *,
    budget: int,
    references: MutableMapping[int, tuple[float, float]] | None = None,
) -> dict[str, Any]:
    """Plays episodes with rules and other policies; all meet the same ones.

    Args:
        env: arguments of the environment. The observation is the complete one.
        policies: by name.
        rules: names of baselines.
        episodes: how many.
        budget: evaluations of the search that scores 100 where no reference does.
        references: as of evaluate().

    Returns:
        ``best_rule``; and ``policies``: of each the mean ``score`` with its interval, the
        ``scores`` of the episodes, ``throughput`` in Mq/s, and how far it is ``over_rule``, paired.
    """
    playing = {**{name: SchedulePolicy(name) for name in rules}, **policies}
    found = evaluate(
        {**env, "observation": "complete"},
        playing,
        [EVALUATION],
        episodes,
        search_budget=budget,
        references=references,
    ).rows
    scores = {
        name: np.array([[row.score for row in found if row.policy == name]], dtype=np.float64)
        for name in playing
    }
    rule = max(rules, key=lambda name: float(scores[name].mean()))
    return {
        "best_rule": rule,
        "policies": {
            name: {
                "score": asdict(paired_difference(mine)),
                "over_rule": asdict(paired_difference(mine - scores[rule])),
                "throughput": float(np.mean([r.throughput for r in found if r.policy == name])),
                "scores": mine[0].tolist(),
            }
            for name, mine in scores.items()
        },
    }

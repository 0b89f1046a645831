"""Policies against the best rule and against search, episode by episode.

Where all training seeds met the same episodes, differences are paired: what makes an episode hard
is hard for both. That tells one point apart where means of different episodes do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pmoss_datasets.domain import Domain
from pmoss_datasets.evaluation import EpisodeResult, paired_difference
from pmoss_env.types import Float64Array

#: The opponent that may ask the model.
SEARCH = "local-search"
#: Ends the name of a policy that is an agent's best checkpoint.
BEST = " (best)"
#: An optimum is no rule.
EXACT = "exact"


def paired(rows: Mapping[str, Iterable[EpisodeResult]], domain: Domain) -> dict[str, Any]:
    """By task: each policy's mean, and how far it is ahead of the best rule and of search.

    Args:
        rows: of each task.
        domain: names the rules: its opponents that take no budget.
    """
    return {task: _of_task(list(of_task), domain) for task, of_task in rows.items()}


def _of_task(rows: Sequence[EpisodeResult], domain: Domain) -> dict[str, Any]:
    scored = [row for row in rows if row.score is not None]
    policies = list(dict.fromkeys(row.policy for row in scored))
    played = [{row.env_seed for row in scored if row.policy == policy} for policy in policies]
    episodes = sorted(set.intersection(*played)) if played else []
    if not episodes:
        return {"episodes": 0, "rule": None, "policies": {}}
    scores = {policy: _matrix(scored, policy, episodes, "score") for policy in policies}
    rules = [
        name
        for name in domain.opponents()
        if name in scores and name != EXACT and not domain.takes_budget(name)
    ]
    rule = max(rules, key=lambda name: float(scores[name].mean()), default=None)
    found = {}
    for policy, mine in scores.items():
        ahead = {
            f"over_{name}": asdict(paired_difference(mine - scores[other]))
            for name, other in (("rule", rule), ("search", SEARCH))
            if other in scores and other != policy
        }
        found[policy] = {
            "seeds": mine.shape[0],
            "score": asdict(paired_difference(mine)),
            "throughput": float(_matrix(scored, policy, episodes, "throughput").mean()),
            "above": int((mine > 100).sum()),
            **ahead,
        }
    return {"episodes": len(episodes), "rule": rule, "policies": found}


def _matrix(
    rows: Sequence[EpisodeResult], policy: str, episodes: Sequence[int], field: str
) -> Float64Array:
    """(seeds, episodes) values of a policy; seeds that lack an episode are left out."""
    of_seeds: dict[int, dict[int, float]] = {}
    for row in rows:
        if row.policy == policy:
            of_seeds.setdefault(row.seed, {})[row.env_seed] = float(getattr(row, field))
    whole = [of for _, of in sorted(of_seeds.items()) if all(e in of for e in episodes)]
    return np.array([[of[episode] for episode in episodes] for of in whole])

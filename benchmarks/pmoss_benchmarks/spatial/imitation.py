"""How well the paper's own network imitates: accuracy over updates, and the best there can be.

P-MOSS (section 7.1) reports a training accuracy of over 95 % after 18 CPU hours. What a network can
reach without knowing episodes by heart is bounded by the demonstrators: a random schedule can only
be guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.configs import read_config
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.training_log import TrainingLog, read_log
from pmoss_benchmarks.evaluation import evaluate
from pmoss_datasets.recipes import Recipe, tier
from pmoss_datasets.storage import Dataset
from pmoss_datasets.suite import load_task

#: The committed config of the paper's network.
CONFIG = "decision-transformer-paper"
#: Points of the stored curve, at most.
_POINTS = 60
#: Returns that are asked for: of sections 6.4 and 7.1.
_WANTED = (1.1, 2.0)
#: Episodes of the evaluation begin here: the data have none of them.
_EVALUATION = 101


class _Enough(KeyboardInterrupt):
    """Ends a training as Ctrl-C does: with a checkpoint."""


def recipe_of(task: str, name: str) -> Recipe:
    """The recipe of the data: a task's, with the paper's observation.

    Args:
        task: a committed one of spatial scheduling.
        name: of the tier.
    """
    env = {**load_task(task).env, "observation": "paper"}
    return Recipe.from_dict({**tier(name), "tier": name, "env": env})


def imitate(
    data: Dataset,
    checkpoint: Path,
    log: Path,
    *,
    seconds: float,
    changes: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DecisionTransformer:
    """Trains the paper's network for some CPU time, or goes on with it.

    Args:
        data: what it learns from.
        checkpoint: where the network is kept; one that is there goes on with its own config.
        log: where metrics and CPU seconds of every update are kept.
        seconds: CPU time of this call after which it stops; 0: it only loads what is there.
        changes: fields of the config of a new network.
        progress: called with (updates made, updates at the end).

    Returns:
        The network as it was after the last update.
    """
    if checkpoint.exists():
        agent = pmoss_agents.load(checkpoint, "decision-transformer")
    else:
        values = {**read_config(CONFIG), **(changes or {})}
        values.pop("agent")
        agent = pmoss_agents.make("decision-transformer", **values)
    assert isinstance(agent, DecisionTransformer)
    kept = TrainingLog(log, agent.updates)
    end = kept.cpu_seconds + seconds

    def tell(done: int, total: int, metrics: Mapping[str, float]) -> None:
        kept(done, total, metrics)
        progress(done, total)
        if kept.cpu_seconds >= end:
            raise _Enough

    if seconds > 0:
        with suppress(_Enough):
            agent.fit(data, progress=tell, checkpoint=checkpoint)
    return agent


def report_of(
    agent: DecisionTransformer, data: Dataset, log: Path, episodes: int
) -> dict[str, Any]:
    """What is stored of a training: its curve, the bound, and what the network serves.

    Args:
        agent: as it is after the last update.
        data: what it learned from.
        log: of its training.
        episodes: of the evaluation; 0 leaves it out.
    """
    return {
        "data": {"id": data.metadata.id, "checksum": data.checksum, "episodes": len(data)},
        "config": asdict(agent.config),
        "bound": bound_of(data),
        "curve": curve_of(read_log(log)),
        "played": _played(agent, data, episodes) if episodes else [],
    }


def curve_of(rows: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Means of windows of updates: of the loss and the accuracy; of held-out ones the last."""
    size = max(1, math.ceil(len(rows) / _POINTS))
    curve = []
    for begin in range(0, len(rows), size):
        window = rows[begin : begin + size]
        point = {name: window[-1][name] for name in ("update", "cpu_seconds")}
        point |= {name: _mean([row[name] for row in window]) for name in ("loss", "accuracy")}
        for name in ("held_out_loss", "held_out_accuracy"):
            if told := [row[name] for row in window if name in row]:
                point[name] = told[-1]
        curve.append(point)
    return curve


def bound_of(data: Dataset) -> dict[str, Any]:
    """The highest accuracy and the lowest loss of a policy that knows which behaviour plays.

    A behaviour's own actions count as foreseen; those drawn at random can only be guessed.

    Returns:
        "accuracy" and "loss" (nats) over all episodes, and "behaviours" with the share and the
        accuracy of each.
    """
    recipe = Recipe.from_dict(dict(data.metadata.recipe))
    cores = data.machine.workers.size
    which = data.column("policy")
    told, rights, losses = [], [], []
    for number, behaviour in enumerate(recipe.behaviours):
        chance = 1.0 if behaviour.policy == "random" else behaviour.epsilon
        other = chance / cores
        own = 1 - chance + other
        loss = -own * math.log(own) - (cores - 1) * (other * math.log(other) if other else 0.0)
        share = float((which == number).mean())
        told.append({"behaviour": behaviour.name, "share": share, "accuracy": own})
        rights.append(share * own)
        losses.append(share * loss)
    return {"accuracy": sum(rights), "loss": sum(losses), "behaviours": told}


def _played(agent: DecisionTransformer, data: Dataset, episodes: int) -> list[dict[str, float]]:
    """Scores and throughputs of the network where some returns are asked for."""
    found = []
    usual = agent.config
    for wanted in _WANTED:
        agent.config = replace(usual, target_return=wanted)
        rows = evaluate(
            data.metadata.env_kwargs, {CONFIG: agent}, [_EVALUATION], episodes_per_seed=episodes
        ).rows
        found.append(
            {
                "wanted": wanted,
                "episodes": episodes,
                "score": _mean([row.score for row in rows if row.score is not None]),
                "throughput": _mean([row.throughput for row in rows]),
                "search": _mean([row.search_throughput for row in rows]),
                "random": _mean([row.random_throughput for row in rows]),
            }
        )
    agent.config = usual
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0

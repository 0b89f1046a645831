"""How well the paper's own network imitates: accuracy over updates, and the best there can be.

P-MOSS (section 7.1) reports a training accuracy of over 95 % after 18 CPU hours. What a network can
reach without knowing episodes by heart is bounded by the demonstrators: a random schedule can only
be guessed.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.configs import read_config
from pmoss_agents.devices import go_on_at
from pmoss_agents.spatial.decision_transformer import DecisionTransformer, best_path
from pmoss_agents.training_log import MOMENT, TrainingLog, means_of_windows, read_log
from pmoss_datasets.collection import collect
from pmoss_datasets.evaluation import Evaluation, evaluate
from pmoss_datasets.recipes import Recipe, tier
from pmoss_datasets.storage import Dataset
from pmoss_datasets.suite import load_task

#: The committed config of the paper's network.
CONFIG = "decision-transformer-paper"
#: Points of the stored curve, at most.
_POINTS = 60
#: Returns that are asked for, in multiples of the best foreseen. The last two are the paper's
#: (sections 6.4 and 7.1).
WANTED = (0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 2.0)
#: Episodes beyond the data in which the network foretells what is done.
UNSEEN = 100
#: Episodes of the evaluation begin here: the data have none of them. The offline benchmark plays
#: the same ones.
_EVALUATION = 101


class _Enough(KeyboardInterrupt):
    """Ends a training as Ctrl-C does: with a checkpoint."""


def recipe_of(task: str, name: str, episodes: int | None = None) -> Recipe:
    """The recipe of the data: a task's, with the paper's observation.

    Args:
        task: a committed one of spatial scheduling.
        name: of the tier.
        episodes: how many instead of the tier's; the id then tells them.
    """
    env = {**load_task(task).env, "observation": "paper"}
    recipe = Recipe.from_dict({**tier(name), "tier": name, "env": env})
    if episodes is None:
        return recipe
    return replace(recipe, episodes=episodes, tier=f"{name}-of-{episodes}")


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
        changes: fields of the config of a new network; one that goes on takes the device alone.
        progress: called with (updates made, updates at the end).

    Returns:
        The network as it was after the last update.
    """
    if checkpoint.exists():
        agent = pmoss_agents.load(checkpoint, "decision-transformer")
        go_on_at(agent, changes or {})
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


def best_of(agent: DecisionTransformer, checkpoint: Path) -> DecisionTransformer:
    """The network as it was when its loss on the episodes held out was lowest.

    Args:
        agent: as it is after the last update; returned where no better one was kept.
        checkpoint: of imitate().
    """
    path = best_path(checkpoint)
    if not path.exists():
        return agent
    best = pmoss_agents.load(path, agent.name)
    assert isinstance(best, DecisionTransformer)
    return best


def foretold(agent: DecisionTransformer, data: Dataset, episodes: int) -> list[dict[str, Any]]:
    """How well the network foretells each behaviour in episodes that it has not seen.

    Args:
        agent: the network.
        data: what it learned from; further episodes of the same recipe are made.
        episodes: how many.

    Returns:
        For each behaviour that played: "behaviour", "episodes", "accuracy" and "loss" (nats).
    """
    recipe = Recipe.from_dict(dict(data.metadata.recipe))
    other = replace(recipe, seed=recipe.seed + 1, episodes=episodes, reference_episodes=0)
    with tempfile.TemporaryDirectory() as folder:
        unseen = collect(other, Path(folder) / "data")
        losses, rights = agent.agreement(unseen)
        which = unseen.column("policy")
    return [
        {
            "behaviour": behaviour.name,
            "episodes": int((which == number).sum()),
            "accuracy": float(rights[which == number].mean()),
            "loss": float(losses[which == number].mean()),
        }
        for number, behaviour in enumerate(recipe.behaviours)
        if (which == number).any()
    ]


def report_of(
    agent: DecisionTransformer, data: Dataset, log: Path, played: Evaluation | None = None
) -> dict[str, Any]:
    """What is stored of a training: its curve, the bound, and what the network serves.

    Args:
        agent: the one that played.
        data: what it learned from.
        log: of its training.
        played: of play().
    """
    of_wanted: dict[str, list[float]] = {}
    for row in played.rows if played else ():
        of_wanted.setdefault(row.policy, []).append(row.throughput)
    return {
        "data": {"id": data.metadata.id, "checksum": data.checksum, "episodes": len(data)},
        "config": asdict(agent.config),
        "learned_on": agent.learned_on,
        "bound": bound_of(data),
        "curve": curve_of(read_log(log)),
        "player_updates": agent.updates,
        "foretold": foretold(agent, data, UNSEEN) if played else [],
        "played": [
            {"wanted": wanted, "throughputs": of_wanted[name_of(wanted)]}
            for wanted in WANTED
            if of_wanted
        ],
    }


def curve_of(rows: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Means of windows of updates: of the loss and the accuracy; of held-out ones the last."""
    return means_of_windows(rows, _POINTS, (*MOMENT, "held_out_loss", "held_out_accuracy"))


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


def play(
    agent: DecisionTransformer,
    data: Dataset,
    episodes: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Plays the same unseen episodes once for each return of WANTED.

    Args:
        agent: the network.
        data: its environment is played.
        episodes: how many.
        progress: called with (episodes done, episodes in all).
    """
    usual = agent.config
    references: dict[int, tuple[float, float]] = {}
    found: list[Evaluation] = []
    for number, wanted in enumerate(WANTED):
        agent.config = replace(usual, target_return=wanted)
        found.append(
            evaluate(
                data.metadata.env_kwargs,
                {name_of(wanted): agent},
                [_EVALUATION],
                episodes_per_seed=episodes,
                references=references,
                progress=lambda done, total, before=number: progress(  # type: ignore[misc]
                    before * total + done, len(WANTED) * total
                ),
            )
        )
    agent.config = usual
    return replace(found[0], rows=[row for one in found for row in one.rows])


def name_of(wanted: float) -> str:
    """How the network that is asked for a return is called among the players."""
    return f"{CONFIG}, wanted {wanted:g}"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0

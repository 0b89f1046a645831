"""How well the paper's own network imitates: accuracy over updates, and the best there can be.

P-MOSS (section 7.1) reports a training accuracy of over 95 % after 18 CPU hours. What a network can
reach without knowing episodes by heart is bounded by the demonstrators: a random schedule can only
be guessed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.checkpoints import SUFFIX, best_path
from pmoss_agents.configs import read_config
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.training_log import MOMENT, TrainingLog, means_of_windows, read_log
from pmoss_benchmarks.functions.references import SEED
from pmoss_benchmarks.offline.episodes import outcomes_of
from pmoss_benchmarks.study.function import Cell, Progress, Row, Rows, Run, silent
from pmoss_benchmarks.study.tables import TableOfRows, interval, table_of
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import INTERVAL, episode_seed, pack_actions, paired_difference
from pmoss_datasets.evaluation.statistics import spearman
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.recipes import tier
from pmoss_datasets.suite import load_task, obtain
from pmoss_env.types import Float64Array

#: The committed config of the paper's network.
CONFIG = "decision-transformer-paper"
#: Returns that are wanted, in multiples of the best foreseen. The last two are the paper's
#: (sections 6.4 and 7.1).
WANTED = (0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 2.0)
#: The one with which others are compared.
USUAL = 1.1
#: Ranks are compared up to this share: what is far out of reach has one answer, the best.
RANKED = 1.1
#: Repetitions of the bootstrap over episodes.
_BOOTSTRAPS = 1000
#: What is compared with the network, and how it is called.
BESIDE = {
    "random": "Random",
    "grouped": "Grouped",
    "lpt": "LPT",
    "best-fit": "`best-fit`",
    "two-level": "`two-level`",
    "decision-transformer": "`decision-transformer`",
    "surrogate": "`surrogate`",
    "local-search": "search",
}
#: Points of the stored curve, and of the shown one, at most.
_POINTS, _SHOWN = 60, 10


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        tasks: committed ones of spatial scheduling.
        tier: of the data.
        data: episodes of the data instead of the tier's; 0: as many as the tier has.
        changes: fields that override the committed config.
        unseen: episodes beyond the data, whose actions the network predicts.
        episodes: that are played for each wanted return.
    """

    AXES: ClassVar = ("tasks",)

    tasks: tuple[str, ...]
    tier: str = "mixed"
    data: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    unseen: int = 100
    episodes: int = 10


def cells(settings: Settings) -> list[Cell]:
    """The tasks."""
    return [{"task": task} for task in settings.tasks]


def recipe_of(settings: Settings, task: str) -> Recipe:
    """The recipe of the data: the task's, with the paper's observation."""
    env = {**load_task(task).env, "observation": "paper"}
    recipe = Recipe.from_dict({**tier(settings.tier), "tier": settings.tier, "env": env})
    if not settings.data:
        return recipe
    return replace(recipe, episodes=settings.data, tier=f"{settings.tier}-of-{settings.data}")


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data, and trains the networks; interrupted, it goes on from the checkpoints."""
    for task in run.settings.tasks:
        _train(run, task, _data(run, task, progress), progress)


def _data(run: Run, task: str, progress: Progress = silent) -> Dataset:
    recipe = recipe_of(run.settings, task)
    return obtain(recipe, run.data / recipe.id, partial(progress, f"data {task}"))


def _checkpoint(run: Run, task: str) -> Path:
    facts = [recipe_of(run.settings, task).as_dict(), run.settings.changes]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return run.keep / f"imitation-{digest}{SUFFIX}"


def _train(run: Run, task: str, data: Dataset, progress: Progress) -> DecisionTransformer:
    """The network as it was when its loss on the episodes held out was lowest."""
    checkpoint = _checkpoint(run, task)
    if checkpoint.exists():
        agent = pmoss_agents.load(checkpoint, "decision-transformer")
    else:
        values = {**read_config(CONFIG), **run.settings.changes}
        agent = pmoss_agents.make(values.pop("agent"), **values)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
    assert isinstance(agent, DecisionTransformer)
    if agent.updates < agent.config.updates:
        log = TrainingLog(checkpoint.with_suffix(".jsonl"), agent.updates)

        def keep(done: int, total: int, metrics: Mapping[str, float]) -> None:
            log(done, total, metrics)
            progress(f"updates {task}", done, total)

        agent.fit(data, progress=keep, checkpoint=checkpoint)
        agent.save(checkpoint)
    if best_path(checkpoint).exists():
        agent = pmoss_agents.load(best_path(checkpoint), "decision-transformer")
    assert isinstance(agent, DecisionTransformer)
    return agent


def measure(run: Run, cell: Cell) -> Row:
    """What came of a training, and what the network serves.

    Returns:
        ``data``, what it learned from; ``config``; ``learned_on``, a GPU or None; ``bound``, see
        bound_of(); ``curve``, means of windows of updates; ``player_updates``, after which it
        plays; ``unseen``, by behaviour how well it predicts other episodes; ``env_seeds`` of what
        it played; and ``played``: by wanted return what was ``served``, (episodes,) Mq/s, and the
        ``actions``, packed texts.
    """
    settings, data = run.settings, _data(run, cell["task"])
    agent = _train(run, cell["task"], data, silent)
    log = read_log(_checkpoint(run, cell["task"]).with_suffix(".jsonl"))
    env_seeds = [episode_seed(SEED, episode) for episode in range(settings.episodes)]
    return {
        "data": {"id": data.metadata.id, "checksum": data.checksum, "episodes": len(data)},
        "config": asdict(agent.config),
        "learned_on": agent.learned_on,
        "bound": bound_of(data),
        "curve": curve_of(log),
        "player_updates": agent.updates,
        "unseen": _unseen(run, agent, data),
        "env_seeds": env_seeds,
        "played": _play(agent, data, env_seeds),
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
    behaviours, accuracies, losses = [], [], []
    for number, behaviour in enumerate(recipe.behaviours):
        chance = 1.0 if behaviour.policy == "random" else behaviour.epsilon
        other = chance / cores
        own = 1 - chance + other
        loss = -own * math.log(own) - (cores - 1) * (other * math.log(other) if other else 0.0)
        share = float((which == number).mean())
        behaviours.append({"behaviour": behaviour.name, "share": share, "accuracy": own})
        accuracies.append(share * own)
        losses.append(share * loss)
    return {"accuracy": sum(accuracies), "loss": sum(losses), "behaviours": behaviours}


def _unseen(run: Run, agent: DecisionTransformer, data: Dataset) -> list[dict[str, Any]]:
    """By behaviour the accuracy and loss (nats) in further episodes of the same recipe."""
    recipe = Recipe.from_dict(dict(data.metadata.recipe))
    size = {"episodes": run.settings.unseen, "reference_episodes": 0}
    other = replace(recipe, seed=recipe.seed + 1, **size)
    unseen = obtain(other, run.keep / "unseen" / str(other.episodes) / other.id)
    losses, accuracies = agent.agreement(unseen)
    which = unseen.column("policy")
    return [
        {
            "behaviour": behaviour.name,
            "episodes": int((which == number).sum()),
            "accuracy": float(accuracies[which == number].mean()),
            "loss": float(losses[which == number].mean()),
        }
        for number, behaviour in enumerate(recipe.behaviours)
        if (which == number).any()
    ]


def _play(
    agent: DecisionTransformer, data: Dataset, env_seeds: Sequence[int]
) -> list[dict[str, Any]]:
    domain, usual = find_domain(data.metadata.domain), agent.config
    played = []
    with closing(domain.make_env(data.metadata.env_kwargs)) as env:
        check_policy(agent, env)
        for wanted in WANTED:
            agent.config = replace(usual, target_return=wanted)
            games = [domain.play(env, agent, env_seed) for env_seed in env_seeds]
            played.append(
                {
                    "wanted": wanted,
                    "served": [game.outcome for game in games],
                    "actions": [pack_actions(game.actions) for game in games],
                }
            )
    agent.config = usual
    return played


def again(run: Run, row: Row) -> Row:
    """Runs the stored actions again; the network is not asked."""
    task = row["task"]
    world = task, recipe_of(run.settings, task).env, row["env_seeds"]
    return {
        "played": [
            {**played, "served": outcomes_of(*world, played["actions"])} for played in row["played"]
        ]
    }


def _networks(rows: Rows) -> TableOfRows:
    """Each network's last accuracy beside the best there can be."""
    return table_of([{**row, "last": row["curve"][-1]} for row in rows], _OF_NETWORK)


_OF_NETWORK = {
    "task": "`{task}`",
    ">episodes": "{data[episodes]}",
    ">updates": "{last[update]} of {config[updates]}",
    ">accuracy": "{last[accuracy]:percent}",
    ">at best": "{bound[accuracy]:percent}",
}


def _curve(rows: Rows) -> TableOfRows:
    """Accuracy and loss over updates and CPU time."""
    (row,) = rows
    step = max(1, -(-len(row["curve"]) // _SHOWN))
    # The last point is among those that are shown.
    return table_of(row["curve"][::-1][::step][::-1], _OF_POINT)


_OF_POINT = {
    ">updates": "{update}",
    ">CPU seconds": "{cpu_seconds:.0f}",
    ">accuracy": "{accuracy:percent}",
    ">loss (nats)": "{loss:.2f}",
    ">held out: accuracy": "{held_out_accuracy:percent}",
    ">loss": "{held_out_loss:.2f}",
}


def _behaviours(rows: Rows) -> TableOfRows:
    """By behaviour the best accuracy there can be, and that in episodes beyond the data."""
    (row,) = rows
    unseen = {entry["behaviour"]: entry["accuracy"] for entry in row["unseen"]}
    return table_of(
        [
            {**entry, "unseen": unseen.get(entry["behaviour"])}
            for entry in row["bound"]["behaviours"]
        ],
        {
            "behaviour": "`{behaviour}`",
            ">share of the episodes": "{share:percent}",
            ">accuracy at best": "{accuracy:percent}",
            ">accuracy, unseen": "{unseen:percent}",
        },
    )


def compare(row: Mapping[str, Any], others: Mapping[str, Float64Array]) -> dict[str, Any]:
    """The network beside policies that played the same episodes.

    Args:
        row: of the study.
        others: throughputs in Mq/s by policy; the first episodes are those of the row.

    Returns:
        ``ranks``, see rank_correlation(), of what is wanted and served; and the tables
        ``wanted``, a line for each wanted return, and ``beside``, one for each policy of BESIDE.
    """
    served = {played["wanted"]: np.array(played["served"]) for played in row["played"]}
    episodes = len(row["env_seeds"])
    others = {name: others[name][:episodes] for name in BESIDE if name in others}
    best = np.max(list((others or served).values()), axis=0)
    ranked = [wanted for wanted in served if wanted <= RANKED]
    columns = [">Mq/s", ">of the best that played"]
    beside = {f"the network, {USUAL:g} wanted": served[USUAL]}
    beside |= {BESIDE[name]: values for name, values in others.items()}
    return {
        "ranks": rank_correlation(ranked, np.array([served[policy] for policy in ranked]) / best),
        "wanted": TableOfRows(
            ["wanted, of the best foreseen", *columns],
            [[f"{wanted:g}", *_shown(values, best)] for wanted, values in served.items()],
        ),
        "beside": TableOfRows(
            ["schedule", *columns],
            [[name, *_shown(values, best)] for name, values in beside.items()],
        ),
    }


def rank_correlation(wanted: Sequence[float], served: Float64Array) -> dict[str, float]:
    """Spearman's correlation of what is wanted and what is served, over all episodes together.

    Args:
        wanted: (n,) shares.
        served: (n, episodes) shares.

    Returns:
        ``value``; ``low`` and ``high``, the ends of the 95 % interval by a bootstrap over episodes;
        and ``of_means``, the same of the means over the episodes. 0 where all that is served is
        equal.

    Raises:
        MissingExtraError: SciPy is not installed.
    """

    def correlation(rows: Float64Array) -> float:
        value = spearman(np.repeat(np.asarray(wanted), rows.shape[1]), rows.ravel())
        return 0.0 if math.isnan(value) else value

    rng = np.random.default_rng(0)
    episodes = served.shape[1]
    again = [
        correlation(served[:, rng.integers(episodes, size=episodes)]) for _ in range(_BOOTSTRAPS)
    ]
    low, high = np.percentile(again, INTERVAL)
    return {
        "value": correlation(served),
        "low": float(low),
        "high": float(high),
        "of_means": correlation(served.mean(axis=1, keepdims=True)),
    }


def _shown(values: Float64Array, best: Float64Array) -> list[str]:
    rate, share = paired_difference(values[None]), paired_difference(100 * values[None] / best)
    return [
        interval(rate),
        interval(share) + " %",
    ]


def accurate(rows: Rows, least: float) -> tuple[int, int]:
    """How many networks reach an accuracy (a share) at the end, of those whose training ended."""
    ended = [
        row["curve"][-1]["accuracy"]
        for row in rows
        if row["curve"][-1]["update"] == row["config"]["updates"]
    ]
    return sum(accuracy >= least for accuracy in ended), len(ended)


TABLES = {"default": _networks, "curve": _curve, "behaviours": _behaviours}

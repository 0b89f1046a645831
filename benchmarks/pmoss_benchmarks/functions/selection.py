"""Selection curves: what a method is worth to users who may try some of its policies.

A method is an algorithm with one range of settings. A user trains K policies of it and pulls one
policy at a time. A pull is an episode, and the policy that looks best so far is kept. The curve is
its true mean score, against the pulls. A bandit chooses what to pull: the
upper confidence bound ``mean + sqrt(alpha * log(pulls) / pulls of the policy)``.

The protocol is that of Jackson et al., A Clean Slate for Offline Reinforcement Learning, NeurIPS
2025: 8 policies, 1,000 trials, up to 200 pulls, alpha 2. Scores are divided by 100 for the bandit.

UCB1: Auer et al., Finite-time Analysis of the Multiarmed Bandit Problem, Machine Learning 2002.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import committed_config, read_range
from pmoss_benchmarks.study.function import Cell, Progress, Row, Run, silent
from pmoss_datasets import Dataset
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import INTERVAL, evaluate
from pmoss_datasets.suite import build, load_task
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array

#: Trials of the bandit, most pulls of each, and the weight of its doubt.
TRIALS, PULLS, ALPHA = 1000, 200, 2.0
#: Pulls after which rows hold the curve.
SHOWN = (1, 8, 16, 50, 100, 200)
#: Episodes of the evaluation begin here: no dataset has them.
_EVALUATION = 101


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        task: a committed one.
        agents: learn from data and have a range of settings.
        tier: of the data.
        policies: of each method, trained with settings drawn from its range.
        episodes: of the evaluation, the same for all.
        noise: of the counters that policies see; a pull's own noise is which episode it meets.
        budget: evaluations of the search that scores 100.
        changes: fields that override the settings of every policy.
    """

    AXES: ClassVar = ("agents",)

    task: str
    agents: tuple[str, ...] = ("surrogate", "percentile-bc")
    tier: str = "mixed"
    policies: int = 8
    episodes: int = 40
    noise: float = 1.0
    budget: int = 2000
    changes: dict[str, Any] | None = None


def cells(settings: Settings) -> list[Cell]:
    """The methods."""
    return [{"agent": name} for name in settings.agents]


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data that the policies learn from."""
    _data(run, progress)


def _data(run: Run, progress: Progress = silent) -> Dataset:
    id_ = f"pmoss/{run.settings.task}/{run.settings.tier}-v0"
    return build(id_, run.data, partial(progress, "data"))


def measure(run: Run, cell: Cell) -> Row:
    """Trains a method's policies, plays, and lets the bandit choose.

    Returns:
        ``drawn``, the settings of each policy; ``scores``, (policies, episodes); and ``curve``,
        what is kept after each number of ``pulls``: its true score, the ``mean`` of the trials, and
        from ``low`` to ``high`` those of 95 % of them.
    """
    settings, agent = run.settings, cell["agent"]
    task, data = load_task(settings.task), _data(run)
    drawn = [
        {**config, **(settings.changes or {})}
        for config in drawn_settings(agent, settings.task, settings.policies)
    ]
    policies = {str(number): _trained(agent, config, data) for number, config in enumerate(drawn)}
    rows = evaluate(
        {**task.env, "noise": settings.noise},
        policies,
        [_EVALUATION],
        settings.episodes,
        search_budget=settings.budget,
        env_id=find_domain(task.domain).env_id,
    ).rows
    scores = [[row.score for row in rows if row.policy == name] for name in policies]
    return {"drawn": drawn, "scores": scores, "curve": _curve(scores)}


def again(run: Run, row: Row) -> Row:
    """The curve of the stored scores: the policies are not kept."""
    return {"curve": _curve(row["scores"])}


def _curve(scores: Any) -> list[dict[str, Any]]:
    mean, low, high = selection_curve(np.array(scores, dtype=np.float64)).round(3).tolist()
    return [
        {"pulls": n, "mean": mean[n - 1], "low": low[n - 1], "high": high[n - 1]} for n in SHOWN
    ]


def selection_curve(
    scores: Float64Array, *, trials: int = TRIALS, pulls: int = PULLS
) -> Float64Array:
    """The curve of one method.

    Each pull meets one of the policy's episodes, drawn with replacement.

    Args:
        scores: (n, episodes) of n trained policies.
        trials: each takes the policies in another order.
        pulls: of each trial.

    Returns:
        (3, pulls) true mean score of the policy that is kept after each pull: the mean over the
        trials, and the ends of the interval that holds 95 % of them.

    Raises:
        DescriptionError: no policies or episodes, or scores that are not finite.
    """
    if scores.ndim != 2 or scores.size == 0 or not np.isfinite(scores).all():
        raise DescriptionError(
            f"scores: shape {scores.shape}: must be finite scores (policies, episodes)"
        )
    rng = np.random.default_rng(0)
    arms, episodes = scores.shape
    drawn = rng.permuted(np.tile(np.arange(arms), (trials, 1)), axis=1)
    true = scores.mean(axis=1)[drawn]
    every = np.arange(trials)
    sums, counts = np.zeros((trials, arms)), np.zeros((trials, arms))
    kept = np.empty((pulls, trials))
    for pull in range(pulls):
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums / counts
            doubt = np.sqrt(ALPHA * np.log(pull + 1) / counts)
        # What was never pulled comes first, in the order of the draw.
        bound = np.where(counts > 0, means + doubt, np.inf)
        arm = bound.argmax(axis=1)
        sums[every, arm] += scores[drawn[every, arm], rng.integers(episodes, size=trials)] / 100
        counts[every, arm] += 1
        with np.errstate(invalid="ignore"):
            best = np.where(counts > 0, sums / counts, -np.inf).argmax(axis=1)
        kept[pull] = true[every, best]
    return np.stack([kept.mean(axis=1), *np.percentile(kept, INTERVAL, axis=1)])


def drawn_settings(agent: str, task: str, count: int) -> list[dict[str, Any]]:
    """Settings of a method's policies: drawn evenly from its range, the seed too.

    Args:
        agent: its name.
        task: a committed one: what its config says of it stays, but for the range.
        count: how many; the first is the committed config itself.
    """
    committed = committed_config(agent, task)
    rng = np.random.default_rng(list(agent.encode()))
    ranges = sorted(read_range(agent).values.items())
    drawn = []
    for number in range(count):
        choice = {name: values[int(rng.integers(len(values)))] for name, values in ranges}
        drawn.append({**committed, **(choice if number else {}), "seed": number})
    return drawn


def _trained(agent: str, settings: Mapping[str, Any], data: Dataset) -> Any:
    made = pmoss_agents.make(agent, **settings)
    if not isinstance(made, OfflineAgent):
        raise DescriptionError(f"agent = {agent!r}: must learn from data")
    made.fit(data)
    return made

"""Selection curves: what a method is worth to who may try K of its policies in a noisy world.

A method is an algorithm with one range of settings. Somebody trains K policies of it, pulls one
policy at a time, each pull an episode, and keeps the one that looks best so far. The curve is the
true mean score of the policy that is kept, against the pulls. A bandit chooses what to pull: the
upper confidence bound ``mean + sqrt(alpha * log(pulls) / pulls of the policy)``.

The protocol is that of Jackson et al., A Clean Slate for Offline Reinforcement Learning, NeurIPS
2025: 8 policies, 1,000 trials, up to 200 pulls, alpha 2. Scores are divided by 100 for the bandit.

UCB1: Auer et al., Finite-time Analysis of the Multiarmed Bandit Problem, Machine Learning 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import has_config, read_config, read_range
from pmoss_datasets import Dataset
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import INTERVAL, evaluate
from pmoss_datasets.suite import build, load_task
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array

#: Policies that are tried, trials, most pulls, and the bandit's alpha.
POLICIES, TRIALS, PULLS, ALPHA = 8, 1000, 200, 2.0
#: Pulls that tables show.
SHOWN = (1, 8, 16, 50, 100, 200)
#: Episodes of the evaluation begin here: no dataset has them.
_EVALUATION = 101


@dataclass(frozen=True)
class Curve:
    """What is kept after each pull.

    Attributes:
        mean: (pulls,) true mean score of the policy kept, the mean over the trials.
        low: (pulls,) lower end of the interval that holds 95 % of the trials.
        high: (pulls,) its upper end.
    """

    mean: Float64Array
    low: Float64Array
    high: Float64Array


def selection_curve(
    scores: Float64Array,
    *,
    policies: int = POLICIES,
    trials: int = TRIALS,
    pulls: int = PULLS,
    alpha: float = ALPHA,
    seed: int = 0,
) -> Curve:
    """The curve of one method.

    Each trial draws its policies without replacement, and each pull one of the policy's episodes
    with replacement.

    Args:
        scores: (n, episodes) of n trained policies.
        policies: K, drawn of the n in each trial; all where n is smaller.
        trials: how many.
        pulls: of each trial.
        alpha: weight of the bandit's doubt.
        seed: of all that is drawn, so that a curve can be made again to the digit.

    Raises:
        DescriptionError: no policies or episodes, or scores that are not finite.
    """
    if scores.ndim != 2 or scores.size == 0 or not np.isfinite(scores).all():
        raise DescriptionError(
            f"scores: shape {scores.shape}: must be finite scores (policies, episodes)"
        )
    rng = np.random.default_rng(seed)
    total, episodes = scores.shape
    arms = min(policies, total)
    drawn = rng.permuted(np.tile(np.arange(total), (trials, 1)), axis=1)[:, :arms]
    true = scores.mean(axis=1)[drawn]
    every = np.arange(trials)
    sums, counts = np.zeros((trials, arms)), np.zeros((trials, arms))
    kept = np.empty((pulls, trials))
    for pull in range(pulls):
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums / counts
            doubt = np.sqrt(alpha * np.log(pull + 1) / counts)
        # What was never pulled comes first, in the order of the draw.
        bound = np.where(counts > 0, means + doubt, np.inf)
        arm = bound.argmax(axis=1)
        sums[every, arm] += scores[drawn[every, arm], rng.integers(episodes, size=trials)] / 100
        counts[every, arm] += 1
        with np.errstate(invalid="ignore"):
            best = np.where(counts > 0, sums / counts, -np.inf).argmax(axis=1)
        kept[pull] = true[every, best]
    low, high = np.percentile(kept, INTERVAL, axis=1)
    return Curve(kept.mean(axis=1), low, high)


@dataclass(frozen=True)
class SelectionOptions:
    """What the curves depend on.

    Attributes:
        task: a committed one.
        tier: of the data.
        policies: of each method, trained with settings drawn from its range.
        episodes: of the evaluation, the same for all.
        noise: of the counters that policies see; a pull's own noise is which episode it meets.
        budget: evaluations of the search that scores 100.
        folder: where datasets are kept.
    """

    task: str
    tier: str = "mixed"
    policies: int = POLICIES
    episodes: int = 40
    noise: float = 1.0
    budget: int = 2000
    folder: str = field(default="", compare=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What results depend on: not where the data lie."""
        names = ("task", "tier", "policies", "episodes", "noise", "budget")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class SelectionCell:
    """A method: an agent with its range of settings."""

    agent: str

    @property
    def name(self) -> str:
        """Decides the cell."""
        return self.agent


def drawn_settings(agent: str, task: str, count: int) -> list[dict[str, Any]]:
    """Settings of a method's policies: drawn evenly from its range, the seed too.

    Args:
        agent: its name.
        task: a committed one: what its config says of it stays, but for the range.
        count: how many; the first is the committed config itself.
    """
    committed = dict(read_config(agent, task)) if has_config(agent) else {}
    committed.pop("agent", None)
    rng = np.random.default_rng(list(agent.encode()))
    values = read_range(agent).values
    found = []
    for number in range(count):
        choice = {name: of[int(rng.integers(len(of)))] for name, of in sorted(values.items())}
        found.append({**committed, **(choice if number else {}), "seed": number})
    return found


def data_of(
    options: SelectionOptions,
    progress: Callable[[int, int], None] | None = None,
    processes: int = 1,
) -> Dataset:
    """The data of all policies, as they lie there or made.

    Cells share them: call it before several processes do cells.

    Args:
        options: of the curves.
        progress: as of collect().
        processes: as of collect().
    """
    id_ = f"pmoss/{options.task}/{options.tier}-v0"
    return build(id_, options.folder, progress, processes=processes)


def measure_cell(options: SelectionOptions, cell: SelectionCell) -> dict[str, Any]:
    """Trains a method's policies, plays, and lets the bandit choose.

    Returns:
        ``drawn``, the settings of each policy; ``scores``, (policies, episodes), and ``curve``, the
        mean, low and high of selection_curve() at each pull.
    """
    task = load_task(options.task)
    data = data_of(options)
    drawn = drawn_settings(cell.agent, options.task, options.policies)
    env = {**task.env, "noise": options.noise}
    agents = {str(number): _trained(cell.agent, one, data) for number, one in enumerate(drawn)}
    found = evaluate(
        env,
        agents,
        [_EVALUATION],
        options.episodes,
        search_budget=options.budget,
        env_id=find_domain(task.domain).env_id,
    ).rows
    scores = np.array(
        [[row.score for row in found if row.policy == name] for name in agents], dtype=np.float64
    )
    curve = selection_curve(scores, policies=options.policies)
    return {
        "drawn": drawn,
        "scores": scores.tolist(),
        "curve": {
            name: np.round(getattr(curve, name), 3).tolist() for name in ("mean", "low", "high")
        },
    }


def _trained(agent: str, settings: Mapping[str, Any], data: Dataset) -> Any:
    made = pmoss_agents.make(agent, **settings)
    if not isinstance(made, OfflineAgent):
        raise DescriptionError(f"agent = {agent!r}: must learn from data")
    made.fit(data)
    return made


def at(curve: Mapping[str, Sequence[float]], pulls: int) -> tuple[float, float, float]:
    """Mean, low and high of a stored curve after so many pulls, from 1."""
    mean, low, high = (curve[name][pulls - 1] for name in ("mean", "low", "high"))
    return mean, low, high

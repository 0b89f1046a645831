"""What an agent serves when a share of the best is wanted: return conditioning, held to its word.

An agent that is conditioned on returns is asked for shares of the best schedule's throughput, from
far too little to more than there is. It plays the same episodes for each share. What is wanted and
what is served are then compared by their ranks over all episodes and shares.

Chen et al., Decision Transformer, NeurIPS 2021, figure 4, compare them for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import has_config, read_config
from pmoss_benchmarks.spatial.references import LONG_BUDGET, make_references
from pmoss_benchmarks.trained import trained
from pmoss_datasets import Dataset
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import (
    INTERVAL,
    pack_actions,
    paired_difference,
    unpack_actions,
)
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.suite import build, load_task
from pmoss_env.errors import DatasetError, DescriptionError, PmossError
from pmoss_env.extras import require
from pmoss_env.files import read_json
from pmoss_env.types import Float64Array

Progress = Callable[[int, int], None]

#: What a report says it is.
FORMAT = "pmoss-wanted"
#: Shares of the best that are wanted.
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 2.0)
#: Ranks are compared up to this share: what is far out of reach has one answer, the best.
_RANKED = 1.1
#: Episodes of the evaluation begin here: no dataset has them.
_EVALUATION = 101
#: Options that say where files lie.
_PLACES = ("folder", "references", "agents")
#: Repetitions of the bootstrap over episodes.
_BOOTSTRAPS = 1000


@dataclass(frozen=True)
class WantedOptions:
    """What a curve depends on.

    Attributes:
        task: a committed one of spatial scheduling.
        agent: learns from data and takes a wanted throughput by ``set_target``.
        tier: of the data.
        shares: of the best throughput of each episode, wanted one after another.
        episodes: of the evaluation, the same for all shares.
        budget: evaluations of the searches that find the best of an episode.
        changes: fields that override the agent's committed config.
        folder: where datasets are kept.
        references: folder of the best of each episode; missing ones are made.
        agents: folder of agents that were trained before, and are trained no more; empty: none.
    """

    task: str
    agent: str = "decision-transformer"
    tier: str = "mixed"
    shares: tuple[float, ...] = SHARES
    episodes: int = 10
    budget: int = LONG_BUDGET
    changes: dict[str, Any] = field(default_factory=dict)
    folder: str = ""
    references: str = ""
    agents: str = ""

    def __post_init__(self) -> None:
        ranked = {share for share in self.shares if share <= _RANKED}
        if len(ranked) < 2 or not all(0 < share < 10 for share in self.shares):
            raise DescriptionError(
                f"shares = {list(self.shares)}: must be in (0, 10), and at least two different "
                f"ones of them at most {_RANKED}"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """What results depend on: not where files lie."""
        return {k: v for k, v in asdict(self).items() if k not in _PLACES}


@dataclass(frozen=True)
class WantedCell:
    """One training.

    Attributes:
        task: of the options.
        seed: of training.
    """

    task: str
    seed: int = 0

    @property
    def name(self) -> str:
        """Decides the cell."""
        return f"{self.task}/{self.seed}"


def data_of(
    options: WantedOptions,
    progress: Progress | None = None,
    processes: int = 1,
) -> Dataset:
    """The data, as they lie there or made; call it before several processes do cells."""
    id_ = f"pmoss/{options.task}/{options.tier}-v0"
    return build(id_, options.folder, progress, processes=processes)


def measure_cell(options: WantedOptions, cell: WantedCell) -> dict[str, Any]:
    """Trains an agent, and plays each episode once for each wanted share.

    Returns:
        ``metrics`` of the training, empty if it was done before; ``best``, (episodes,) Mq/s;
        ``served``, (shares, episodes) Mq/s; ``env_seeds``, (episodes,); ``actions``, (shares,
        episodes) packed texts; ``curve``, of each share the mean share that was served, with its
        interval; and ``correlation``, see rank_correlation(), of the shares up to 1.1.

    Raises:
        DescriptionError: the agent learns from no data, or cannot be told what is wanted.
    """
    config = dict(read_config(options.agent, cell.task)) if has_config(options.agent) else {}
    config = {**config, **options.changes, "seed": cell.seed}
    config.pop("agent", None)
    agent = pmoss_agents.make(options.agent, **config)
    if not isinstance(agent, OfflineAgent) or not hasattr(agent, "set_target"):
        raise DescriptionError(
            f"agent = {options.agent!r}: must learn from data and take a wanted throughput"
        )
    data = data_of(options)
    metrics: dict[str, float] = {}
    if options.agents:
        path = trained(options.agent, config, [data], options.agents)
        player: Any = pmoss_agents.load(path, options.agent)
    else:
        metrics = agent.fit(data)
        player = agent
    folder = Path(options.references)
    references = make_references(
        folder, [cell.task], _EVALUATION, options.episodes, budget=options.budget
    )[cell.task][: options.episodes]
    task = load_task(cell.task)
    domain = find_domain(task.domain)
    served = np.empty((len(options.shares), len(references)))
    actions = [[""] * len(references) for _ in options.shares]
    with closing(domain.make_env(task.env)) as env:
        check_policy(player, env)
        for number, one in enumerate(references):
            for row, share in enumerate(options.shares):
                player.set_target(share * one.best)
                played = domain.play(env, player, one.env_seed)
                served[row, number] = played.outcome
                actions[row][number] = pack_actions(played.actions)
    best = [one.best for one in references]
    return {
        "metrics": metrics,
        "best": best,
        "served": served.tolist(),
        "env_seeds": [one.env_seed for one in references],
        "actions": actions,
        **_figures(options.shares, served, best),
    }


def _figures(
    wanted: Sequence[float], served: Float64Array, best: Sequence[float]
) -> dict[str, Any]:
    """``curve`` and ``correlation`` of measure_cell()."""
    shares = served / np.asarray(best)
    ranked = np.asarray(wanted) <= _RANKED
    return {
        "curve": [asdict(paired_difference(row[None])) for row in shares],
        "correlation": rank_correlation(np.asarray(wanted)[ranked].tolist(), shares[ranked]),
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
    require("scipy")
    from scipy.stats import rankdata

    def correlation(rows: Float64Array) -> float:
        x = rankdata(np.repeat(np.asarray(wanted), rows.shape[1]))
        y = rankdata(rows.ravel())
        return float(np.corrcoef(x, y)[0, 1]) if np.ptp(y) > 0 else 0.0

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


def recheck(
    path: Path, episodes: int = 1, progress: Progress = lambda done, total: None
) -> list[str]:
    """Plays the stored actions of some episodes of each training again; compares every bit.

    Agents are not asked. All figures are computed again from what was served.

    Args:
        path: of a report of ``pmoss benchmark wanted``.
        episodes: how many, evenly spread, with every share that was wanted.
        progress: called with (done, total) episodes.

    Returns:
        One line for each value that came out different.

    Raises:
        DatasetError: the file is none of them, or damaged.
    """
    try:
        report = read_json(path)
        if report["format"] != FORMAT:
            raise ValueError(f"format = {report['format']!r}: must be {FORMAT!r}")
        options = WantedOptions(**report["settings"])
        cells = [dict(cell) for cell in report["cells"]]
        wrong = [line for cell in cells for line in _other_figures(options, cell)]
        count = min(max(episodes, 1), options.episodes)
        numbers = [number * options.episodes // count for number in range(count)]
        task = load_task(options.task)
        domain = find_domain(task.domain)
        with closing(domain.make_env(task.env)) as env:
            for done, (cell, number) in enumerate(product(cells, numbers), 1):
                for row, share in enumerate(options.shares):
                    acted = unpack_actions(cell["actions"][row][number])
                    now = domain.rerun(env, cell["env_seeds"][number], acted).outcome
                    then = cell["served"][row][number]
                    if now != then:
                        where = f"training {cell['seed']}, episode {number}, wanted {share:g}"
                        wrong.append(f"{where}: recorded {then!r}, now {now!r}")
                progress(done, len(cells) * count)
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError) as error:
        if isinstance(error, PmossError):
            raise
        raise DatasetError(
            f"{path}: is no report of `pmoss benchmark wanted`: {error!r}"
        ) from error
    return wrong


def _other_figures(options: WantedOptions, cell: Mapping[str, Any]) -> list[str]:
    now = _figures(options.shares, np.asarray(cell["served"], np.float64), cell["best"])
    return [
        f"training {cell['seed']}: {name}: recorded {cell[name]!r}, now {value!r}"
        for name, value in now.items()
        if cell[name] != value
    ]

"""Whether the simulated server says of policies what the model says.

The episodes of a study of ``play`` are played again. The simulated server executes the queries of
their schedules, with the same hot keys and beside the same co-tenants.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from pmoss_benchmarks.offline.episodes import OfStored, play_again
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.store import StoredStudy
from pmoss_benchmarks.study.tables import TableOfRows, grouped, interval, side
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation.statistics import (
    Difference,
    paired_difference,
    ratio_of_means,
    spearman,
)
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import load_task
from pmoss_env.backends import Backend, make_backend
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError
from pmoss_env.types import Float64Array

CONFIRMED, OPEN, CONTRADICTED = "confirmed", "not told apart", "contradicted"
#: Both say how fast a schedule is.
FIDELITIES = ("model", "simulated")
#: Arguments of an environment that the simulated server knows nothing of.
_UNKNOWN = ("noise", "deviation", "backend_options")


@dataclass(frozen=True)
class Settings(OfStored):
    """What the rows depend on; the tasks are of spatial scheduling.

    Attributes:
        policies: of the study, a rule among them; of agents the first training is measured.
        episodes: the first so many.
        queries: of a measurement; 0: enough to fill the caches, see ``enough_queries``.
        line_sampling: one cache line in so many is simulated.
        finer: episodes of each task that are measured a second time, with twice the queries and
            twice the lines: that says how far a measurement is off.
    """

    policies: tuple[str, ...]
    episodes: int = 10
    queries: int = 0
    line_sampling: int = 16
    finer: int = 1

    def __post_init__(self) -> None:
        for task in self.tasks:
            if (domain := load_task(task).domain) != FIRST_DOMAIN:
                raise DescriptionError(f"{task}: is a task of {domain}, not of {FIRST_DOMAIN}")
        if not _rules(self.policies):
            raise DescriptionError(
                f"policies = {self.policies}: must hold a rule, with which others are compared"
            )


def _rules(policies: Sequence[str]) -> list[str]:
    """The policies that take no budget of evaluations and do not learn."""
    domain = find_domain(FIRST_DOMAIN)
    known = [name for name in policies if name in domain.opponents() and name != "exact"]
    return [name for name in known if not domain.takes_budget(name)]


def cells(settings: Settings) -> list[Cell]:
    """Every episode of every task."""
    return [
        {"task": task, "episode": episode}
        for task, episode in product(settings.tasks, range(settings.episodes))
    ]


class Work:
    """Measures one episode after the other; the servers of a task are kept."""

    def __init__(self, run: Run) -> None:
        self._run, self._settings, self._task = run, run.settings, ""
        self._servers: list[Backend] = []

    @cached_property
    def _stored(self) -> StoredStudy:
        stored: StoredStudy = self._settings.read(self._run.results)
        return stored

    def __call__(self, cell: Cell) -> Row:
        """The row of an episode.

        Returns:
            ``env_seed`` of the environment's reset, and ``rows``: by policy ``model`` and
            ``simulated`` and, in the first episodes, ``finer``, all in Mq/s.

        Raises:
            DatasetError: the study lacks the episode, or the model gives another throughput.
            UnsupportedError: an environment that the simulated server cannot be like.
        """
        settings, task, number = self._settings, cell["task"], cell["episode"]
        names = ("simulated", "finer") if number < settings.finer else ("simulated",)
        rows: dict[str, dict[str, float]] = {}
        env_seed = None
        for policy in settings.policies:
            row = settings.row_of(self._stored, task, policy, settings.episodes)
            for again in play_again(row, self._budget, [number]):
                if again.policy != policy:
                    continue
                where = f"{task}: episode {number}: {policy}"
                then, now = again.stored["throughput"][number], again.rollout.outcome
                if now != then:
                    raise DatasetError(f"{where}: stored {then!r} Mq/s, the model gives {now!r}")
                env, env_seed = again.env.unwrapped, again.stored["env_seed"][number]
                self._begin(task, env)
                rows[policy] = {"model": float(now)}
                for name, server in zip(names, self._servers, strict=False):
                    server.set_instance(env.instance)
                    rows[policy][name] = float(server.measure(env.schedule, seed=0).throughput)
        return {"env_seed": env_seed, "rows": rows}

    @property
    def _budget(self) -> int:
        return int(self._stored.settings["search_budget"])

    def close(self) -> None:
        """Releases the servers."""
        for server in self._servers:
            server.close()
        self._task, self._servers = "", []

    def _begin(self, task: str, env: SpatialSchedulingEnv) -> None:
        if self._task == task:
            return
        self.close()
        settings = self._settings
        usual = _server(task, env, settings.queries or None, settings.line_sampling)
        self._servers, self._task = [usual], task
        recorded = usual.recorded
        finer = 2 * recorded.queries, max(1, recorded.line_sampling // 2)
        self._servers.append(_server(task, env, *finer))


def _server(
    task: str, env: SpatialSchedulingEnv, queries: int | None, line_sampling: int
) -> SimulatedBackend:
    """The simulated server of an environment on the analytic model."""
    given = env.session.arguments
    for name in _UNKNOWN:
        if value := getattr(given, name):
            raise UnsupportedError(
                f"{task}: {name} = {value!r}: the simulated server has nothing like it: choose "
                "another track"
            )
    server = make_backend(
        "simulated",
        machine=given.machine,
        index=given.index,
        workload=given.workload,
        slices=given.slices,
        load=given.load,
        queries=queries,
        line_sampling=line_sampling,
    )
    assert isinstance(server, SimulatedBackend)
    return server


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """What the rows say: ``tasks``, by name see of_task(), and ``verdicts``, their counts."""
    tasks = {
        task: of_task([row["rows"] for row in own]) for task, own in grouped(rows, "task").items()
    }
    verdicts = Counter(
        one["verdict"] for of in tasks.values() for one in of["policies"].values() if one["verdict"]
    )
    return {"tasks": tasks, "verdicts": {name: verdicts[name] for name in _VERDICTS}}


_VERDICTS = (CONFIRMED, OPEN, CONTRADICTED)


def of_task(episodes: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """What the episodes of a task say.

    Args:
        episodes: by policy ``model``, ``simulated`` and, in some, ``finer``, Mq/s.

    Returns:
        ``episodes``, their number.
        ``rule``, the one with the best mean by the model.
        ``policies``, by name ``model`` and ``simulated``, means in Mq/s. All but that rule have
        ``over_rule``, by fidelity how far the mean lies above the rule's in percent, and
        ``verdict``. Values have 95 % intervals.
        ``ranks``, Spearman's correlation of the policies' means; None where all are equal.
        ``finer``, if there are finer measurements; see _finer().
    """
    names = list(episodes[0])
    values = {
        fidelity: {name: np.array([one[name][fidelity] for one in episodes]) for name in names}
        for fidelity in FIDELITIES
    }
    rule = max(_rules(names), key=lambda name: float(values["model"][name].mean()))
    policies: dict[str, Any] = {}
    for name in names:
        over = [_over(of[name], of[rule]) for of in values.values()]
        policies[name] = {
            **{f: asdict(paired_difference(values[f][name][None])) for f in FIDELITIES},
            "over_rule": dict(zip(FIDELITIES, map(asdict, over), strict=True)),
            "verdict": verdict(*over) if name != rule else "",
        }
    ranks = spearman(*(np.array([of[name].mean() for name in names]) for of in values.values()))
    second = [one for one in episodes if all("finer" in row for row in one.values())]
    return {
        "episodes": len(episodes),
        "rule": rule,
        "policies": policies,
        "ranks": None if math.isnan(ranks) else ranks,
        "finer": _finer(second, rule) if second else None,
    }


def verdict(model: Difference, simulated: Difference) -> str:
    """Whether both say which of two policies is ahead, and the same; by their intervals."""
    sides = [side(model), side(simulated)]
    if "level" in sides:
        return OPEN
    return CONFIRMED if sides[0] == sides[1] else CONTRADICTED


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


def _by_policy(rows: Rows) -> TableOfRows:
    """Every policy by the model and by the simulated server, task by task."""
    lines = []
    for task, of in summarise({}, rows)["tasks"].items():
        ordered = sorted(of["policies"].items(), key=lambda item: -item[1]["model"]["value"])
        for name, one in ordered:
            over = [
                interval(one["over_rule"][f], sign="+") if one["verdict"] else ""
                for f in FIDELITIES
            ]
            means = [interval(one[fidelity]) for fidelity in FIDELITIES]
            lines.append([task, name, *means, *over, one["verdict"] or "the rule"])
    heads = ["task", "policy", ">model, Mq/s", ">simulated, Mq/s"]
    heads += [">over the rule by the model, %", ">by the simulator, %", "which is"]
    return TableOfRows(heads, lines)


TABLES = {"default": _by_policy}

"""What schedules measured on a host are worth there: a surrogate learns from them and re-schedules.

Learners see all measured schedules, the first few of them, a model of the host, or the model and a
few. Each then places the index of this host in the same episodes as the rules do. The model is the
analytic one, of the description that ``pmoss data import-machine`` makes of the host. An agent gets
no measurement beside the snapshot of the incumbent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

import pmoss_datasets
from pmoss_agents.rollouts import roll_out
from pmoss_benchmarks.offline.training import learned
from pmoss_benchmarks.study.function import Cell, Progress, Row, Rows, Run, silent
from pmoss_benchmarks.study.tables import TableOfRows, interval
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.evaluation.statistics import ratio_of_means
from pmoss_datasets.excerpt import excerpt
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.suite import obtain
from pmoss_env.errors import DatasetError
from pmoss_env.files import write_atomically
from pmoss_env.machines.importing import import_machine, read_host
from pmoss_env.provenance import describe_machine
from pmoss_env.types import Float64Array

MEASURES_HOST = True
#: Rules beside the learners. "incumbent" stays; its second measurement is the A/A test.
RULES = ("incumbent", "random", "grouped", "lpt", "lpt-capacity", "best-fit")
#: Measured episodes beside the model.
FEW = (10, 100)
#: What the table compares with.
OVER = ("incumbent", "lpt", "lpt-capacity")
_AGENT = "surrogate"
#: What of the environment the model needs to know.
_MODELLED = ("index", "workload", "load", "interference", "slices")


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        data: folder or id of a dataset measured on this host.
        modelled: episodes of the model's data.
        blocks: in each all policies play, in an order drawn for the block.
        episodes: of a block.
        seed: of training and of the episodes.
        changes: fields that override the agent's committed config.
    """

    AXES: ClassVar = ("blocks",)

    data: str
    modelled: int = 300
    blocks: int = 8
    episodes: int = 5
    seed: int = 0
    changes: dict[str, Any] = field(default_factory=dict)


def cells(settings: Settings) -> list[Cell]:
    """The blocks."""
    return [{"block": number} for number in range(settings.blocks)]


def names_of(measured: int) -> dict[str, tuple[int, bool]]:
    """By a learner's name how many measured episodes it sees, and whether those of the model."""
    few = [number for number in FEW if number < measured]
    mixtures = [(number, False) for number in (measured, *reversed(few))]
    mixtures += [(number, True) for number in (0, *few)]
    return {
        f"{_AGENT}, " + " + ".join(["model"] * modelled + [f"{number} measured"] * (number > 0)): (
            number,
            modelled,
        )
        for number, modelled in mixtures
    }


def prepare(run: Run, progress: Progress = silent) -> dict[str, Policy]:
    """The learners by name; those that ``run.keep`` lacks are trained.

    Raises:
        DatasetError: the data were not measured on a host.
    """
    settings, data = run.settings, _data(run)
    task = Recipe(env=dict(data.metadata.env_kwargs), reference_episodes=0).task
    changes = {**settings.changes, "seed": settings.seed}
    learners: dict[str, Policy] = {}
    names = names_of(len(data))
    for done, (name, (measured, modelled)) in enumerate(names.items()):
        progress("learners", done, len(names))
        lessons = list(_lessons(run, data, measured, modelled))
        learners[name] = learned(run, _AGENT, task, lessons, changes)
    return learners


def _data(run: Run) -> Dataset:
    data = pmoss_datasets.load(run.settings.data, run.data)
    if data.metadata.env_kwargs.get("backend") != "hardware":
        raise DatasetError(
            f"{data.path}: {data.id}: was not measured: collect one with pmoss data collect OUT "
            "--backend hardware --tier measured"
        )
    return data


def _lessons(run: Run, data: Dataset, measured: int, modelled: bool) -> Iterator[Dataset]:
    if modelled:
        yield _model_data(run, data)
    if measured == len(data):
        yield data
    elif measured:
        path = run.keep / f"first-{measured}"
        yield excerpt(data, path, measured, overwrite=path.exists())


def _model_data(run: Run, data: Dataset) -> Dataset:
    """Of the analytic model of this host, with the same index and co-tenants."""
    # Its clock is read at the time, so the description of a host is made once.
    host = hashlib.sha256(json.dumps(describe_machine(), sort_keys=True).encode()).hexdigest()[:16]
    description = run.keep / f"imported-{host}.toml"
    if not description.exists():
        description.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(description, import_machine(read_host("/"), description.stem))
    env = data.metadata.env_kwargs
    modelled_env = {name: env[name] for name in _MODELLED if name in env}
    modelled = run.settings.modelled
    recipe = Recipe(
        env={**modelled_env, "machine": str(description)}, episodes=modelled, reference_episodes=0
    )
    return obtain(recipe, run.keep / f"model-{host}-{modelled}")


class Work:
    """Plays one block after the other; the learners are read once."""

    def __init__(self, run: Run) -> None:
        self._settings, self._data = run.settings, _data(run)
        self._policies = {**{name: SchedulePolicy(name) for name in RULES}, **prepare(run)}

    def __call__(self, cell: Cell) -> Row:
        """Lets all policies play in the episodes of a block.

        Returns:
            ``measured``, episodes of the data; ``host_load``, the load average at the begin; and
            ``played``: of each policy what was measured ``before`` and ``after`` it placed the
            index, (episodes,) Mq/s.
        """
        rng = np.random.default_rng([self._settings.seed, cell["block"]])
        order = rng.permutation(list(self._policies)).tolist()
        load = os.getloadavg()[0]
        rows = roll_out(
            {**self._data.metadata.env_kwargs, "observation": "complete"},
            {name: self._policies[name] for name in order},
            episodes=self._settings.episodes,
            seed=int(rng.integers(2**31)),
        )
        rows.sort(key=lambda row: int(row["episode"]))
        played = {
            name: {
                when: [row[field] for row in rows if row["policy"] == name]
                for when, field in (("before", "incumbent_mq_per_s"), ("after", "final_mq_per_s"))
            }
            for name in order
        }
        return {"measured": len(self._data), "host_load": load, "played": played}


def _throughputs(rows: Rows, when: str = "after") -> dict[str, Float64Array]:
    """Of each policy what was measured, (episodes,) Mq/s, in the same order for all."""
    return {
        name: np.array([value for row in rows for value in row["played"][name][when]])
        for name in rows[0]["played"]
    }


def _ratios(rows: Rows) -> TableOfRows:
    """Every learner and rule beside staying, LPT and LPT that knows capacities."""
    served = _throughputs(rows)
    lines = [
        [
            name if "," in name else f"`{name}`",
            f"{served[name].mean():.2f}",
            *(interval(ratio_of_means(served[name], served[other]), 2) for other in OVER),
        ]
        for name in sorted(served, key=lambda name: -float(served[name].mean()))
    ]
    return TableOfRows(["policy", ">Mq/s", *(f">over `{name}`" for name in OVER)], lines)


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """The A/A test: the incumbent measured first, and measured again.

    Returns:
        ``episodes``; ``again``, the ratio of both means; ``spread``, the standard deviation of the
        logarithm of a single pair's ratio, as a share; and ``loads``, of the host.
    """
    first, again = (_throughputs(rows, when)["incumbent"] for when in ("before", "after"))
    return {
        "episodes": first.size,
        "again": asdict(ratio_of_means(again, first)),
        "spread": float(np.exp(np.log(again / first).std(ddof=1))) - 1,
        "loads": [row["host_load"] for row in rows],
    }


TABLES = {"default": _ratios}

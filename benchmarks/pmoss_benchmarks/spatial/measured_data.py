"""What schedules measured on a host are worth there: a surrogate learns from them and re-schedules.

Learners see all measured schedules, the first few of them, a model of the host, or the model and a
few. Each then places the index of this host in the same episodes as the rules do. The model is the
analytic one, of the description that ``pmoss machines import`` makes of the host. An agent gets no
measurement beside the snapshot of the incumbent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.configs import read_config
from pmoss_agents.rollouts import roll_out
from pmoss_benchmarks.trained import trained
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.evaluation.statistics import ratio_of_means
from pmoss_datasets.excerpt import excerpt
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.storage import open_dataset
from pmoss_datasets.suite import obtain
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.files import write_atomically
from pmoss_env.machines.importing import import_machine, read_host
from pmoss_env.provenance import describe_machine
from pmoss_env.types import Float64Array

#: Rules beside the learners. "incumbent" stays; its second measurement is the A/A test.
RULES = ("incumbent", "random", "grouped", "lpt", "lpt-capacity", "best-fit")
#: Measured episodes beside the model.
FEW = (10, 100)
_AGENT = "surrogate"
#: What of the environment the model needs to know.
_MODELLED = ("index", "workload", "load", "interference", "slices")


@dataclass(frozen=True)
class Learner:
    """What a surrogate learns from.

    Attributes:
        measured: episodes measured on the host, the first ones of the dataset.
        modelled: whether the model's episodes are among its data.
    """

    measured: int
    modelled: bool

    @property
    def name(self) -> str:
        """E.g. "surrogate, model + 10 measured"."""
        parts = ["model"] if self.modelled else []
        parts += [f"{self.measured} measured"] if self.measured else []
        return f"{_AGENT}, {' + '.join(parts)}"


@dataclass(frozen=True)
class MeasuredOptions:
    """What the benchmark depends on.

    Attributes:
        data: folder of the dataset measured on this host.
        folder: where checkpoints and the model's data are kept.
        modelled: episodes of the model's data.
        episodes: of a cell.
        seed: of training and of the episodes.
        changes: fields that override the agent's committed config.
    """

    data: str
    folder: str
    modelled: int = 300
    episodes: int = 5
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Some episodes in which all policies play, in an order drawn for the block.

    Attributes:
        number: from 0; decides its chance.
    """

    number: int

    @property
    def name(self) -> str:
        """In one word."""
        return f"block-{self.number}"


def learners(episodes: int) -> list[Learner]:
    """All learners, given so many measured episodes."""
    few = [number for number in FEW if number < episodes]
    return [
        *(Learner(number, False) for number in (episodes, *reversed(few))),
        *(Learner(number, True) for number in (0, *few)),
    ]


def check_data(dataset: Dataset) -> None:
    """DatasetError if the dataset was not measured on a host."""
    if dataset.metadata.env_kwargs.get("backend") != "hardware":
        raise DatasetError(
            f"{dataset.path}: {dataset.id}: was not measured: collect one with pmoss collect OUT "
            "--backend hardware --tier measured"
        )


def train_learners(
    options: MeasuredOptions,
    progress: Callable[[str], Any] = lambda name: None,
) -> dict[str, str]:
    """The checkpoints of all learners by their names; trained where they are not there yet.

    Args:
        options: of the benchmark.
        progress: called with the name of each learner before its training.
    """
    data = open_dataset(options.data)
    check_data(data)
    task = Recipe(env=dict(data.metadata.env_kwargs), reference_episodes=0).task
    config = {**read_config(_AGENT, task), **options.changes, "seed": options.seed}
    config.pop("agent", None)
    found = {}
    for learner in learners(len(data)):
        progress(learner.name)
        lessons = list(_lessons(options, learner, data))
        found[learner.name] = str(trained(_AGENT, config, lessons, options.folder))
    return found


def _lessons(options: MeasuredOptions, learner: Learner, data: Dataset) -> Iterator[Dataset]:
    if learner.modelled:
        yield _model_data(options, data)
    if learner.measured == len(data):
        yield data
    elif learner.measured:
        path = Path(options.folder) / f"first-{learner.measured}"
        yield excerpt(data, path, learner.measured, overwrite=path.exists())


def _model_data(options: MeasuredOptions, data: Dataset) -> Dataset:
    """Of the analytic model of this host, with the same index and co-tenants."""
    # Its clock is read at the time, so the description of a host is made once.
    host = hashlib.sha256(json.dumps(describe_machine(), sort_keys=True).encode()).hexdigest()[:16]
    description = Path(options.folder) / f"imported-{host}.toml"
    if not description.exists():
        write_atomically(description, import_machine(read_host("/"), description.stem, None))
    env = data.metadata.env_kwargs
    told = {name: env[name] for name in _MODELLED if name in env}
    recipe = Recipe(
        env={**told, "machine": str(description)},
        episodes=options.modelled,
        reference_episodes=0,
    )
    return obtain(recipe, Path(options.folder) / f"model-{host}-{options.modelled}")


def measure_block(
    options: MeasuredOptions, agents: Mapping[str, str], block: Block
) -> dict[str, Any]:
    """Lets all policies play in the episodes of a block.

    Args:
        options: of the benchmark.
        agents: what train_learners() gave.
        block: to be measured.

    Returns:
        ``host_load``, the load average at the begin; and ``rows``: of each policy and episode what
        was measured before and after it placed the index, in Mq/s.
    """
    data = open_dataset(options.data)
    policies: dict[str, Policy] = {name: SchedulePolicy(name) for name in RULES}
    policies |= {name: pmoss_agents.load(path) for name, path in agents.items()}
    rng = np.random.default_rng([options.seed, block.number])
    order = rng.permutation(list(policies)).tolist()
    load = os.getloadavg()[0]
    rows = roll_out(
        {**data.metadata.env_kwargs, "observation": "complete"},
        {name: policies[name] for name in order},
        episodes=options.episodes,
        seed=int(rng.integers(2**31)),
    )
    return {
        "host_load": load,
        "rows": [
            {
                "policy": row["policy"],
                "episode": row["episode"],
                "before": row["incumbent_mq_per_s"],
                "after": row["final_mq_per_s"],
            }
            for row in rows
        ],
    }


def throughputs(cells: Sequence[Mapping[str, Any]]) -> dict[str, Float64Array]:
    """Of each policy what it reached, (episodes,) Mq/s, in the same order of episodes for all."""
    rows = [(cell["number"], row) for cell in cells for row in cell["rows"]]
    names = dict.fromkeys(row["policy"] for _, row in rows)
    found = {}
    for name in names:
        mine = [(at, row["episode"], row["after"]) for at, row in rows if row["policy"] == name]
        found[name] = np.array([after for *_, after in sorted(mine)], dtype=np.float64)
    if len({values.size for values in found.values()}) > 1:
        raise DescriptionError("cells: not every policy played every episode")
    return found


def repeats(cells: Sequence[Mapping[str, Any]]) -> tuple[Float64Array, Float64Array]:
    """The A/A test: the incumbent measured first, and measured again, (episodes,) Mq/s each."""
    rows = [row for cell in cells for row in cell["rows"] if row["policy"] == "incumbent"]
    first, again = ([row[when] for row in rows] for when in ("before", "after"))
    return np.array(first, dtype=np.float64), np.array(again, dtype=np.float64)


def ratios(cells: Sequence[Mapping[str, Any]], over: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of each policy the ratio of its mean throughput to that of others, with intervals."""
    found = throughputs(cells)
    return {
        name: {other: asdict(ratio_of_means(values, found[other])) for other in over}
        for name, values in found.items()
    }

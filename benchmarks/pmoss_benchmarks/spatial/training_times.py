"""How long an update of each learner takes, on the CPU and on a GPU, on the same data.

A learner is trained as its committed config has it, for a few seconds on each device. The first
update is left out: it sets up what the others use. Learners of other environments are not timed
here, nor those that learn in phases: pair-policy, reconstruct and judged-transformer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OnlineAgent
from pmoss_agents.configs import has_config, read_config
from pmoss_agents.devices import device_label, find_device
from pmoss_agents.pytorch import torch
from pmoss_datasets import Recipe
from pmoss_datasets.storage import Dataset
from pmoss_datasets.suite import obtain
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.provenance import provenance
from pmoss_env.result_files import ResultFile

#: progress(rows done, rows in all) after each.
Progress = Callable[[int, int], None]
#: Updates that are timed at least.
_LEAST = 2


@dataclass(frozen=True)
class Learner:
    """Who is timed.

    Attributes:
        agent: its name.
        config: of configs/; None: the agent's own.
        changes: fields that override it.
    """

    agent: str
    config: str | None = None
    changes: Mapping[str, Any] | None = None

    def settings(self, task: str) -> dict[str, Any]:
        """All fields of the config that are not at their defaults."""
        name = self.config or self.agent
        values = dict(read_config(name, task)) if has_config(name) else {}
        values.pop("agent", None)
        return {**values, **(self.changes or {})}


_PAPER = "decision-transformer-paper"
LEARNERS = {
    "surrogate": Learner("surrogate"),
    "decision-transformer": Learner("decision-transformer"),
    _PAPER: Learner("decision-transformer", _PAPER),
    f"{_PAPER}, bfloat16": Learner("decision-transformer", _PAPER, {"precision": "bfloat16"}),
    "bc": Learner("bc"),
    "cql": Learner("cql"),
    "bcq": Learner("bcq"),
    "iql": Learner("iql"),
    "maskable-ppo": Learner("maskable-ppo"),
    "dqn": Learner("dqn"),
}


class _Enough(KeyboardInterrupt):
    """Ends a training as Ctrl-C does."""


def run_training_times(
    recipe: Recipe,
    folder: Path,
    *,
    learners: Sequence[str] = tuple(LEARNERS),
    devices: Sequence[str] = ("cpu",),
    seconds: float = 10.0,
    changes: Mapping[str, Any] | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Times updates of each learner on each device.

    Args:
        recipe: of what they learn from; those that play do so in its environment.
        folder: that the dataset is kept in; it is made if it is missing.
        learners: of LEARNERS.
        devices: some of configs.DEVICES.
        seconds: of each learner on each device, after its first update.
        changes: fields that override every config.
        out: rows that this file holds are not made again.
        progress: see Progress.

    Returns:
        Rows with ``learner``, ``device``, ``gpu`` (its name; None: the CPU), ``updates`` (timed),
        ``of`` (updates of a whole training), and ``low``, ``median`` and ``high`` (quartiles,
        seconds per update).

    Raises:
        UnknownNameError: an unknown learner or device.
        UnsupportedError: a GPU is asked for, and there is none.
        DescriptionError: a config that a learner refuses, that sets the device, or that has too
            few updates to time one.
        DatasetError: ``out`` holds rows of other settings.
    """
    for name in learners:
        if name not in LEARNERS:
            raise UnknownNameError("learner", name, tuple(LEARNERS))
    if "device" in (changes or {}):
        raise DescriptionError("changes: device: give it by `devices`, or --device")
    if not 0 <= seconds < math.inf:
        raise DescriptionError(f"seconds = {seconds}: must be a number from 0")
    for name in learners:
        one = LEARNERS[name]
        pmoss_agents.make(one.agent, **{**one.settings(recipe.task), **(changes or {})})
    gpus = {device: device_label(find_device(device)) for device in devices}
    settings = {
        **{"task": recipe.task, "data": recipe.id, "episodes": recipe.episodes},
        **{"seconds": seconds, "changes": dict(changes or {}), "torch": torch.__version__},
    }
    code = ["pmoss_benchmarks.spatial.training_times"]
    header = {"kind": "training-times", **settings, **provenance(code)}
    rows: list[dict[str, Any]] = []
    wanted = [(name, device) for name in learners for device in devices]
    with ResultFile(out, header, key=("learner", "device")) as file:
        dataset = None
        for done, (name, device) in enumerate(wanted, 1):
            row = file.get(name, device)
            if row is None or not is_whole(row):
                dataset = dataset or obtain(recipe, folder / recipe.id)
                learner = LEARNERS[name]
                values = {**learner.settings(recipe.task), **(changes or {}), "device": device}
                found = _timed(learner.agent, values, dataset, seconds)
                row = {"learner": name, "device": device, "gpu": gpus[device], **found}
                file.append(row)
            rows.append(row)
            if progress is not None:
                progress(done, len(wanted))
    return rows


def is_whole(row: Mapping[str, Any]) -> bool:
    """Whether a row holds what run_training_times() puts into one; a file may hold others."""
    times = [row.get(name) for name in ("low", "median", "high")]
    return (
        isinstance(row.get("learner"), str)
        and isinstance(row.get("updates"), int)
        and isinstance(row.get("gpu"), str | None)
        and isinstance(row.get("of"), int)
        and all(isinstance(one, float) and 0 < one < math.inf for one in times)
    )


def _timed(
    name: str, config: Mapping[str, Any], dataset: Dataset, seconds: float
) -> dict[str, Any]:
    """Updates of one training, until there were enough."""
    agent: Any = pmoss_agents.make(name, **config)
    ends: list[float] = []
    whole = 0

    def tell(done: int, total: int, metrics: Mapping[str, float]) -> None:
        nonlocal whole
        ends.append(time.perf_counter())
        whole = total
        if len(ends) > _LEAST and ends[-1] - ends[0] >= seconds:
            raise _Enough

    lesson = dataset.metadata.env_kwargs if isinstance(agent, OnlineAgent) else dataset
    with suppress(_Enough):
        agent.fit(lesson, progress=tell)
    took = np.diff(ends)
    if not took.size:
        raise DescriptionError(f"{name}: {whole} update: at least 2 are needed to time one")
    low, median, high = (float(f"{value:.4g}") for value in np.quantile(took, (0.25, 0.5, 0.75)))
    return {"updates": took.size, "of": whole, "low": low, "median": median, "high": high}

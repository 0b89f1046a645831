"""How long an update of each learner takes, on the CPU and on a GPU, on the same data.

A learner is trained as its committed config has it, for a few seconds on each device. The first
update is left out: it sets up what the others use. Learners of other environments are not timed
here, nor those that learn in phases: pair-policy and reconstruct.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OnlineAgent
from pmoss_agents.configs import committed_config
from pmoss_agents.devices import device_label, find_device
from pmoss_agents.pytorch import torch
from pmoss_benchmarks.study.function import Cell, Progress, Row, Rows, Run, silent
from pmoss_benchmarks.study.tables import TableOfRows, grouped, interval
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.recipes import tier
from pmoss_datasets.suite import load_task, obtain
from pmoss_env.errors import DescriptionError, UnknownNameError

MEASURES_HOST = True
#: Updates that are timed at least.
_LEAST = 2
_PAPER = "decision-transformer-paper"
#: By name the agent, its config, and fields that override it.
LEARNERS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "surrogate": ("surrogate", "surrogate", {}),
    "decision-transformer": ("decision-transformer", "decision-transformer", {}),
    _PAPER: ("decision-transformer", _PAPER, {}),
    f"{_PAPER}, bfloat16": ("decision-transformer", _PAPER, {"precision": "bfloat16"}),
    **{name: (name, name, {}) for name in ("bc", "cql", "bcq", "iql", "maskable-ppo", "dqn")},
}


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        task: a committed one of spatial scheduling.
        tier: of the data; learners that play do so in its environment.
        learners: of LEARNERS.
        devices: "cpu", "cuda", or "auto": a GPU where there is one.
        seconds: of each learner on each device, after its first update.
        changes: fields that override every config.
        episodes: of the data; 0: as many as the tier has.
    """

    AXES: ClassVar = ("learners", "devices")

    task: str
    tier: str = "mixed"
    learners: tuple[str, ...] = tuple(LEARNERS)
    devices: tuple[str, ...] = ("cpu",)
    seconds: float = 10.0
    changes: dict[str, Any] = field(default_factory=dict)
    episodes: int = 0

    def __post_init__(self) -> None:
        if "device" in self.changes:
            raise DescriptionError("changes: device: give it by `devices`")
        if not 0 <= self.seconds < math.inf:
            raise DescriptionError(f"seconds = {self.seconds}: must be a number from 0")
        for name in self.learners:
            if name not in LEARNERS:
                raise UnknownNameError("learner", name, LEARNERS)
            pmoss_agents.make(LEARNERS[name][0], **self.config(name))

    def config(self, learner: str) -> dict[str, Any]:
        """All fields of a learner's config that are not at their defaults."""
        _, name, changes = LEARNERS[learner]
        return {**committed_config(name, self.task), **changes, **self.changes}


def cells(settings: Settings) -> list[Cell]:
    """Each learner on each device."""
    return [
        {"learner": name, "device": device}
        for name in settings.learners
        for device in settings.devices
    ]


def prepare(run: Run, progress: Progress) -> None:
    """Makes the data that the learners learn from.

    Raises:
        UnsupportedError: a GPU is asked for, and there is none.
    """
    for device in run.settings.devices:
        find_device(device)
    _data(run, progress)


def _data(run: Run, progress: Progress = silent) -> Dataset:
    settings = run.settings
    keys = {"tier": settings.tier, "env": dict(load_task(settings.task).env)}
    if settings.episodes:
        keys["episodes"] = settings.episodes
    recipe = Recipe.from_dict({**tier(settings.tier), **keys})
    return obtain(recipe, run.data / recipe.id, partial(progress, "data"))


class _Enough(KeyboardInterrupt):
    """Ends a training as Ctrl-C does."""


def measure(run: Run, cell: Cell) -> Row:
    """Times updates of one learner.

    Returns:
        ``gpu``, its name, None on the CPU; ``episodes`` of the data; ``torch``, its version;
        ``updates`` that were timed, and ``of`` how many a whole training has; and the quartiles
        ``low``, ``median`` and ``high``, seconds per update.

    Raises:
        DescriptionError: the config has too few updates to time one.
    """
    settings, data = run.settings, _data(run)
    name = LEARNERS[cell["learner"]][0]
    config = {**settings.config(cell["learner"]), "device": cell["device"]}
    agent: Any = pmoss_agents.make(name, **config)
    ends: list[float] = []
    whole = 0

    def note(done: int, total: int, metrics: Mapping[str, float]) -> None:
        nonlocal whole
        ends.append(time.perf_counter())
        whole = total
        if len(ends) > _LEAST and ends[-1] - ends[0] >= settings.seconds:
            raise _Enough

    with suppress(_Enough):
        agent.fit(
            data.metadata.env_kwargs if isinstance(agent, OnlineAgent) else data, progress=note
        )
    seconds = np.diff(ends)
    if not seconds.size:
        raise DescriptionError(f"{name}: {whole} update: at least 2 are needed to time one")
    quartiles = [float(f"{value:.4g}") for value in np.quantile(seconds, (0.25, 0.5, 0.75))]
    return {
        "gpu": device_label(find_device(cell["device"])),
        "episodes": len(data),
        "torch": torch.__version__,
        "updates": seconds.size,
        "of": whole,
        **dict(zip(("low", "median", "high"), quartiles, strict=True)),
    }


def _side_by_side(rows: Rows) -> TableOfRows:
    """Milliseconds per update on each device, side by side."""
    by_learner = {
        learner: {row["gpu"] or "CPU": row for row in own}
        for learner, own in grouped(rows, "learner").items()
    }
    devices = list(dict.fromkeys(device for timed in by_learner.values() for device in timed))
    heads = ["learner", *(f">ms, {device}" for device in devices)]
    heads += [">times as fast"] * (len(devices) == 2)
    heads += [f">minutes in all, {device}" for device in devices]
    lines = []
    for learner, timed in by_learner.items():
        own = [timed.get(device) for device in devices]
        line = [
            f"`{learner}`",
            *(interval({**row, "value": row["median"]}, scale=1e3) if row else "" for row in own),
        ]
        if len(devices) == 2:
            ratio = own[0]["median"] / own[1]["median"] if own[0] and own[1] else None
            line.append("" if ratio is None else f"{ratio:.1f}")
        line += [f"{row['median'] * row['of'] / 60:.1f}" if row else "" for row in own]
        lines.append(line)
    return TableOfRows(heads, lines)


TABLES = {"default": _side_by_side}

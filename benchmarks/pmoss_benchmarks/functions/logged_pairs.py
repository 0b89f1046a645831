"""Pairs of schedules that a dataset logged: which of both is forecast to serve more, and which did.

An episode measured an incumbent, and then another schedule in the same instance. A forecast reads
the incumbent's counters. Where both schedules were the same, their difference is noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmoss_agents import load as load_agent
from pmoss_agents.agent import Array
from pmoss_agents.pretrained import card
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.weights import torch_threads
from pmoss_benchmarks.functions.fidelity import kendall_tau
from pmoss_benchmarks.study.function import Cell, Row, Run
from pmoss_datasets import load
from pmoss_env.baselines import Context
from pmoss_env.baselines.best_fit import predicted_times
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Float64Array

#: Two schedules differ clearly from so many standard deviations of noise on.
CLEAR = 2.0
#: The last digits of a network's forecast depend on the processor.
TOLERANCES = {"tau": 1e-3, "error": 1e-3}

#: From a context and (2, slices) workers to (2,) logarithms of throughput, of any unit.
Forecast = Callable[[Context, Array], Float64Array]


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        dataset: of spatial scheduling; its folder or id.
        forecasts: agents that ship and plan in a model, and keys of RULES.
        episodes: the first ones; 0: all.
    """

    AXES: ClassVar = ("forecasts",)

    dataset: str
    forecasts: tuple[str, ...]
    episodes: int = 0


def cells(settings: Settings) -> list[Cell]:
    """The forecasts."""
    return [{"forecast": name} for name in settings.forecasts]


def measure(run: Run, cell: Cell) -> Row:
    """The row of a forecast.

    Returns:
        ``counters`` that some slice had; ``pairs`` that differ, the share of them that was forecast
        ``right``, and Kendall's ``tau`` of both ratios; ``clear`` pairs and ``clear_right``; the
        mean absolute ``error`` of the logarithm of the ratio, and that of no change at all,
        ``unchanged``; the standard deviation ``noise`` of that logarithm.
    """
    name, data = cell["forecast"], load(run.settings.dataset, run.data)
    forecast, machine = RULES.get(name) or _by_agent(name), data.machine
    forecasts, measured, same = [], [], []
    for number in range(run.settings.episodes or len(data)):
        episode = data[number]
        before, after = episode.incumbent, episode.final
        snapshot = episode.snapshot("incumbent", data.metadata)
        columns = np.stack([np.searchsorted(machine.workers, s.cores) for s in (before, after)])
        context = Context(machine, episode.slices, before, snapshot)
        forecasts.append(np.diff(forecast(context, columns))[0])
        measured.append(np.log(episode.final_throughput / episode.incumbent_throughput))
        same.append(before == after)
    predicted, true, differ = np.array(forecasts), np.array(measured), ~np.array(same)
    noise = float(true[~differ].std())
    clear = differ & (np.abs(true) > CLEAR * noise)
    right = np.sign(predicted) == np.sign(true)
    return {
        "checkpoint": "" if name in RULES else card(name).sha256,
        "counters": int((data.column("incumbent_counters") > 0).any((0, 1)).sum()),
        "pairs": int(differ.sum()),
        "right": float(right[differ].mean()),
        "tau": kendall_tau(predicted[differ], true[differ]),
        "clear": int(clear.sum()),
        "clear_right": float(right[clear].mean()),
        "error": float(np.abs(predicted - true)[differ].mean()),
        "unchanged": float(np.abs(true)[differ].mean()),
        "noise": noise,
    }


def _by_agent(name: str) -> Forecast:
    """By the model of an agent."""
    agent = load_agent(name)
    if not isinstance(agent, Surrogate):
        raise DescriptionError(f"forecasts: {name}: has no model of throughput that plans are in")

    def forecast(context: Context, columns: Array) -> Float64Array:
        assert context.snapshot is not None
        agent.use(context.machine)
        counters = observed_counters(context.snapshot)[:, : len(agent.task["counters"])]
        with torch_threads(agent.config.threads):
            worths: Float64Array = agent.planner(counters, columns[0]).worths(columns)
        return worths

    return forecast


def _by_times(times_of: Callable[[Context], Float64Array]) -> Forecast:
    """By the fullest core, for (slices, workers) times."""

    def forecast(context: Context, columns: Array) -> Float64Array:
        times, slices = times_of(context), np.arange(context.slices)
        fullest = [np.bincount(own, times[slices, own]).max() for own in columns]
        worths: Float64Array = -np.log(fullest)
        return worths

    return forecast


def _kept_times(context: Context) -> Float64Array:
    """(slices, workers) each slice's time under the incumbent, on every worker."""
    assert context.snapshot is not None
    times = context.snapshot.counter("elapsed_us")
    return np.repeat(times[:, None], context.machine.workers.size, axis=1)


#: Rules: by the times that best-fit predicts from the counters, and by times that stay as they are.
RULES = {"best-fit": _by_times(predicted_times), "same times": _by_times(_kept_times)}

"""The hardware-offload paper: its numbers beside ours, the models, and agents at work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import pmoss_agents
from pmoss_agents.access_path.base import AccessPathAgent
from pmoss_benchmarks.access_path.measurements import (
    CPU,
    ENGINE_GB_PER_S,
    OFFLOAD,
    PLACES,
    RELAXED,
    Measurements,
    draw_figures,
)
from pmoss_benchmarks.access_path.models import ModelScores, compare
from pmoss_benchmarks.study.function import Cell, Count, Row, Rows, Run
from pmoss_benchmarks.validation.targets import judge
from pmoss_datasets.access_path.scans import (
    AccessPathDataset,
    AccessPathRecipe,
    collect_scans,
)
from pmoss_env.envs.access_path import AccessPathEnv, Background
from pmoss_env.extras import require
from pmoss_env.files import read_toml

FIGURES = Path(__file__).with_suffix(".toml")
#: Combinations of the small calibration at start-up (section 5.3).
SMALL = 40
#: The last digits of a fit depend on the linear algebra of the processor.
TOLERANCES = dict.fromkeys(("models", "statements"), 1e-10)

#: Tables of an agent: its label, name, config, and what it is fitted to first.
ENTRIES: Rows = read_toml(FIGURES, lambda data: data["entry"])


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        combinations: of features, whose scans are simulated.
        repeats: of each.
    """

    combinations: Count = 2048
    repeats: Count = 50


def cells(settings: Settings) -> list[Cell]:
    """The server."""
    return [{"machine": "uv-300h"}]


def measure(run: Run, cell: Cell) -> Row:
    """The whole reproduction.

    Returns:
        ``dataset``, the scans that models and agents learned from and were tested on;
        ``statements``, a published figure each; scores of the ``models`` and of the ``agents``.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    require("sklearn")
    settings = run.settings
    scans = collect_scans(
        AccessPathRecipe(combinations=settings.combinations, repeats=settings.repeats)
    )
    train_on, test_on = scans.split()
    scores = compare(scans.pairs(train_on), scans.pairs(test_on))
    best = min(scores, key=lambda score: score.above_best).model
    ours = {**physical_figures(Measurements()), **model_figures(scores)}
    return {
        "dataset": {"id": scans.id, "checksum": scans.checksum, "observations": len(scans)},
        "statements": judge(FIGURES, ours, best=best),
        "models": [score.as_dict() for score in scores],
        "agents": play(scans),
    }


def physical_figures(m: Measurements) -> dict[str, float]:
    """The paper's figures of scans on its server, by their words in the file."""
    nodes = {"of a node, local": "local", "same blade": "same blade", "other blade": "other blade"}
    bandwidth = {
        words: m.simulated.bandwidth_gb_per_s(0, PLACES[place], workers=15)
        for words, place in nodes.items()
    }
    paths = {"CPU": CPU, "GRU": OFFLOAD}
    idle = [m.gb_per_s(OFFLOAD, place) for place in PLACES]
    engine_busy = Background(0.0, ENGINE_GB_PER_S)
    kept = {
        name: m.gb_per_s(path, "other blade", background=engine_busy)
        / m.gb_per_s(path, "other blade")
        for name, path in paths.items()
    }
    return {
        **{
            f"bandwidth{' ' if words.startswith('of') else ', '}{words}, GB/s": value
            for words, value in bandwidth.items()
        },
        **{f"CPU scan, {place}, GB/s": m.gb_per_s(CPU, place) for place in PLACES},
        **{
            f"GRU scan, {place}, mixed conditions, GB/s": m.mixed_gb_per_s(OFFLOAD, place)
            for place in PLACES
        },
        "GRU scan: fastest place / slowest place, idle": max(idle) / min(idle),
        **{
            f"{name} scan is at full speed from, MB": m.full_speed_mb(path)
            for name, path in paths.items()
        },
        "gain of the GRU, other blade, no results": m.gain(0.0),
        "gain of the GRU, other blade, 30 % of the rows match": m.gain(0.3),
        **{
            f"{name} scan loses to link traffic at worst, GB/s": max(
                loss[path] for loss in m.link_loss.values()
            )
            for name, path in paths.items()
        },
        "GRU scan with an idle engine, GB/s": float(np.mean(idle)),
        **{f"{name} scan keeps under engine traffic, share": share for name, share in kept.items()},
        "scan with relaxed coherence, other blade, GB/s": m.gb_per_s(RELAXED, "other blade"),
    }


def model_figures(scores: Sequence[ModelScores]) -> dict[str, float]:
    """The paper's figures of models that choose a path, by their words in the file."""
    by_name = {score.model: score for score in scores}
    pair, products = by_name["linear pair"], by_name["linear pair, products"]
    best = min(scores, key=lambda score: score.above_best)
    above = "time above the best choice, "
    return {
        **{
            f"R2 of the {name} model{words}": model.r2[path]
            for name, path in (("CPU", "cpu"), ("GRU", "offload"))
            for words, model in (("", pair), (" with products", products))
        },
        **{
            f"{name} of the {words}": getattr(model, name.lower())
            for words, model in (("pair", pair), ("tree", by_name["decision tree"]))
            for name in ("precision", "recall", "F1")
        },
        f"{above}pair": pair.above_best,
        f"{above}pair with products": products.above_best,
        f"{above}best model ({best.model})": best.above_best,
    }


def play(
    dataset: AccessPathDataset,
    episodes: int = 12,
    scans: int = 64,
    entries: Rows = ENTRIES,
) -> list[dict[str, Any]]:
    """Lets agents play the same episodes, one after the other, learning across them.

    Args:
        dataset: the calibration data; agents see its training part.
        episodes: per agent; their seeds are in no dataset.
        scans: per episode.
        entries: which agents, as in ENTRIES.

    Returns:
        For each agent its name, what it was ``fitted_to``, and the number of ``scans``. Of the time
        of all scans over the oracle's minus 1, ``above_oracle``; and ``above_oracle_late``, over
        the second half of the scans, when it has learned.
    """
    train_on, _ = dataset.split()
    small = train_on[:: max(1, len(train_on) // SMALL)][:SMALL]
    lessons = {"all": train_on, f"{SMALL} combinations": small}
    agents = []
    for entry in entries:
        agent = pmoss_agents.make(entry["agent"], **entry.get("config", {}))
        assert isinstance(agent, AccessPathAgent)
        if entry["fitted_to"] in lessons:
            agent.learn(*dataset.pairs(lessons[entry["fitted_to"]]))
        agents.append(agent)
    # A run time does not depend on the paths of other scans: all agents share one look at each.
    took = np.zeros((len(agents), episodes, scans))
    best = np.zeros((episodes, scans))
    env = gymnasium.make("pmoss/AccessPath-v0", scans=scans)
    bare = env.unwrapped
    assert isinstance(bare, AccessPathEnv)
    for agent in agents:
        agent.check_env(env)
    for episode in range(episodes):
        observation, info = env.reset(seed=10_000 + episode)
        for agent in agents:
            agent.reset()
        for scan in range(scans):
            times = bare.path_times_us()
            best[episode, scan] = times.min()
            for number, agent in enumerate(agents):
                path = agent.act(observation, info["action_mask"])
                took[number, episode, scan] = times[path]
                agent.observe(-1e-3 * times[path])
            observation, _, _, _, info = env.step(int(times.argmin()))
    env.close()
    late = slice(episodes // 2, None)
    return [
        {
            "agent": entry["label"],
            "fitted_to": entry["fitted_to"],
            "above_oracle": float(took[n].sum() / best.sum() - 1),
            "above_oracle_late": float(took[n, late].sum() / best[late].sum() - 1),
            "scans": episodes * scans,
        }
        for n, entry in enumerate(entries)
    ]


PLOTS = {"figures": lambda rows: draw_figures(Measurements())}

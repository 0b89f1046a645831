"""What each group of inputs is worth: an agent trained without it on the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.configs import has_config, read_config
from pmoss_datasets import Recipe, collect
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.suite import load_task
from pmoss_env.errors import DescriptionError
from pmoss_env.provenance import provenance
from pmoss_env.result_files import ResultFile

#: Episodes of the evaluation begin here: the data have none of them.
_EVALUATION = 101
#: progress(rows done, rows in all) after each.
Progress = Callable[[int, int], None]


def run_ablation(
    task: str,
    agent: str,
    *,
    changes: Mapping[str, Any] | None = None,
    seeds: int = 2,
    data: int = 200,
    episodes: int = 10,
    search_budget: int = 2000,
    out: Path | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Trains and evaluates an agent with all groups of inputs, and without each of them.

    Args:
        task: a committed one of spatial scheduling.
        agent: an agent whose config has ``inputs`` and that learns from data.
        changes: fields that override its committed config.
        seeds: of training.
        data: episodes of the dataset, of the tier "mixed".
        episodes: of the evaluation, the same for all.
        search_budget: evaluations of the search that scores 100.
        out: rows that this file holds are not made again.
        progress: see Progress.

    Returns:
        Rows with ``without`` (the group that is left out; empty: none), ``seed``, and ``score`` and
        ``throughput`` (Mq/s), means over the episodes.

    Raises:
        DescriptionError: the agent has no groups of inputs, or does not learn from data.
        DatasetError: ``out`` holds rows of other settings.
    """
    config = {**(read_config(agent, task) if has_config(agent) else {}), **(changes or {})}
    config.pop("agent", None)
    probe = pmoss_agents.make(agent, **config)
    if not isinstance(probe, OfflineAgent) or not hasattr(probe.config, "inputs"):
        raise DescriptionError(f"agent = {agent!r}: must learn from data, and have inputs to leave")
    groups = tuple(probe.config.inputs)
    settings = {
        **{"task": task, "agent": agent, "config": config, "data": data},
        **{"episodes": episodes, "search_budget": search_budget},
    }
    header = {"kind": "ablation", **settings, **provenance(["pmoss_benchmarks.spatial.ablation"])}
    wanted = [(group, seed) for group in ("", *groups) for seed in range(seeds)]
    env = dict(load_task(task).env)
    rows: list[dict[str, Any]] = []
    references: dict[int, tuple[float, float]] = {}
    with (
        ResultFile(out, header, key=("without", "seed")) as file,
        TemporaryDirectory() as folder,
    ):
        dataset = None
        for done, (without, seed) in enumerate(wanted, 1):
            row = file.get(without, seed)
            if row is None:
                if dataset is None:
                    recipe = Recipe(env=env, episodes=data, tier="mixed", reference_episodes=0)
                    dataset = collect(recipe, Path(folder) / "data")
                kept = [group for group in groups if group != without]
                learner = pmoss_agents.make(agent, **{**config, "inputs": kept, "seed": seed})
                assert isinstance(learner, OfflineAgent)
                learner.fit(dataset)
                found = evaluate(
                    env,
                    {agent: learner},
                    [_EVALUATION],
                    episodes,
                    search_budget,
                    references=references,
                ).rows
                row = {
                    "without": without,
                    "seed": seed,
                    "score": float(np.mean([one.score for one in found])),
                    "throughput": float(np.mean([one.throughput for one in found])),
                }
                file.append(row)
            rows.append(row)
            if progress is not None:
                progress(done, len(wanted))
    return rows


def summary(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """What was left out, the mean score over the seeds, and what that is below all inputs."""
    groups = list(dict.fromkeys(str(row["without"]) for row in rows))
    means = {
        group: float(np.mean([row["score"] for row in rows if row["without"] == group]))
        for group in groups
    }
    return [(group, means[group], means[""] - means[group]) for group in groups]

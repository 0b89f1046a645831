"""The whole idea in one run: measure, collect, train, place, compare.

First a real B+-tree serves on this host under two schedules. Then an offline dataset is collected
on the model of a 96-core server with busy co-tenants. A surrogate learns from its raw counters what
schedules serve, and plans in what it learned. Its schedules are compared, on incumbents it never
saw, with the papers' schedules, rules and search.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, TypeVar

import numpy as np

from pmoss_agents import OfflineAgent
from pmoss_agents import load as load_agent
from pmoss_agents import make as make_agent
from pmoss_benchmarks.evaluation import EpisodeResult, Summary, aggregate, evaluate, write_results
from pmoss_benchmarks.extras import require
from pmoss_benchmarks.measuring import measure_schedules
from pmoss_benchmarks.provenance import MEASURED, provenance
from pmoss_datasets import Dataset, Recipe, collect, open_dataset
from pmoss_datasets.policies import SchedulePolicy
from pmoss_env.backends import make_backend
from pmoss_env.baselines import make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.viewer import draw_placement
from pmoss_env.errors import PmossError
from pmoss_env.files import write_atomically
from pmoss_env.machines import Machine
from pmoss_env.pictures import new_figure, write_png
from pmoss_env.processes import die_with_parent, interrupts_later
from pmoss_env.types import HardwareSnapshot, Instance, Schedule

T = TypeVar("T")

AGENT = "surrogate"
BASELINES = (
    "random",
    "grouped",
    "spread",
    "mixed",
    "lpt",
    "lpt-capacity",
    "greedy-capacity",
    "best-fit",
    "local-search",
)
#: progress(stage, done, total): called often within each stage of the demo.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    Attributes:
        env_kwargs: the task, arguments of ``pmoss/SpatialScheduling-v0``.
        episodes: of the dataset.
        agent_config: a committed config, or a path.
        agent_changes: fields that override it.
        training_seeds: how many agents are trained; the seeds of the evaluation meet them in turn.
        seeds: of the evaluation; none of them occurs in the dataset.
        episodes_per_seed: incumbents per seed.
        search_budget: model evaluations of local search, as opponent and as score 100.
        host_records: records of the index on this host.
        host_seconds: length of one measurement on this host.
        host_repeats: measurements per schedule.
    """

    env_kwargs: Mapping[str, Any] = field(
        default_factory=lambda: {
            "machine": "skylake-x-8n",
            "workload": "ycsb-a",
            "load": "closed",
            "interference": "busy_core",
            "order": "load",
        }
    )
    episodes: int = 300
    agent_config: str = "surrogate"
    agent_changes: Mapping[str, Any] = field(default_factory=dict)
    training_seeds: int = 3
    seeds: tuple[int, ...] = (101, 102, 103, 104, 105)
    episodes_per_seed: int = 4
    search_budget: int = 2000
    host_records: int = 2_000_000
    host_seconds: float = 1.0
    host_repeats: int = 5


FULL = Plan()
#: Seconds of work on the toy machine: for tests, and to see that everything is installed.
QUICK = Plan(
    env_kwargs={**FULL.env_kwargs, "machine": "toy", "slices": 16},
    episodes=48,
    agent_changes={"updates": 150, "members": 2, "width": 24, "features": 8, "demands": 4},
    training_seeds=2,
    seeds=(101, 102),
    episodes_per_seed=1,
    search_budget=200,
    host_records=50_000,
    host_seconds=0.2,
    host_repeats=2,
)


@dataclass(frozen=True)
class HostResult:
    """Throughputs of one schedule on this host, Mq/s, and its last snapshot."""

    throughputs: tuple[float, ...]
    snapshot: HardwareSnapshot


@dataclass(frozen=True)
class Placement:
    """A schedule as it ran: what the picture draws."""

    machine: Machine
    instance: Instance
    schedule: Schedule
    snapshot: HardwareSnapshot


@dataclass(frozen=True)
class DemoResult:
    """What the demo found, and where it wrote it."""

    host: dict[str, HostResult]
    rows: list[EpisodeResult]
    summaries: list[Summary]
    dataset_mean: float
    dataset_bytes_per_episode: float
    placement: Placement
    seconds: dict[str, float]
    folder: Path


def run_demo(plan: Plan, folder: Path, *, seed: int = 0, progress: Progress) -> DemoResult:
    """Does all of it and writes dataset, agent, results and picture under ``folder``.

    Args:
        plan: how much.
        folder: made if it is not there; what it holds of an earlier demo is replaced.
        seed: of dataset, training and schedules.
        progress: see Progress.
    """
    require("h5py", "matplotlib", "torch")
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], T]) -> T:
        began = perf_counter()
        result = work()
        seconds[stage] = perf_counter() - began
        return result

    host = timed("measure this host", lambda: _measure_host(plan, seed, progress))
    dataset = timed("collect", lambda: _collect(plan, folder / "dataset", seed, progress))
    checkpoints = timed("train", lambda: _train(plan, folder, seed, progress))
    policies: dict[str, Any] = {name: SchedulePolicy(name) for name in BASELINES}
    search = make_baseline("local-search", budget=plan.search_budget)
    policies["local-search"] = SchedulePolicy(search)
    agents = [load_agent(path) for path in checkpoints]
    # The seeds of the evaluation meet the agents in turn: an interval holds both kinds of chance.
    policies[AGENT] = lambda chosen: agents[plan.seeds.index(chosen) % len(agents)]
    evaluation = timed(
        "evaluate",
        lambda: evaluate(
            plan.env_kwargs,
            policies,
            plan.seeds,
            episodes_per_seed=plan.episodes_per_seed,
            search_budget=plan.search_budget,
            progress=lambda done, total: progress("evaluate", done, total),
        ),
    )
    write_results(
        folder / "results.jsonl", evaluation, agent=AGENT, training_seeds=plan.training_seeds
    )
    rows = evaluation.rows
    finals = dataset.column("final_throughput")
    result = DemoResult(
        host=host,
        rows=rows,
        summaries=aggregate(rows),
        dataset_mean=float(np.mean(finals)),
        dataset_bytes_per_episode=_bytes(folder / "dataset") / len(dataset),
        placement=_first_placement(plan, rows),
        seconds=seconds,
        folder=folder,
    )
    draw_demo(result, folder / "demo.png")
    write_atomically(folder / "summary.json", json.dumps(_summary(result, plan), indent=2) + "\n")
    return result


def _measure_host(plan: Plan, seed: int, progress: Progress) -> dict[str, HostResult]:
    stage = "load the index"
    backend = make_backend(
        "hardware",
        machine="host",
        workload="ycsb-a",
        load="closed",
        records=plan.host_records,
        seconds=plan.host_seconds,
        progress=lambda done: progress(stage, done, plan.host_records),
    )
    found: dict[str, list[HardwareSnapshot]] = {}
    for repeat in range(plan.host_repeats):
        snapshots = measure_schedules(backend, ["grouped", "lpt"], seed=seed + 1000 * repeat)
        for name, snapshot in snapshots.items():
            found.setdefault(name, []).append(snapshot)
        progress("measure this host", repeat + 1, plan.host_repeats)
    backend.close()
    return {
        name: HostResult(tuple(s.throughput for s in snapshots), snapshots[-1])
        for name, snapshots in found.items()
    }


def _collect(plan: Plan, path: Path, seed: int, progress: Progress) -> Dataset:
    recipe = Recipe(env=plan.env_kwargs, episodes=plan.episodes, seed=seed, tier="mixed")
    return collect(
        recipe, path, progress=lambda done, total: progress("collect", done, total), overwrite=True
    )


def _train(plan: Plan, folder: Path, seed: int, progress: Progress) -> list[Path]:
    """Trains one agent per training seed, as many at a time as there are cores."""
    context = multiprocessing.get_context("spawn")
    paths = [folder / f"agent-{seed + i}.safetensors" for i in range(plan.training_seeds)]
    settings = {"config_file": plan.agent_config, **plan.agent_changes}
    updates = make_agent(AGENT, **settings).config.updates
    done: Any = context.Array("i", len(paths))
    waiting = [
        context.Process(
            target=_train_one,
            args=(os.getpid(), folder / "dataset", path, {**settings, "seed": seed + i}, done, i),
        )
        for i, path in enumerate(paths)
    ]
    running: list[Any] = []
    try:
        while waiting or running:
            while waiting and len(running) < max(1, len(os.sched_getaffinity(0))):
                with interrupts_later(for_children=True):
                    running.append(waiting.pop(0))
                    running[-1].start()
            sleep(0.1)
            progress("train", sum(done[:]), updates * len(paths))
            for process in [p for p in running if not p.is_alive()]:
                running.remove(process)
                if process.exitcode != 0:
                    raise PmossError(f"a training process ended with status {process.exitcode}")
    finally:
        for process in running:
            process.kill()
            process.join()
    return paths


def _train_one(
    parent: int, dataset: Path, path: Path, settings: dict[str, Any], done: Any, i: int
) -> None:
    die_with_parent(parent)

    def count(finished: int, total: int, metrics: Mapping[str, float]) -> None:
        done[i] = finished

    agent = make_agent(AGENT, **settings)
    assert isinstance(agent, OfflineAgent)
    agent.fit(open_dataset(dataset), progress=count)
    agent.save(path)


def _first_placement(plan: Plan, rows: list[EpisodeResult]) -> Placement:
    """The agent's schedule of the first episode, run again."""
    row = next(row for row in rows if row.policy == AGENT)
    env = SpatialSchedulingEnv(**plan.env_kwargs)
    env.reset(seed=row.env_seed)
    for action in row.actions:
        env.step(action)
    placement = Placement(env.machine, env.instance, env.schedule, env.final_snapshot())
    env.close()
    return placement


def draw_demo(result: DemoResult, path: Path) -> None:
    """Draws throughput per schedule, and the learned placement on the chip."""
    figure = new_figure(13, 5.6, dpi=110)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])

    ordered = sorted(result.summaries, key=lambda summary: summary.throughput)
    values = [summary.throughput for summary in ordered]
    reach = [
        [s.throughput - (s.throughput_low or s.throughput) for s in ordered],
        [(s.throughput_high or s.throughput) - s.throughput for s in ordered],
    ]
    colours = ["#c0504d" if summary.policy == AGENT else "#9aa7b8" for summary in ordered]
    names = [summary.policy for summary in ordered]
    left.barh(names, values, xerr=reach, color=colours, capsize=3, ecolor="#333333")
    left.axvline(result.dataset_mean, color="#555555", linestyle=":", linewidth=1.2)
    left.annotate(
        "mean of the\ntraining data",
        (result.dataset_mean, -0.35),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=8,
    )
    left.set_xlabel("throughput, million queries per second")
    machine = result.placement.machine
    left.set_title(f"{machine.name}: schedules on unseen incumbents\n(mean, 95 % interval)")
    left.spines[["top", "right"]].set_visible(False)

    placement = result.placement
    load = np.bincount(
        placement.schedule.cores,
        weights=placement.snapshot.counter("elapsed_us"),
        minlength=machine.cores,
    ).astype(np.float64)
    title = f"learned placement, {placement.snapshot.throughput:.1f} Mq/s"
    marks = "red triangle: a core that shares its time with another program"
    draw_placement(
        right,
        machine,
        placement.schedule,
        load,
        title,
        "share of time busy",
        highest_load=1.0,
        note=marks if placement.instance.co_tenants else "",
    )
    for co_tenant in placement.instance.co_tenants:
        row, col = divmod(int(machine.tile_of_core[co_tenant.target]), machine.cols)
        right.plot(col + 0.36, row - 0.36, marker="v", color="#d62728", markersize=6)
    write_png(figure, path)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _summary(result: DemoResult, plan: Plan) -> dict[str, Any]:
    return {
        **provenance(["pmoss_benchmarks.demo", "pmoss_agents"], MEASURED),
        "task": dict(plan.env_kwargs),
        "host": {
            name: {
                "throughput_mq_per_s": found.throughputs,
                "roles_share_cores": found.snapshot.provenance["roles_share_cores"],
            }
            for name, found in result.host.items()
        },
        "dataset": {
            "episodes": plan.episodes,
            "mean_throughput_mq_per_s": result.dataset_mean,
            "bytes_per_episode": result.dataset_bytes_per_episode,
        },
        "training_seeds": plan.training_seeds,
        "policies": [asdict(summary) for summary in result.summaries],
        "seconds": result.seconds,
    }

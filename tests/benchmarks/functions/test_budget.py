"""Policies, rules and searches at several numbers of measurements."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("torch")

from pmoss_benchmarks.functions import budget
from pmoss_benchmarks.functions.budget import (
    BUDGETS,
    Settings,
    Work,
    agent_of,
    cells,
    packed,
    unpacked,
)
from pmoss_benchmarks.study.function import Run
from pmoss_datasets.evaluation.statistics import LEAST
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.suite import TOY, recipe_of
from pmoss_env.baselines import Context, lpt, random
from pmoss_env.errors import DatasetError
from pmoss_env.machines import load_machine
from pmoss_env.types import Schedule
from tests.replays import recheck


def best_of_random(context: Context) -> Schedule:
    """LPT, or the best of as many random schedules as may be run."""
    asked = context.measurements
    drawn = [lpt(context), *(random(context) for _ in range(min(asked.left, 5)))]
    return max(drawn, key=asked.throughput) if asked.left > 5 else drawn[0]


AGENTS = {"sampler": best_of_random, "habit": random}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = Settings((TOY,), agents=dict.fromkeys(AGENTS, ""), episodes=2, most=2000)
    folder = tmp_path_factory.mktemp("budget")
    return Run(settings, folder, folder, folder)


@pytest.fixture(scope="module")
def rows(run: Run) -> list[dict[str, Any]]:
    shorter = lambda *words, **options: references(*words, **{**options, "budget": 240})  # noqa: E731
    references = budget.reference_rows
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(budget, "reference_rows", shorter)
        patched.setattr(
            budget, "agent_of", lambda run, cell: SchedulePolicy(AGENTS[cell["policy"]])
        )
        work = Work(run)
        made = [{**cell, **work(cell)} for cell in cells(run.settings)]
        work.close()
    return made


def test_every_policy_is_there_at_every_budget(rows: Any) -> None:
    for row in rows:
        several = "search" in row["policy"] or row["policy"] == "sampler"
        for values in row["throughput"]:
            assert len(values) == (len(BUDGETS) if several else 1)
            if row["policy"] == "sampler":
                assert values[0] == values[2]  # 3 are too few for it
            if "search" in row["policy"] and row["noise"] == 0:
                assert values[1:] == sorted(values[1:])


def test_rows_run_again(run: Run, rows: Any) -> None:
    for row in rows:
        if row["noise"] and row["policy"] in ("lpt", "lpt + search", "sampler"):
            assert recheck(budget, run, row) == []
            row["throughput"][1][-1] += 1
            (line,) = recheck(budget, run, row)
            assert line.startswith("throughput[1][")
            row["throughput"][1][-1] -= 1


def test_means_over_tasks_are_those_of_each_task(rows: Any) -> None:
    noisy = [row for row in rows if row["noise"]]
    twice = noisy + [{**row, "task": "other"} for row in noisy]
    means = budget.means_over_tasks(twice)
    assert means == budget.means_over_tasks(noisy)
    assert len(means["lpt + search"]) == len(BUDGETS)
    lines = budget.TABLES["over tasks"](twice).rows
    # Rules measure nothing: they have no line.
    names = {line[0] for line in lines}
    assert names >= {"best-fit + search", "sampler"} and not names & set(budget.RULES)
    # A policy that did not play all tasks yet has no mean.
    begun = [row for row in twice if (row["task"], row["policy"]) != ("other", "sampler")]
    assert "sampler" not in budget.means_over_tasks(begun)
    assert all(len(line) == 1 + len(BUDGETS) for line in lines)


def test_agents_of_a_few_trainings_have_no_interval(rows: Any) -> None:
    few = [row for row in rows if row["noise"]]
    many = [{**row, "seed": seed} for row in few for seed in range(LEAST)]
    for own, agents_have in ((few, False), (many, True)):
        for name, first, *_ in budget.TABLES["default"](own).rows:
            assert ("[" in first) == (agents_have or name not in AGENTS), name
        (line,) = budget.TABLES["headroom"](own).rows
        assert ["[" in cell for cell in line[2:-1]] == 5 * [True] + 4 * [agents_have]


def test_an_agent_is_found_by_its_file_or_trained(tmp_path: Path) -> None:
    changes = {"updates": 2, "members": 1, "width": 8, "features": 4, "demands": 2}
    agents = {"mine": "pmoss/surrogate-busy-core-v0", "surrogate": ""}
    run = Run(Settings((TOY,), agents=agents, changes=changes), tmp_path, tmp_path, tmp_path)
    cell = {"task": TOY, "seed": 0}
    assert agent_of(run, {**cell, "policy": "mine"}).name == "surrogate"
    with pytest.MonkeyPatch.context() as patched:
        small = replace(recipe_of(f"pmoss/{TOY}/mixed-v0"), episodes=8, reference_episodes=0)
        patched.setattr("pmoss_datasets.suite.recipe_of", lambda id_: small)
        assert agent_of(run, {**cell, "policy": "surrogate"}).config.updates == 2
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_schedules_are_packed_without_loss() -> None:
    machine = load_machine("toy")
    schedule = machine.local_schedule(machine.workers[[0, 2, 1, 2]].astype(np.int32))
    assert unpacked(packed(schedule, machine), machine) == schedule
    for text in ("!", "/w=="):
        with pytest.raises(DatasetError, match="does not fit toy"):
            unpacked(text, machine)

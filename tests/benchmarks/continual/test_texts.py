"""The block about continual scheduling shows what a comparison wrote."""

import json
import shutil
from dataclasses import asdict
from functools import partial

import pytest

from pmoss_benchmarks.cells import Cell, run_cells
from pmoss_benchmarks.continual.games import Entrant, HeadroomOptions
from pmoss_benchmarks.continual.headroom import compare, summary, summary_of_agent
from pmoss_benchmarks.continual.migration import MigrationOptions, measure_cell
from pmoss_benchmarks.texts.continual import CHOSEN
from pmoss_benchmarks.texts.pages import BLOCKS
from pmoss_benchmarks.texts.stored import Stored


@pytest.fixture
def stored(tmp_path):
    folder = tmp_path / "benchmarks" / "results" / "continual"
    folder.mkdir(parents=True)
    env = {"machine": "toy", "slices": 8, "epochs": 2}
    options = HeadroomOptions(env, episodes=2, tuning=1, tuning_epochs=1)
    compare(
        ["jobs"],
        options,
        policies=["stay", "delayed-oracle", "law-oracle"],
        agents=["pmoss_datasets.continual.rules:Interleave"],
        out=folder / "headroom.json",
    )
    yield Stored(tmp_path)
    shutil.rmtree(folder)


def test_every_policy_has_its_row(stored):
    text = BLOCKS["continual-headroom"](stored)
    assert "`jobs`, 2 paired episodes." in text
    assert "| stay |" in text and "| law-oracle |" in text and "100.0 [100.0, 100.0]" in text
    assert "On this model the law oracle serves " in text and "more than `stay`: " in text
    assert "headroom.json" in text
    assert "| Interleave |" in text and "`Interleave` closes " in text


def test_every_task_has_its_verdict(stored):
    text = BLOCKS["continual-tasks"](stored)
    assert "| `jobs`, on toy | stay | 2 | " in text
    assert "| yes |" in text or "| no: " in text


def test_a_report_of_an_environment_of_another_version_says_so(stored):
    path = stored.folder / "continual" / "headroom.json"
    elder = {**stored["continual/headroom.json"], "env_id": "pmoss/ContinualScheduling-v0"}
    path.write_text(json.dumps(elder))
    mark = "(still of `pmoss/ContinualScheduling-v0`)"
    for block in ("continual-headroom", "continual-tasks"):
        assert mark not in BLOCKS[block](stored)
        assert mark in BLOCKS[block](Stored(stored.root))
    assert "No agent has played" in BLOCKS["continual-agents"](Stored(stored.root))
    path.write_text(json.dumps({k: v for k, v in elder.items() if k != "env_id"}))
    assert mark in BLOCKS["continual-tasks"](Stored(stored.root))


def test_agents_stand_beside_every_opponent(stored, tmp_path):
    served = {
        "stay": [4.0, 4.5],
        "planner": [8.0, 8.0],
        "delayed-oracle": [9.0, 9.0],
        "law-oracle": [10.0, 10.0],
        "thorough-law-oracle": [12.0, 12.0],
    }
    task = summary("jobs", {name: {} for name in served}, served)
    entrant = Entrant(CHOSEN[0], "learner.safetensors", "")
    task["agents"][CHOSEN[0]] = summary_of_agent(task, entrant, [9.0, 9.5], ["", ""])
    report = stored["continual/headroom.json"] | {"tasks": [task]}
    (stored.folder / "continual" / "headroom.json").write_text(json.dumps(report))
    text = BLOCKS["continual-agents"](Stored(tmp_path))
    assert f"| policy | `jobs`, on toy: `{CHOSEN[0]}` |" in text
    assert "| stay | 5.0 [5.0, 5.0] |" in text and "| planner | 1.2 [1.0, 1.5] |" in text
    assert "On 1 the agent serves more" in text
    assert "On 1 of these it closes half or more of the gap to the law oracle.\n\n- `jobs`" in text
    assert text.endswith("Of the gap to the thorough law oracle, it closes half or more on 0.")
    rows = BLOCKS["continual-tasks"](Stored(tmp_path))
    assert "| 25.0 [25.0, 25.0] | 50.0 [50.0, 50.0] | yes |" in rows
    assert f"| `jobs`, on toy | {CHOSEN[0]} | 62.5 [50.0, 75.0] | 31.2 [25.0, 37.5] |" in rows


def test_the_simulator_stands_beside_the_model(stored):
    folder = stored.folder / "continual" / "simulated"
    folder.mkdir()
    env = {"machine": "toy", "slices": 8, "epochs": 2}
    options = HeadroomOptions(env, episodes=2, tuning=1, tuning_epochs=1)
    policies = ["stay", "interleave", "law-oracle"]
    compare(["jobs"], options, policies=policies, out=folder / "jobs.json")
    text = BLOCKS["continual-simulated"](stored)
    assert "| `jobs`, on toy | 2 of 2 epochs | " in text
    assert "| policy | `jobs`, on toy |" in text and "| interleave | " in text
    assert "| law-oracle | 100.0 [100.0, 100.0] |" in text
    assert "by the model and by the simulator on " in text
    assert "continual/simulated`." in text and "```console\n$ " in text


def test_online_learners_stand_apart_from_the_standard_tasks(stored):
    text = BLOCKS["continual-tasks"](stored)
    folder = stored.folder / "continual" / "online"
    folder.mkdir()
    served = {"stay": [4.0, 4.0, 4.0], "law-oracle": [8.0, 8.0, 8.0]}
    task = summary("jobs", {name: {} for name in served}, served)
    for name, outcomes in (("good", [5.0, 5.0, 5.5]), ("poor", [3.0, 3.5, 3.0])):
        entrant = Entrant(name, f"{name}.safetensors", "")
        task["agents"][name] = summary_of_agent(task, entrant, outcomes, ["", "", ""])
    task["agents"]["equal"] = task["agents"]["good"] | {"outcomes": [3.5, 4.0, 4.5]}
    report = stored["continual/headroom.json"] | {"tasks": [task]}
    (folder / "toy.json").write_text(json.dumps(report))
    shown = BLOCKS["continual-online"](Stored(stored.root))
    assert "`jobs`, on toy, 8 slices, 2 paired episodes." in shown
    assert "| good | 5 |" in shown and "| law-oracle | 8 |" in shown
    assert "- `good` serves 29.2 [25.0, 37.5] % beyond `stay`, the best opponent: ahead." in shown
    assert "- `poor` serves -20.8 [-25.0, -12.5] % beyond" in shown and ": behind." in shown
    assert "`stay`, the best opponent: neither ahead nor behind." in shown
    assert BLOCKS["continual-tasks"](Stored(stored.root)) == text


def test_the_card_of_migration_tells_what_is_missed(stored):
    options = MigrationOptions(trials=1, pairs=1, record_bytes=1.0, queries=100_000, slices=8)
    run_cells(
        partial(measure_cell, options),
        [Cell("toy", "btree", "lookups")],
        settings=asdict(options),
        command="pmoss benchmark migration",
        out=stored.folder / "migration.json",
    )
    text = BLOCKS["migration"](stored)
    assert "| toy | none | " in text and "Each row holds 1 trial, under closed load." in text
    assert "In each 2 slices of 8 go to other nodes" in text
    assert "Wanted are at most 10 % of error" in text and "Missed: " in text

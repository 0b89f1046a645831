"""Trainings of one agent on other data or inputs: what it learned from, and what it meets."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import pmoss_agents
from pmoss_agents import pretrained
from pmoss_benchmarks.functions import trainings
from pmoss_benchmarks.functions.trainings import (
    TABLES,
    Settings,
    Training,
    Work,
    cells,
    prepare,
    summarise,
)
from pmoss_benchmarks.offline import unseen
from pmoss_benchmarks.study.function import Run, settings_of
from pmoss_datasets.suite import SHIPPED_ROOT, TOY
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.measuring import AUTO_NUMA as LINUX
from tests.replays import recheck

SMALL = {"members": 1, "updates": 2, "width": 8, "features": 4, "demands": 2, "rounds": 1}
FEW = {"data": 6, "episodes": 2, "budget": 20, "changes": SMALL}


def _work(settings: Settings, keep: Path) -> tuple[Run, list[dict[str, Any]]]:
    run = Run(settings, SHIPPED_ROOT, keep, keep)
    prepare(run, lambda *_: None)
    work = Work(run)
    return run, [{**cell, **work(cell)} for cell in cells(settings)]


def test_a_checkpoint_is_trained_once_and_plays_beside_all_rules(tmp_path, monkeypatch):
    trained = {"tasks": Training(), "more": Training(("random:4000",))}
    played = {"tracks": ("same-task", "interference"), "rules": ("lpt", "best-fit")}
    settings = Settings(trained, learned=(TOY,), tasks=(TOY,), **played, **FEW)
    run, rows = _work(settings, tmp_path)
    assert [row["learned"] for row in rows] == [True, False, True, False]
    assert rows[1]["env"]["interference"] == "all"
    assert all(set(row["rules"]) == {"lpt", "best-fit"} for row in rows)
    assert all(len(row["policies"]["surrogate"]["scores"]) == 2 for row in rows)
    # Other data are another checkpoint, and what was trained before is trained no more.
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    monkeypatch.setattr("pmoss_agents.trainer.train", None)
    prepare(run, lambda *_: None)
    _checked(run, rows)
    summary = summarise({}, rows)
    assert {name: kind["worlds"] for name, kind in summary["kinds"].items()} == {
        "learned": 1,
        "interference": 1,
    }
    means = [row["policies"]["surrogate"]["score"] for row in rows[:2]]
    assert summary["scores"]["tasks"] == pytest.approx(sum(means) / 2)


def test_an_agent_that_ships_plays_as_it_is(tmp_path: Path) -> None:
    shipped = Training(shipped="pmoss/generalist-v1")
    settings = Settings(
        {"at once": shipped}, agent="generalist", tasks=(TOY,), rules=("lpt", LINUX), **FEW
    )
    run, (row,) = _work(settings, tmp_path)
    assert row["checkpoint"] == pretrained.card("pmoss/generalist-v1").sha256
    assert list(row["policies"]) == ["generalist"] and not row["learned"]
    # What places no slice is no rule to beat.
    ahead = {**row["rules"], LINUX: {**row["rules"][LINUX], "score": 1000.0}}
    assert unseen.best_rule({**row, "rules": ahead}) == "lpt"
    assert not list(tmp_path.glob("*.safetensors")) and recheck(trainings, run, row) == []


def test_weights_in_the_folder_of_checkpoints_play_as_they_are(tmp_path: Path) -> None:
    card = pretrained.card("pmoss/generalist-v1")
    shutil.copy(pretrained.find(card.name), tmp_path / "mine.safetensors")
    settings = Settings({"mine": Training(shipped="mine.safetensors")}, tasks=(TOY,), **FEW)
    _, (row,) = _work(settings, tmp_path)
    assert (row["checkpoint"], row["updates"]) == (card.sha256, card.updates)
    assert list(row["policies"]) == ["generalist"] and not row["learned"]


def _checked(run: Run, rows: list[dict[str, Any]]) -> None:
    assert recheck(trainings, run, rows[0]) == []
    rules = {**rows[0]["rules"], "lpt": {**rows[0]["rules"]["lpt"], "score": 1.5}}
    (line,) = recheck(trainings, run, {**rows[0], "rules": rules})
    assert line.startswith("rules.lpt.score: stored 1.5, now ")


def test_a_network_is_fine_tuned_on_the_machine_that_was_left_out(tmp_path: Path) -> None:
    network = {"layers": 1, "heads": 1, "width": 8, "channels": 4, "batch_size": 2, "updates": 2}
    others = ("rome-7302", "random:1", "toy")
    settings = Settings(
        {
            "others": Training(others),
            "tuned": Training(others, own=4, own_changes={"updates": 1}),
            "alone": Training(own=4),
            "at once": Training(shipped="pmoss/generalist-v1"),
        },
        agent="decision-transformer",
        machines=("random:1",),
        slices=16,
        rules=("lpt",),
        **{**FEW, "changes": {**network, "rows": 4, "cols": 8}},
    )
    _, rows = _work(settings, tmp_path)
    # The others' network, that of its own episodes alone, and the first one fine-tuned.
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    agents = [next(iter(row["policies"])) for row in rows]
    assert agents == ["decision-transformer"] * 3 + ["generalist"]
    assert rows[0]["env"]["slices"] == 16
    (line,) = TABLES["worlds"](rows).rows
    # No rule here leaves the slices to all workers: nothing is compared with Linux.
    assert len(line) == 5 + 2 * 4


def test_the_machine_that_is_met_is_in_no_data(tmp_path: Path) -> None:
    others = {"others": Training(("toy", "random:3", "random:1000"))}
    settings = Settings(others, machines=("toy",), rules=("lpt",), measurements=2, **FEW)
    _, (row,) = _work(settings, tmp_path)
    collected = {path.parent.name for path in tmp_path.glob("data-6/pmoss/*/mixed-v0")}
    assert collected == {"random-3-btree-ycsb-a", "random-1000-btree-ycsb-a"}
    assert list(row["policies"]) == ["surrogate", "best-fit + search, 2", "surrogate, 2"]
    (line,) = TABLES["default"]([row]).rows
    assert line[0] == "toy" and line[-1].endswith(" over lpt")


def test_machines_have_workloads_in_turn_and_are_played_under_each_condition(tmp_path):
    trained = {"at once": Training(shipped="pmoss/generalist-v1")}
    worlds = {"machines": ("toy", "random:3"), "workloads": ("ycsb-a", "scans")}
    worlds |= {"conditions": {"as it is": {}, "noise": {"noise": 1.0}}, "episodes": 2, "budget": 20}
    settings = Settings(trained, agent="generalist", rules=("lpt",), **worlds)
    run, rows = _work(settings, tmp_path)
    assert [row["env"]["workload"] for row in rows] == ["ycsb-a", "scans"] * 2
    assert [row["env"].get("noise") for row in rows] == [None, None, 1.0, 1.0]
    assert recheck(trainings, run, rows[3]) == []
    lines = TABLES["conditions"](rows).rows
    assert [line[:2] for line in lines] == [["as it is", "2"], ["noise", "2"]]


def test_its_own_episodes_are_of_the_workload_that_is_played(tmp_path: Path) -> None:
    worlds = {"machines": ("toy", "random:3"), "workloads": ("ycsb-a", "scans")}
    settings = Settings({"alone": Training(own=4)}, **worlds, **FEW)
    run = Run(settings, SHIPPED_ROOT, tmp_path, tmp_path)
    prepare(run, lambda *_: None)
    played = [trainings.world_of(settings, cell) for cell in cells(settings)]
    assert [env["workload"] for env in played] == ["ycsb-a", "scans"]
    collected = {path.parent.name for path in tmp_path.glob("data-4/pmoss/*/mixed-v0")}
    assert collected == {"toy-btree-ycsb-a", "random-3-btree-scans"}


def test_inputs_are_left_out_of_the_agent_that_plays(tmp_path: Path) -> None:
    slices = Training(("toy",), changes={"inputs": ["slice"]})
    left = {"nothing": Training(("toy",)), "core": slices}
    run, rows = _work(Settings(left, tasks=(TOY,), interference=("busy_core",), **FEW), tmp_path)
    agents = [pmoss_agents.load(trainings._checkpoint(run, row)) for row in rows]
    assert agents[1].config.inputs == ("slice",) != agents[0].config.inputs
    # No rule played: the agent is trained again.
    assert recheck(trainings, run, rows[1]) == []
    scores = summarise({}, rows)["scores"]
    assert scores == {row["training"]: row["policies"]["surrogate"]["score"] for row in rows}
    assert not summarise({}, rows)["kinds"]


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no-task"):
        Settings({"one": Training()}, learned=("no-task",))
    with pytest.raises(DescriptionError, match="training 'one': has no data"):
        Settings({"one": Training(("toy",))}, machines=("toy",))
    with pytest.raises(DescriptionError, match=r"own = 4: .* and no tasks"):
        Settings({"one": Training(own=4)}, tasks=(TOY,))
    with pytest.raises(DescriptionError, match="settings: episodes = 0: must be at least 1"):
        settings_of(trainings, {"trainings": {}, "episodes": 0})

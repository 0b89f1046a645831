"""Headroom of continual scheduling: tuning apart, pairing, agents that play along, replay."""

from pathlib import Path

import pytest

from pmoss_benchmarks.functions import continual
from pmoss_benchmarks.functions.continual import GRIDS, TUNING_SEED, Settings, Work, cells
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import StoredStudy, file_of
from pmoss_datasets.continual.domain import POLICIES
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from tests.benchmarks.study.run_line import RUN_LINE
from tests.replays import recheck

ENV = {"machine": "toy", "slices": 8, "epochs": 3, "moves_per_epoch": 2, "noise": 1.0}
#: A policy by its path plays along as an agent would.
AGENT = "pmoss_datasets.continual.rules:Interleave"
SMALL = {"env": ENV, "episodes": 3, "tuning": 1, "tuning_epochs": 2}
FEW = ("stay", "planner", "law-oracle")


def run_of(tmp_path: Path, **settings: object) -> Run:
    return Run(Settings(**{**SMALL, **settings}), tmp_path, tmp_path, tmp_path)


def rows_of(run: Run) -> list[dict]:
    work = Work(run)
    rows = [{**cell, **work(cell)} for cell in cells(run.settings)]
    work.close()
    return rows


def test_every_opponent_of_the_domain_is_compared() -> None:
    assert {name.replace("often", "10") for name in GRIDS} == set(POLICIES)


def test_policies_are_tuned_apart_and_all_meet_the_same_episodes(tmp_path, monkeypatch) -> None:
    played = []
    play = Work._play

    def watched(work, policy, seed):
        played.append(seed)
        return play(work, policy, seed)

    monkeypatch.setattr(Work, "_play", watched)
    run = run_of(tmp_path, policies=FEW, agents=(AGENT,))
    rows = rows_of(run)
    tuned = [seed for seed in played if seed >= TUNING_SEED]
    assert len(tuned) == len(GRIDS["planner"]) + len(GRIDS["law-oracle"])
    assert sorted(set(played) - set(tuned)) == [0, 1, 2]
    assert [row["policy"] for row in rows] == [*FEW, "Interleave"]
    monkeypatch.undo()
    # A policy that plays along serves what the rule of the same name serves.
    (rule,) = (row for row in rows_of(run_of(tmp_path)) if row["policy"] == "interleave")
    assert rows[-1]["outcomes"] == rule["outcomes"]
    for row in rows:
        assert recheck(continual, run, row) == []
        row["outcomes"][1] += 1.0
        (line,) = recheck(continual, run, row)
        assert line.startswith("outcomes[1]: stored")


def test_parameters_of_another_study_are_taken(tmp_path) -> None:
    first = rows_of(run_of(tmp_path, policies=FEW))
    first[1]["parameters"] = {"price": 0.1}
    rows = [{"cell": row["policy"], "run": "x", **row} for row in first]
    StoredStudy(file_of(tmp_path, "first"), "first", {}, ["policy"], {"x": RUN_LINE}, rows).write()
    again = rows_of(run_of(tmp_path, policies=FEW, tuned_by="first"))
    assert again[1]["parameters"] == {"price": 0.1}


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"policies": ("plan",)}, UnknownNameError, "planner"),
        ({"policies": ("planner",)}, DescriptionError, "law-oracle and an opponent"),
        ({"env": {"backend": "hardware"}}, UnsupportedError, "backend = 'hardware'"),
        ({"agents": ("a/x.safetensors", "b/x.safetensors")}, DescriptionError, "x: the name"),
    ],
)
def test_what_allows_no_comparison_is_named(tmp_path, settings, error, words) -> None:
    with pytest.raises(error, match=words):
        run_of(tmp_path, **settings)


def test_what_the_environment_refuses_is_named_before_any_game(tmp_path) -> None:
    with pytest.raises(DescriptionError, match="epochs = 0"):
        Work(run_of(tmp_path, env={**ENV, "epochs": 0}))

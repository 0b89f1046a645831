"""Headroom of continual scheduling: tuning, pairing, and going on after a stop."""

import json

import pytest

from pmoss_benchmarks.continual import headroom
from pmoss_benchmarks.continual.headroom import (
    GRIDS,
    TUNING_SEED,
    Game,
    Games,
    HeadroomOptions,
    compare,
    summary,
)
from pmoss_datasets.continual.domain import ORACLES, POLICIES
from pmoss_env.errors import DescriptionError, UnknownNameError

ENV = {"machine": "toy", "slices": 8, "epochs": 3, "moves_per_epoch": 2, "noise": 1.0}
OPTIONS = HeadroomOptions(ENV, episodes=3, tuning=1, tuning_epochs=2)
FEW = ["stay", "planner", "law-oracle"]


def test_every_opponent_of_the_domain_is_compared():
    compared = {name.replace("often", "10") for name in GRIDS}
    assert compared == set(POLICIES)


def test_policies_are_tuned_apart_from_the_episodes_that_are_compared(tmp_path, monkeypatch):
    played = []

    class Watched(Games):
        def __call__(self, game):
            played.append(game)
            return super().__call__(game)

    monkeypatch.setattr(headroom, "Games", Watched)
    (task,) = compare(["jobs"], OPTIONS, policies=FEW, out=tmp_path / "r.json")
    tuned = [game for game in played if game.seed >= TUNING_SEED]
    assert {(g.policy, g.choice) for g in tuned} == {
        (name, choice) for name in ("planner", "law-oracle") for choice in range(3)
    }
    compared = [game for game in played if game.seed < TUNING_SEED]
    assert sorted({g.seed for g in compared}) == [0, 1, 2] and len(compared) == 9
    assert set(task["policies"]) == set(FEW) and task["best"] not in ORACLES
    stored = json.loads((tmp_path / "r.json").read_text())
    assert stored["tasks"] == [json.loads(json.dumps(task))] and stored["code"]["digests"]
    assert list(tmp_path.iterdir()) == [tmp_path / "r.json"]
    monkeypatch.undo()
    (again,) = compare(["jobs"], OPTIONS, policies=FEW, processes=2)
    assert again == task


def test_the_same_call_goes_on_after_a_stop(tmp_path):
    out, seen = tmp_path / "r.json", []

    def stop(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(["jobs"], OPTIONS, policies=FEW, out=out, progress=stop)
    compare(["jobs"], OPTIONS, policies=FEW, out=out, progress=lambda *told: seen.append(told))
    assert seen[0] == (5, 15) and seen[-1] == (15, 15)


def test_headroom_is_what_the_best_opponent_leaves_to_the_law():
    task = summary(
        "jobs",
        {name: {} for name in (*FEW, "now-oracle")},
        {
            "stay": [50.0, 50.0],
            "planner": [80.0, 90.0],
            "law-oracle": [100.0, 99.0],
            "now-oracle": [110.0, 110.0],
        },
    )
    assert task["best"] == "planner" and task["standard"]
    assert task["headroom"]["value"] == pytest.approx((0.25 + 0.1) / 2)
    assert task["policies"]["stay"]["share_of_law"]["value"] == pytest.approx(0.5025, abs=1e-3)
    assert task["policies"]["law-oracle"]["beyond_best"]["value"] == pytest.approx(14.5)


def test_what_allows_no_comparison_is_named():
    with pytest.raises(UnknownNameError, match="jobs"):
        compare(["job"], OPTIONS)
    with pytest.raises(UnknownNameError, match="planner"):
        compare(["jobs"], OPTIONS, policies=["plan"])
    with pytest.raises(DescriptionError, match="law-oracle and an opponent"):
        compare(["jobs"], OPTIONS, policies=["planner"])
    with pytest.raises(DescriptionError, match="episodes = 0"):
        HeadroomOptions(ENV, episodes=0)
    assert Game("jobs", "stay", 0, 3).name == "jobs/stay/0/3"

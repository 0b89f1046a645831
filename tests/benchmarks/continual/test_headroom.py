"""Headroom of continual scheduling: tuning, pairing, and going on after a stop."""

import json

import pytest

from pmoss_benchmarks.continual import headroom
from pmoss_benchmarks.continual.games import (
    GRIDS,
    TUNING_SEED,
    Entrant,
    Game,
    Games,
    HeadroomOptions,
)
from pmoss_benchmarks.continual.headroom import compare, summary, summary_of_agent
from pmoss_benchmarks.continual.replay import recheck
from pmoss_datasets.continual.domain import ORACLES, POLICIES
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError, UnsupportedError

ENV = {"machine": "toy", "slices": 8, "epochs": 3, "moves_per_epoch": 2, "noise": 1.0}
OPTIONS = HeadroomOptions(ENV, episodes=3, tuning=1, tuning_epochs=2)
FEW = ["stay", "planner", "law-oracle"]
#: A policy by its path plays along as an agent would.
AGENT = "pmoss_datasets.continual.rules:Interleave"


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
        (name, choice) for name in ("planner", "law-oracle") for choice in range(len(GRIDS[name]))
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
    games = len(GRIDS["planner"]) + len(GRIDS["law-oracle"]) + 9
    assert seen[0] == (5, games) and seen[-1] == (games, games)


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
    with pytest.raises(UnsupportedError, match=r"backend = 'hardware'.*pmoss benchmark autopilot"):
        HeadroomOptions({"backend": "hardware", "noise": 1.0})
    with pytest.raises(DescriptionError, match="episodes = 0"):
        HeadroomOptions(ENV, episodes=0)
    with pytest.raises(DescriptionError, match="-e drift=ramps: families of drift are named by"):
        HeadroomOptions({**ENV, "drift": "ramps"})
    assert Game("jobs", "stay", 0, 3).name == "jobs/stay/0/3"


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"epochs": 0}, "epochs = 0"),
        ({"epochs": "x"}, "epochs = 'x'"),
        ({"drift_options": {"count": 0}}, "count = 0"),
    ],
)
def test_what_the_environment_refuses_is_told_before_any_game(tmp_path, monkeypatch, env, named):
    monkeypatch.setattr(headroom, "Games", lambda *_: pytest.fail("a game is played"))
    options = HeadroomOptions({**ENV, **env}, episodes=1, tuning=1)
    with pytest.raises(DescriptionError, match=named):
        compare(["jobs"], options, out=tmp_path / "r.json")
    assert not list(tmp_path.iterdir())


def test_agents_play_along_and_are_no_opponents(tmp_path):
    out = tmp_path / "r.json"
    (task,) = compare(["jobs"], OPTIONS, policies=FEW, agents=[AGENT], out=out)
    assert set(task["policies"]) == set(FEW) and set(task["agents"]) == {"Interleave"}
    row = task["agents"]["Interleave"]
    (other,) = compare(["jobs"], OPTIONS, policies=["interleave", "law-oracle"])
    assert row["outcomes"] == other["policies"]["interleave"]["outcomes"]
    assert recheck(out, 2) == []
    report = json.loads(out.read_text())
    stored = report["tasks"][0]
    stored["agents"]["Interleave"]["outcomes"][0] += 1.0
    stored["policies"]["stay"]["outcomes"][0] += 1.0
    out.write_text(json.dumps(report))
    found = "\n".join(recheck(out, 1))
    assert "jobs, stay, seed 0: recorded" in found and "Interleave, seed 0: recorded" in found
    assert "policies: is not what the outcomes come to" in found
    for env_id in ({"env_id": "pmoss/ContinualScheduling-v0"}, {}):
        elder = {key: value for key, value in report.items() if key != "env_id"} | env_id
        out.write_text(json.dumps(elder))
        with pytest.raises(DatasetError, match="Scheduling-v0, whose episodes have other bits"):
            recheck(out, 1)
    out.write_text("{}")
    with pytest.raises(DatasetError, match="no report"):
        recheck(out, 1)


def test_the_gap_is_what_lies_between_the_best_opponent_and_the_law():
    task = summary(
        "jobs",
        {"stay": {}, "planner": {}, "law-oracle": {}},
        {"stay": [50.0, 50.0], "planner": [80.0, 90.0], "law-oracle": [100.0, 100.0]},
    )
    row = summary_of_agent(task, Entrant("mine", "mine", ""), [90.0, 95.0], ["1 2", "3"])
    assert row["gap_closed"]["value"] == pytest.approx(0.5)
    assert row["beyond_best"]["value"] == pytest.approx(7.5)
    assert row["actions"] == ["1 2", "3"]


@pytest.mark.parametrize("option", ["tuned", "keep"])
@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "cannot be read: No such file or directory"), ("{", "(does not tell|is no report)")],
)
def test_files_that_are_no_reports_are_told_in_a_sentence(tmp_path, option, text, told):
    path = tmp_path / "missing.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DatasetError, match=rf"missing\.json: {told}.*; name a report") as refused:
        compare(["jobs"], OPTIONS, policies=FEW, **{option: path})
    assert "Error(" not in str(refused.value)


def test_another_checkpoint_of_the_same_name_plays_anew(tmp_path):
    path = tmp_path / "mine.safetensors"
    keys = set()
    for content in (b"one", b"two"):
        path.write_bytes(content)
        keys.add(Entrant.of(str(path)).key)
    assert len(keys) == 2 and {key.partition("@")[0] for key in keys} == {"mine"}
    with pytest.raises(DescriptionError, match="planner: the name is taken"):
        compare(["jobs"], OPTIONS, agents=[str(tmp_path / "planner.safetensors")])


def test_policies_as_they_were_tuned_elsewhere(tmp_path):
    (task,) = compare(["jobs"], OPTIONS, policies=FEW, out=tmp_path / "model.json")
    longer = HeadroomOptions({**ENV, "epochs": 4}, episodes=2)
    (same,) = compare(["jobs"], longer, policies=FEW, tuned=tmp_path / "model.json")
    for name in FEW:
        assert same["policies"][name]["parameters"] == task["policies"][name]["parameters"]
    with pytest.raises(DatasetError, match="repair are tuned for jobs"):
        compare(["jobs"], OPTIONS, policies=[*FEW, "repair"], tuned=tmp_path / "model.json")
    with pytest.raises(DatasetError, match=r"none\.json: cannot be read: No such file"):
        compare(["jobs"], OPTIONS, policies=FEW, tuned=tmp_path / "none.json")


def test_rows_of_a_report_are_kept_and_only_what_it_lacks_is_played(tmp_path, monkeypatch):
    played, old, new = [], tmp_path / "old.json", tmp_path / "new.json"
    compare(["jobs"], OPTIONS, policies=FEW, agents=[AGENT], out=old)

    class Watched(Games):
        def __call__(self, game):
            played.append(game.policy)
            return super().__call__(game)

    monkeypatch.setattr(headroom, "Games", Watched)
    wanted = ["thorough-law-oracle"]
    (task,) = compare(["jobs"], OPTIONS, policies=wanted, keep=old, out=new)
    assert set(played) == set(wanted)
    assert set(task["policies"]) == {*FEW, *wanted} and set(task["agents"]) == {"Interleave"}
    before = json.loads(old.read_text())["tasks"][0]
    assert all(before["policies"][name] == task["policies"][name] for name in FEW)
    row = task["agents"]["Interleave"]
    assert row["outcomes"] == before["agents"]["Interleave"]["outcomes"]
    bound, best = (
        sum(task["policies"][name]["outcomes"]) for name in ("thorough-law-oracle", task["best"])
    )
    closed = (sum(row["outcomes"]) - best) / (bound - best)
    assert row["gap_closed_to_thorough"]["value"] == pytest.approx(closed)
    assert recheck(new, 1) == []
    reports = [json.loads(path.read_text()) for path in (old, new)]
    assert "kept_commands" not in reports[0]
    assert reports[1]["kept_commands"] == [reports[0]["command"]]
    # Nothing says that the code behind a word is as it was.
    played.clear()
    compare(["jobs"], OPTIONS, policies=FEW, agents=[AGENT], keep=old)
    assert set(played) == {Entrant.of(AGENT).key}
    other = HeadroomOptions({**ENV, "epochs": 4}, episodes=3, tuning=1, tuning_epochs=2)
    for options, drifts, match in (
        (other, ["jobs"], "without `--keep`"),
        (OPTIONS, ["ramps"], "no report of .* about ramps; name a report of .* same drifts"),
    ):
        with pytest.raises(DatasetError, match=match):
            compare(drifts, options, policies=FEW, keep=old)


def test_a_report_that_was_forged_or_cut_is_refused(tmp_path):
    path = tmp_path / "r.json"
    compare(["jobs"], OPTIONS, policies=FEW, out=path)
    text = path.read_text()
    for outcomes, match in (
        (["z"] * 3, "outcome 'z': must be a finite number"),
        ([1.0, float("nan"), 1.0], "outcome nan"),
        ([float("inf")] * 3, "outcome inf"),
        ([True] * 3, "outcome True"),
        ([1.0], "no report"),
        ([1e9] * 3, "stay: mean .* is not that of its outcomes, 1000000000.0"),
    ):
        report = json.loads(text)
        report["tasks"][0]["policies"]["stay"]["outcomes"] = outcomes
        path.write_text(json.dumps(report))
        with pytest.raises(DatasetError, match=match):
            compare(["jobs"], OPTIONS, policies=FEW, keep=path)
    path.write_text(json.dumps(json.loads(text) | {"format": 99}))
    with pytest.raises(DatasetError, match="format 99"):
        compare(["jobs"], OPTIONS, policies=FEW, keep=path)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(DatasetError, match=r"r\.json: is no report .*line \d+ column \d+"):
        compare(["jobs"], OPTIONS, policies=FEW, keep=path)

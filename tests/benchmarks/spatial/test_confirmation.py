"""Rows of the offline benchmark, measured again on the simulated server."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgspec")

from pmoss_benchmarks.offline import episodes
from pmoss_benchmarks.spatial.confirmation import (
    ConfirmationOptions,
    read_tasks,
    recheck,
    run_confirmation,
)
from pmoss_benchmarks.spatial.confirmation import rows as confirmed_rows
from pmoss_benchmarks.spatial.confirmation.summary import summarise, verdict
from pmoss_benchmarks.study.store import read_stored, write_stored
from pmoss_benchmarks.texts.confirmation import confirmed
from pmoss_datasets.evaluation import evaluate, unpack_actions
from pmoss_datasets.evaluation.statistics import Difference, spearman
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.suite import TOY, load_task
from pmoss_env.backends import make_backend
from pmoss_env.baselines import make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError, UnsupportedError
from tests.cli.invoking import pmoss

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
QUICK = ConfirmationOptions(queries=20_000, line_sampling=8, finer=1)
#: As if it had learned to spread.
AGENT = "surrogate"


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The toy's arguments, with so few records that an index is built at once."""
    path = tmp_path_factory.mktemp("workloads") / "few.toml"
    preset = files("pmoss_env") / "workloads" / "presets" / "ycsb-a.toml"
    path.write_text(preset.read_text().replace("records = 30000000", "records = 30000"))
    return {**load_task(TOY).env, "workload": str(path)}


@pytest.fixture(scope="module")
def played(env, tmp_path_factory):
    """Rows of three episodes; agents of two trainings, in a world with few records."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with pytest.MonkeyPatch.context() as patched:
        for module in (episodes, confirmed_rows):
            patched.setattr(module, "world_of", lambda row: env)
        write_played(env, path)
        yield path


def write_played(env, path, lacking=()):
    lines = []
    for seed in (0, 1):
        for name, rule in {
            **{name: name for name in ("random", "lpt", "best-fit", "mixed", "local-search")},
            AGENT: "spread",
        }.items():
            if seed and name != AGENT:
                continue
            policies = {name: SchedulePolicy(make_baseline(rule, **_BUDGET.get(rule, {})))}
            rows = evaluate(env, policies, [101 + seed], 3, 40, 5).rows
            rows = [] if name in lacking else rows
            cell = {"track": "same-task", "task": TOY, "policy": name, "seed": seed}
            learned = {"training": {}} if name == AGENT else {}
            packed = episodes.pack(rows, actions=name == AGENT) if rows else {"env_seed": []}
            lines.append(
                {"cell": f"{name}{seed}", "run": "x", **cell, **learned, "played": {name: packed}}
            )
    keys = ["track", "task", "policy", "seed"]
    write_stored(path, "quick", {"search_budget": 40}, keys, {"x": {}}, lines)


#: As searches of a study have it.
_BUDGET = {"local-search": {"budget": 40}}


@pytest.fixture(scope="module")
def made(played, tmp_path_factory):
    path = tmp_path_factory.mktemp("confirmation") / "confirmation.json"
    return path, run_confirmation(read_tasks(played), QUICK, out=path)


def test_the_first_training_and_its_last_checkpoint_are_chosen(played):
    task = read_tasks(played)[TOY]
    assert task.policies == ("random", "lpt", "best-fit", "local-search", AGENT)
    assert task.rules == ("random", "lpt", "best-fit")
    assert list(task.episodes) == [0, 1, 2]
    stored = {row["policy"]: row for row in read_stored(played).rows if row["seed"] == 0}
    for number, episode in task.episodes.items():
        for name, row in episode.rows.items():
            packed = stored[name]["played"][name]
            assert packed["throughput"][number] == row.model
            assert packed["env_seed"][number] == episode.env_seed
            assert len(unpack_actions(row.actions)) == 8
    fewer = read_tasks(played, policies=["mixed", AGENT], episodes=2)[TOY]
    assert fewer.policies == ("mixed", AGENT)
    assert list(fewer.episodes) == [0, 1]
    assert len({*map(task.digest, range(3)), fewer.digest(0)}) == 4
    assert read_tasks(played, episodes=2)[TOY].digest(1) == task.digest(1)


def test_schedules_are_measured_beside_the_co_tenants_of_their_episodes(env, made):
    _, report = made
    workload = env["workload"]
    env = SpatialSchedulingEnv(**env)
    server = make_backend(
        "simulated", machine="toy", workload=workload, slices=8, queries=20_000, line_sampling=8
    )
    task = report["tasks"][TOY]
    for episode in task["episodes"].values():
        env.reset(seed=episode["env_seed"])
        assert env.instance.co_tenants
        server.set_instance(env.instance)
        row = episode["rows"][AGENT]
        for action in unpack_actions(row["actions"]):
            info = env.step(action)[-1]
        assert info["throughput"] == row["model"]
        assert server.measure(env.schedule, seed=0).throughput == row["simulated"] > 0
    finer = [all("finer" in r for r in e["rows"].values()) for e in task["episodes"].values()]
    assert finer == [True, False, False]
    assert task["summary"]["finer"]["episodes"] == 1
    assert report["code"]["modules"] == ["pmoss_benchmarks.spatial.confirmation"]


def test_a_stopped_run_goes_on_and_processes_change_no_bit(played, made, tmp_path):
    _, report = made
    tasks, out = read_tasks(played), tmp_path / "found.json"

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_confirmation(tasks, QUICK, out=out, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["found.partial"]
    with pytest.raises(DatasetError, match=r"found\.partial"):
        run_confirmation(tasks, replace(QUICK, queries=30_000), out=out)
    # Episodes that are done are done, also where fewer or more are asked for.
    seen: list[int] = []
    few = read_tasks(played, episodes=2)
    shutil.copy(out.with_suffix(".partial"), tmp_path / "few.partial")
    run_confirmation(few, QUICK, out=tmp_path / "few.json", progress=lambda n, _: seen.append(n))
    assert seen == [2]
    (tmp_path / "few.json").unlink()
    seen = []
    found = run_confirmation(tasks, QUICK, out=out, progress=lambda done, _: seen.append(done))
    assert seen == [2, 3]
    assert found["tasks"] == report["tasks"] == json.loads(out.read_text())["tasks"]
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    assert run_confirmation(tasks, QUICK, processes=2)["tasks"] == report["tasks"]


def test_a_report_is_measured_again(made, tmp_path):
    path, _ = made
    assert recheck(path, 3) == []
    for key in ("model", "simulated"):
        content = json.loads(path.read_text())
        content["tasks"][TOY]["episodes"]["1"]["rows"]["lpt"][key] *= 1.5
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps(content))
        summary, line = recheck(changed)
        assert summary == f"{TOY}: summary: is not that of the rows"
        assert line.startswith(f"{TOY}: episode 1: lpt: {key}: recorded")
    content["tasks"][TOY]["episodes"]["1"]["rows"]["lpt"]["actions"] = "AA=="
    changed.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match="episode 1: lpt: 1 actions do not end the episode"):
        recheck(changed)
    for damaged in ({"format": "pmoss-confirmation"}, {"format": "other"}, [1]):
        changed.write_text(json.dumps(damaged))
        with pytest.raises(DatasetError, match="is no report of `pmoss benchmark confirm`"):
            recheck(changed)
    with pytest.raises(DescriptionError, match="episodes = 0"):
        recheck(path, 0)


def test_rows_of_other_code_are_refused(played, tmp_path):
    task = read_tasks(played, episodes=1)[TOY]
    episode = task.episodes[0]
    other = replace(episode.rows["lpt"], model=episode.rows["lpt"].model * (1 + 1e-15))
    changed = replace(episode, rows={**episode.rows, "lpt": other})
    out = tmp_path / "found.json"
    with pytest.raises(DatasetError, match=f"{TOY}: episode 0: lpt: recorded .* of other code"):
        run_confirmation({TOY: replace(task, episodes={0: changed})}, QUICK, out=out)
    assert not out.exists()


def test_what_cannot_be_confirmed_is_refused(played, tmp_path):
    with pytest.raises(DatasetError, match="cannot be read"):
        read_tasks(tmp_path)
    with pytest.raises(UnknownNameError, match="unknown track"):
        read_tasks(played, "saturated")
    with pytest.raises(UnknownNameError, match="unknown task"):
        read_tasks(played, tasks=["no-task"])
    for name in ("no-policy", f"{AGENT} (best)"):
        with pytest.raises(UnknownNameError, match="unknown policy"):
            read_tasks(played, policies=["lpt", name])
    with pytest.raises(DescriptionError, match="must hold a rule"):
        read_tasks(played, policies=[AGENT, "local-search"])
    with pytest.raises(DescriptionError, match="episodes = 0: must be at least 1"):
        read_tasks(played, episodes=0)
    with pytest.raises(UnsupportedError, match="is a task of threads"):
        read_tasks(RESULTS / "sisters.jsonl", "threads")


def test_policies_that_share_no_episode_are_refused(env, tmp_path):
    write_played(env, tmp_path / "rows.jsonl", lacking=["lpt"])
    with pytest.raises(DescriptionError, match="has no episode that all of these played"):
        read_tasks(tmp_path / "rows.jsonl")


def test_intervals_decide_what_is_confirmed():
    ahead, behind, open_ = (Difference(1, *ends) for ends in ((0.5, 2), (-2, -0.5), (-1, 3)))
    assert verdict(ahead, ahead) == verdict(behind, behind) == "confirmed"
    assert verdict(ahead, behind) == verdict(behind, ahead) == "contradicted"
    assert {verdict(*pair) for pair in ((ahead, open_), (open_, behind))} == {"not told apart"}
    assert verdict(Difference(1, None, None), ahead) == "not told apart"


def test_a_summary_pairs_the_episodes_with_the_best_rule_of_the_model():
    rng = np.random.default_rng(0)
    hard = rng.uniform(50, 100, 30)
    factors = {"rule": (1.0, 1.0), "weak": (0.5, 1.2), "agent": (1.05, 1.02), "level": (1.1, 1.0)}
    factors["twin"] = (1.0, 1.0)
    episodes = {
        number: {
            name: {"model": base * model, "simulated": base * simulated}
            for name, (model, simulated) in factors.items()
        }
        for number, base in enumerate(hard)
    }
    found = summarise(episodes, ["weak", "rule"])
    assert (found["rule"], found["episodes"]) == ("rule", 30)
    assert "finer" not in found
    told = found["policies"]
    assert "verdict" not in told["rule"]
    assert told["rule"]["model"]["value"] == pytest.approx(hard.mean())
    assert {name: one.get("verdict") for name, one in told.items() if name != "rule"} == {
        "weak": "contradicted",
        "agent": "confirmed",
        "level": "not told apart",
        "twin": "not told apart",
    }
    over = told["agent"]["over_rule"]
    assert over["model"]["value"] == pytest.approx(5) and over["simulated"]["low"] > 1.9
    means = [np.array([one[f]["value"] for one in told.values()]) for f in ("model", "simulated")]
    assert found["ranks"] == spearman(*means) < 0.5


def test_a_text_shows_every_policy_and_its_verdict(made):
    _, report = made
    text = confirmed({"confirmation.json": report})  # type: ignore[arg-type]
    rule = report["tasks"][TOY]["summary"]["rule"]
    assert f"{TOY}, 3 episodes." in text
    assert f"over {rule} by the model, %" in text
    for name in ("random", "lpt", "best-fit", "local-search", AGENT):
        assert f"\n| {name} | " in text
    assert "Of 4 differences from the best rule" in text
    assert "Measured again was 1 episode, with twice the queries" in text


def test_the_command_writes_a_report_that_validates(played, tmp_path):
    out = tmp_path / "found.json"
    words = ["--results", str(played), "--policy", "lpt", "--policy", AGENT, "--episodes", "2"]
    words += ["--queries", "20000", "--finer", "0", "--out", str(out)]
    told = pmoss("benchmark", "confirm", *words)
    assert f"written to {out}" in told and f"{TOY}: Mq/s, 2 episodes" in told
    assert "2 episodes replayed, all bits equal" in pmoss(
        "study", "replay", str(out), "--episodes", "2"
    )
    content = json.loads(out.read_text())
    content["tasks"][TOY]["episodes"]["1"]["rows"]["lpt"]["simulated"] += 1
    out.write_text(json.dumps(content))
    told = pmoss("study", "replay", str(out), status=1)
    assert f"{TOY}: episode 1: lpt: simulated: recorded" in told.replace("\n", " ")

from __future__ import annotations

import json
import zlib

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("scipy")

from pmoss_benchmarks.offline import load_suite
from pmoss_benchmarks.spatial.budget import BUDGETS, read_rows, recheck, run_budget
from pmoss_benchmarks.spatial.budget.agents import Agents, parse_agents
from pmoss_benchmarks.spatial.budget.benchmark import rows_path
from pmoss_benchmarks.spatial.budget.report import as_markdown, summarise
from pmoss_benchmarks.spatial.references import make_references
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.suite import TOY
from pmoss_env.baselines import lpt, random
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError


def best_of_random(context):
    """LPT, or the best of as many random schedules as may be run."""
    asked = context.measurements
    drawn = [lpt(context), *(random(context) for _ in range(min(asked.left, 5)))]
    return max(drawn, key=asked.throughput) if asked.left > 5 else drawn[0]


def agents(name, task, seed):
    return SchedulePolicy({"sampler": best_of_random, "habit": random}[name])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("budget")
    names = ["sampler", "habit"]
    run = {"episodes": 3, "agents": names, "make_agents": agents}
    return out, run, run_budget(out, [TOY], **run)


def test_every_policy_is_there_at_every_budget(made):
    _, _, rows = made
    for name, row in rows[TOY].items():
        _, policy, *_ = name.split("/")
        known = len(BUDGETS) if "search" in policy or policy == "sampler" else 1
        assert len(row["throughput"]) == known
        assert len(row.get("schedules", row["throughput"])) == known
        if policy == "sampler":
            assert row["throughput"][0] == row["throughput"][2]  # 3 are too few for it
    pairs = [(name, row) for name, row in rows[TOY].items() if "/0.0/" in name]
    for name, row in pairs:
        if "search" in name:
            assert row["throughput"][1:] == sorted(row["throughput"][1:])


def test_the_same_call_does_nothing_again_and_more_episodes_add(made, tmp_path):
    out, run, rows = made
    path = rows_path(tmp_path, TOY)
    path.write_bytes(rows_path(out, TOY).read_bytes())
    done = []
    again = run_budget(tmp_path, [TOY], **run, progress=lambda number, _: done.append(number))
    assert again == rows
    assert len(done) == 1
    more = run_budget(tmp_path, [TOY], **{**run, "episodes": 4})[TOY]
    assert len(more) == len(rows[TOY]) * 4 // 3
    assert read_rows(path).items() >= rows[TOY].items()


def test_rows_run_again(made, tmp_path):
    out, _, rows = made
    path = rows_path(out, TOY)
    assert recheck(path, 3) == []
    for policy in ("lpt", "lpt + search", "sampler"):
        row = rows[TOY][f"{TOY}/{policy}/0/1.0/0"]
        changed = tmp_path / "changed.json"
        content = json.loads(path.read_text())
        content["rows"][f"{TOY}/{policy}/0/1.0/0"]["throughput"][-1] = row["throughput"][-1] + 1
        changed.write_text(json.dumps(content))
        (line,) = recheck(changed)
        assert line.startswith(f"{TOY}/{policy}/0/1.0/0: throughput: recorded")


def test_the_summary_compares_the_same_episodes(made, tmp_path):
    _, _, rows = made
    known = make_references(tmp_path, [TOY], 101, 3, budget=240)
    # Of a policy that lacks an episode the others are compared.
    fewer = dict(rows[TOY])
    del fewer[f"{TOY}/habit/0/1.0/1"]
    tasks = summarise({TOY: fewer}, known)
    noisy, clean = (tasks[TOY]["noise"][noise]["policies"] for noise in ("1.0", "0.0"))
    assert noisy["habit"]["episodes"] == 2
    assert noisy["sampler"]["episodes"] == clean["habit"]["episodes"] == 3
    for policies in (noisy, clean):
        search = policies["best-fit + search"]
        assert all(ahead["value"] == 0 for ahead in search["ahead"])
        for told in policies.values():
            if told["episodes"] < 3:
                continue
            for number in range(len(BUDGETS)):
                ahead = told["score"][number]["value"] - search["score"][number]["value"]
                assert told["ahead"][number]["value"] == pytest.approx(ahead)
    assert clean["lpt + search"]["score"][-1]["value"] > clean["lpt"]["score"][0]["value"]
    machine = {"cpu_model": "x", "cpus": 1}
    summary = {"version": "0", "command": "c", "machine": machine, "budgets": list(BUDGETS)}
    text = as_markdown({**summary, "tasks": tasks})
    assert "Points ahead of best-fit + search" in text
    assert text.count("| habit |") + text.count("| habit (2 episodes) |") == 7


def test_an_agent_may_get_less(made, tmp_path):
    _, _, rows = made
    path = rows_path(tmp_path, TOY)
    few = {"episodes": 1, "agents": ["sampler"], "make_agents": agents}
    fewer = run_budget(tmp_path, [TOY], **few, most=10)[TOY]
    name = f"{TOY}/sampler/0/0.0/0"
    assert fewer[name]["throughput"] == rows[TOY][name]["throughput"][:4]
    assert recheck(path) == []
    # More is asked for later.
    assert (
        run_budget(tmp_path, [TOY], **few)[TOY][name]["throughput"]
        == (rows[TOY][name]["throughput"])
    )


def test_rows_of_another_agent_of_the_same_name_are_made_anew(tmp_path):
    calls = []

    def counted(name, task, seed):
        calls.append(name)
        return agents(name, task, seed)

    few = {"episodes": 1, "noises": [0.0], "agents": ["habit"], "make_agents": counted}
    name = f"{TOY}/habit/0/0.0/0"
    for decided in ("one", "two"):
        row = run_budget(tmp_path, [TOY], **few, identity=lambda *_, decided=decided: decided)
        assert row[TOY][name]["agent"] == decided
    assert calls == ["habit", "habit"]
    # Asked again, nothing is made; rules and searches have no such row.
    again = run_budget(tmp_path, [TOY], **few, identity=lambda *_: "two")
    assert calls == ["habit", "habit"]
    assert [key for key, one in again[TOY].items() if "agent" in one] == [name]
    # Rows of other seeds are of the same agent or are left out.
    more = {**few, "seeds": 2}
    both = run_budget(tmp_path, [TOY], **more, identity=lambda *_: "two")[TOY]
    assert {both[f"{TOY}/habit/{seed}/0.0/0"]["agent"] for seed in (0, 1)} == {"two"}
    assert len(run_budget(tmp_path, [TOY], **few, identity=lambda *_: "two")[TOY]) == len(both)
    after = run_budget(tmp_path, [TOY], **few, identity=lambda *_: "three")[TOY]
    assert f"{TOY}/habit/1/0.0/0" not in after and after[name]["agent"] == "three"


def test_what_a_stopped_call_left_of_another_agent_is_refused_before_any_work(tmp_path):
    few = {"episodes": 2, "noises": [0.0], "agents": ["habit"], "make_agents": agents}

    def stop(done, total):
        if done == total - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_budget(tmp_path, [TOY], **few, identity=lambda *_: "one", progress=stop)
    with pytest.raises(DatasetError, match=r"cells\.partial: holds rows of another agent"):
        run_budget(
            tmp_path,
            [TOY],
            **few,
            identity=lambda *_: "two",
            progress=lambda *_: pytest.fail("work was done"),
        )
    # The same agent goes on.
    assert run_budget(tmp_path, [TOY], **few, identity=lambda *_: "one")[TOY]


def test_an_agent_is_told_by_its_settings_its_file_or_its_name(tmp_path):
    path = tmp_path / f"{TOY}-1.safetensors"
    path.write_bytes(b"weights")
    word = str(tmp_path / "{task}-{seed}.safetensors")
    plan = load_suite("quick")
    files = {"mine": word, "shipped": "pmoss/surrogate-busy-core-v0", "odd": "{foo}{"}
    made = Agents(plan, tmp_path, tmp_path, files)
    assert made.identity("mine", TOY, 1) == f"{zlib.crc32(b'weights'):08x}"
    assert made.identity("shipped", TOY, 1) == "pmoss/surrogate-busy-core-v0"
    assert made.identity("odd", TOY, 1) == "{foo}{"
    assert made.identity("bc", TOY, 0) != made.identity("cql", TOY, 0)
    assert made("shipped", TOY, 0).name == "surrogate"


def test_what_does_not_fit_is_refused(made, tmp_path):
    out, run, _ = made
    with pytest.raises(DatasetError, match="was made with"):
        run_budget(out, [TOY], **run, evaluation_seed=5)
    path = tmp_path / "broken.json"
    for text in ("[]", '{"format": "other"}', '{"format": "pmoss-budget", "settings": {}}'):
        path.write_text(text)
        with pytest.raises(DatasetError, match="no file of budgets"):
            read_rows(path)
    with pytest.raises(DescriptionError, match="episodes = 0"):
        recheck(rows_path(out, TOY), 0)
    assert parse_agents(["surrogate", "mine=a/{task}.x"]) == (
        ["surrogate", "mine"],
        {"mine": "a/{task}.x"},
    )
    with pytest.raises(DescriptionError, match="each name once"):
        parse_agents(["a=b", "a=c"])
    with pytest.raises(UnknownNameError):
        parse_agents(["nobody"])

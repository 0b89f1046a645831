"""The offline benchmark on the toy: cells, their interruption, extension, report and refusals."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pmoss_benchmarks.functions.references import reference_rows
from pmoss_benchmarks.offline import SUITES, Plan, run_offline
from pmoss_benchmarks.offline.opponents import OPPONENTS
from pmoss_benchmarks.offline.plan import cells_of, is_current, recipe_of, usable_agents
from pmoss_benchmarks.offline.report import as_markdown
from pmoss_benchmarks.offline.store import finished
from pmoss_benchmarks.offline.tracks import OTHER_MACHINES, TRACKS
from pmoss_benchmarks.texts.stored import version_of
from pmoss_datasets.evaluation import read_results, replay
from pmoss_datasets.suite import SHIPPED_ROOT, TOY, Task
from pmoss_env import extras
from pmoss_env.errors import DatasetError, DescriptionError, MissingExtraError, UnknownNameError
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.provenance import processors_of
from pmoss_env.version import CONTINUED, __version__

pytest.importorskip("torch")
pytest.importorskip("h5py")

AGENT = "decision-transformer"
SMALL = {"updates": 4, "layers": 1, "width": 8, "heads": 1, "channels": 4}
# The exact optimum is left out: it takes seconds.
FEW = ("random", "spread", "lpt", "two-level", "local-search")
CHANGES: dict[str, Any] = {
    "tracks": ("same-task",),
    "changes": {AGENT: SMALL},
    "episodes": 1,
    "opponents": FEW,
}
PLAN = replace(SUITES["quick"], **CHANGES)
FIELDS = ("throughput", "score", "actions")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    shutil.copytree(SHIPPED_ROOT / f"pmoss/{TOY}/mixed-v0", root / f"pmoss/{TOY}/mixed-v0")
    return root


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("whole") / "out"
    return out, run_offline(PLAN, out, data, agents=[OPPONENTS, AGENT])


def rows_of(out: Path, track: str = "same-task") -> list[tuple[Any, ...]]:
    rows = read_results(out / track / f"{TOY}.jsonl")[1]
    return [(r.policy, r.seed, *(getattr(r, name) for name in FIELDS)) for r in rows]


def test_every_row_replays_and_nothing_illegal_was_done(whole: Any) -> None:
    out, summary = whole
    assert replay(out / "same-task" / f"{TOY}.jsonl").mismatches == ()
    scores = summary["tracks"]["same-task"]["tasks"][TOY]
    assert {"lpt", "two-level", "local-search", AGENT, f"{AGENT} (best)"} <= set(scores)
    assert all(policy["illegal_actions"] == 0 for policy in scores.values())
    assert scores["local-search"]["score"] == pytest.approx(100, abs=10)
    cell = next(c for c in summary["cells"].values() if c["agent"] == AGENT)
    assert cell["training"]["config"]["updates"] == 4
    assert [updates for updates, _ in cell["curve"]] == [2, 4]
    assert cell["training"]["source"]["id"].endswith("/mixed-v0")
    assert not (out / "cells.partial").exists()


def test_the_table_states_scores_budgets_and_commands(whole: Any) -> None:
    out, summary = whole
    text = (out / "README.md").read_text()
    overall = summary["tracks"]["same-task"]["overall"][AGENT]["iqm"]
    line = next(line for line in text.splitlines() if line.startswith(f"| **{AGENT}**"))
    assert f"| {overall['value']:.1f} [{overall['low']:.1f}, {overall['high']:.1f}] |" in line
    assert f"`pmoss benchmark offline --suite quick --track same-task --agent {AGENT}`" in line
    search = next(line for line in text.splitlines() if line.startswith("| local-search"))
    assert "the model, 100 evaluations per episode" in search
    assert "over shared-nothing-node | mean of these | over the best of them |" in text
    assert (out / "same-task.png").read_bytes().startswith(b"\x89PNG")


def test_results_of_another_tier_say_so(whole: Any) -> None:
    plain = as_markdown(whole[1])
    assert plain == (whole[0] / "README.md").read_text()
    assert plain.splitlines()[0].endswith("suite quick")
    plan = PLAN.part(tier="heuristic")
    assert recipe_of(plan, "same-task", TOY).id.endswith("/heuristic-v0")
    text = as_markdown({**whole[1], "settings": plan.settings})
    assert text.splitlines()[0].endswith("suite quick, data of the tier heuristic")
    assert "--suite quick --tier heuristic --track same-task" in text


def test_more_agents_and_tracks_are_added_to_what_is_there(
    whole: Any, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run_offline(PLAN, out, data, agents=[OPPONENTS])
    before = (out / "summary.json").read_text()
    run_offline(PLAN, out, data, agents=[AGENT])
    assert rows_of(out) == rows_of(whole[0])
    assert "shared" in before
    summary = run_offline(PLAN.part(tracks=["noise"], seeds=1), out, data, agents=[AGENT])
    assert list(summary["tracks"]) == ["same-task", "noise"]
    assert rows_of(out) == rows_of(whole[0])
    # Noise is in what the agent reads, not in what it is scored by.
    assert replay(out / "noise" / f"{TOY}.jsonl").mismatches == ()


def test_a_killed_run_loses_only_the_running_cell(whole: Any, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from dataclasses import replace\n"
        "from pmoss_benchmarks.offline import SUITES, run_offline\n"
        "def die(stage, done, total):\n"
        "    if stage == 'cells' and done == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"plan = replace(SUITES['quick'], **{CHANGES!r})\n"
        f"run_offline(plan, Path({str(out)!r}), Path({str(data)!r}), "
        f"agents=[{OPPONENTS!r}, {AGENT!r}], progress=die)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    kept = (out / "cells.partial").read_text().splitlines()
    total = len(cells_of(PLAN, usable_agents(PLAN, [OPPONENTS, AGENT])[0]))
    assert 2 <= len(kept) <= total
    first = json.loads(kept[1])["cell"]
    told: list[tuple[int, int]] = []
    run_offline(
        PLAN,
        out,
        data,
        agents=[OPPONENTS, AGENT],
        progress=lambda stage, done, total: told.append((done, total)),
    )
    assert told[0] == (len(kept) - 1, total)
    assert rows_of(out) == rows_of(whole[0])
    assert first in json.loads((out / "summary.json").read_text())["cells"]


@pytest.mark.heavy
@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_the_bits_do_not_depend_on_the_executor(
    whole: Any, data: Path, tmp_path: Path, executor: str
) -> None:
    if executor == "ray":
        pytest.importorskip("ray")
    how: dict[str, Any] = {"executor": executor, "processes": 2}
    run_offline(PLAN, tmp_path / "out", data, agents=[OPPONENTS, AGENT], **how)
    assert rows_of(tmp_path / "out") == rows_of(whole[0])


def test_an_agent_that_refuses_its_data_is_told_and_hurts_no_other(
    data: Path, tmp_path: Path
) -> None:
    plan = replace(
        PLAN,
        tier="small",
        tracks=("paper-observation",),
        seeds=1,
        changes={AGENT: {**SMALL, "reward": "improvement"}},
    )
    summary = run_offline(plan, tmp_path / "out", data, agents=[OPPONENTS, AGENT])
    refused = [c for c in summary["cells"].values() if "refused" in c]
    assert [c["agent"] for c in refused] == [AGENT]
    assert "observation='paper'" in refused[0]["refused"]
    assert str(data) not in refused[0]["refused"]
    text = (tmp_path / "out" / "README.md").read_text()
    assert f"- {AGENT} refused: " in text
    assert "lpt" in summary["tracks"]["paper-observation"]["overall"]


def test_on_an_unseen_machine_agents_play_padded(
    whole: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.toml"
    other.write_text((PRESETS / "toy.toml").read_text())
    monkeypatch.setitem(OTHER_MACHINES, "toy", str(other))
    plan = replace(PLAN, tracks=("unseen-machine",))
    run_offline(plan, tmp_path / "out", data, agents=[OPPONENTS, AGENT])
    # The other machine is the same one: padding changed nothing.
    assert rows_of(tmp_path / "out", "unseen-machine") == rows_of(whole[0])


def test_tasks_without_another_machine_have_no_such_track() -> None:
    track = TRACKS["unseen-machine"]
    assert track.evaluation_env(Task("t", {"machine": "toy", "slices": 8})) is None
    assert track.evaluation_env(Task("t", {"machine": "milan-nps4"})) == {"machine": "rome-7302"}
    assert track.training_env({"machine": "milan-nps4"}) == {"machine": "milan-nps4"}


def test_an_opponent_that_cannot_play_is_told(tmp_path: Path) -> None:
    plan = replace(PLAN, opponents=("lpt", "counter-threshold"), seeds=1)
    out = tmp_path / "out"
    summary = run_offline(plan.part(tracks=["counters-missing"]), out, tmp_path, agents=[OPPONENTS])
    assert list(summary["tracks"]["counters-missing"]["overall"]) == ["lpt"]
    text = (out / "README.md").read_text()
    assert "- absent: the baseline 'counter-threshold' needs a snapshot with llc_misses" in text
    assert not (tmp_path / "tracks").exists()  # opponents need no data


def test_results_of_another_plan_are_not_mixed(whole: Any, data: Path) -> None:
    with pytest.raises(DatasetError, match="another plan"):
        run_offline(replace(PLAN, episodes=2), whole[0], data, agents=[OPPONENTS])


@pytest.mark.parametrize(
    ("name", "text"),
    [("README.md", "mine"), ("summary.json", "hi"), ("summary.json", "{}"), ("summary.json", "[]")],
)
def test_a_folder_of_something_else_is_left_as_it_is(
    data: Path, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError, match=f"{name}: is .* choose another folder"):
        run_offline(PLAN, tmp_path, data, agents=[OPPONENTS])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == text


def test_results_of_other_data_or_another_config_are_not_taken() -> None:
    agents = ["lpt", "os-default", AGENT, "dqn"]
    others = {
        "data": replace(PLAN, tier="expert"),
        "config": replace(PLAN, changes={AGENT: {**SMALL, "updates": 5}}),
        "opponents": replace(PLAN, opponents=("spread",)),
    }
    names = [cell.name for cell in cells_of(PLAN, agents)]
    assert all(is_current(PLAN, name) for name in names)
    stale = {
        what: {name.split("/")[2] for name in names if not is_current(plan, name)}
        for what, plan in others.items()
    }
    # Who learns online has no data.
    assert stale == {"data": {AGENT}, "config": {AGENT}, "opponents": set()}


def test_another_opponent_adds_only_its_own_cells(whole: Any, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole[0], out)
    plan = replace(PLAN, opponents=(*FEW, "grouped"))
    told: list[tuple[int, int]] = []
    summary = run_offline(
        plan,
        out,
        data,
        agents=[OPPONENTS, AGENT],
        progress=lambda stage, done, total: told.append((done, total)),
    )
    done, total = told[0]
    assert total - done == plan.seeds
    assert len([row for row in rows_of(out) if row[0] != "grouped"]) == len(rows_of(whole[0]))
    assert "grouped" in summary["tracks"]["same-task"]["overall"]


COMMITTED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "offline"


@pytest.mark.parametrize(("suite", "missing"), [("quick", 0), ("machines", 0)])
def test_the_committed_cells_of_opponents_count_as_finished(suite: str, missing: int) -> None:
    # Of the settings that they were made with: newer ones have more episodes.
    settings = json.loads((COMMITTED / suite / "summary.json").read_text())["settings"]
    plan = replace(SUITES[suite], **{"long_search": 0, "common": False, **settings})
    cells = cells_of(plan, usable_agents(plan, [OPPONENTS])[0])
    known = finished(COMMITTED / suite, plan)
    assert sum(cell.name not in known for cell in cells) == missing
    assert not {name.split("/")[2] for name in known} & {OPPONENTS}


def test_opponents_play_as_in_the_committed_results(tmp_path: Path) -> None:
    plan = SUITES["quick"].part(tracks=["interference"])
    names = ["random", "best-fit", "os-default"]
    run_offline(plan, tmp_path / "out", tmp_path, agents=names)
    now, then = finished(tmp_path / "out", plan), finished(COMMITTED / "quick", plan)
    assert len(now) == len(names) * plan.seeds
    for name, result in now.items():
        for row in (*result["rows"], *then[name]["rows"]):
            del row["seconds_per_decision"]
        # What an older version or another host played says so, also beside cells of this one.
        assert then[name].pop("version", __version__) in CONTINUED
        then[name].pop("cpu_model", None)
        assert result == then[name]


def test_cells_of_an_older_version_keep_it(tmp_path: Path) -> None:
    plan = PLAN.part(tracks=["same-task"])
    out = tmp_path / "out"
    run_offline(plan, out, tmp_path, agents=["random"])
    summary = json.loads((out / "summary.json").read_text())
    older = min(CONTINUED - {__version__})
    (out / "summary.json").write_text(json.dumps({**summary, "version": older}))
    run_offline(plan, out, tmp_path, agents=["lpt"])
    cells = json.loads((out / "summary.json").read_text())["cells"].values()
    assert {(cell["agent"], cell.get("version")) for cell in cells} == {
        ("random", older),
        ("lpt", None),
    }
    assert version_of({"version": __version__, "code": {}, "cells": dict(enumerate(cells))}) == (
        f"The result is without digests of its code, by pmoss-env {older} and {__version__}."
    )
    (out / "summary.json").write_text(json.dumps({**summary, "version": "0.0.1"}))
    with pytest.raises(DatasetError, match="another plan or version"):
        run_offline(plan, out, tmp_path, agents=["lpt"])


def test_cells_of_another_host_say_so(tmp_path: Path) -> None:
    plan = PLAN.part(tracks=["same-task"])
    out = tmp_path / "out"
    run_offline(plan, out, tmp_path, agents=["random"])
    summary = json.loads((out / "summary.json").read_text())
    elsewhere = {**summary["machine"], "cpu_model": "A processor that is not here"}
    (out / "summary.json").write_text(json.dumps({**summary, "machine": elsewhere}))
    run_offline(plan, out, tmp_path, agents=["lpt"])
    summary = json.loads((out / "summary.json").read_text())
    assert {(cell["agent"], cell.get("cpu_model")) for cell in summary["cells"].values()} == {
        ("random", "A processor that is not here"),
        ("lpt", None),
    }
    told = processors_of(summary)
    assert "A processor that is not here" in told and summary["machine"]["cpu_model"] in told
    assert f" on {told}; the last call was" in (out / "README.md").read_text()


def test_names_that_are_not_there_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="task"):
        PLAN.part(tasks=["toy"])
    with pytest.raises(UnknownNameError, match="track"):
        PLAN.part(tracks=["rain"])
    with pytest.raises(UnknownNameError, match="agent"):
        run_offline(PLAN, tmp_path, data, agents=["threads-rule"])
    with pytest.raises(DescriptionError, match="episodes"):
        replace(PLAN, episodes=0)


def test_suites_have_the_cells_that_they_promise() -> None:
    core: Plan = SUITES["core"]
    opponents = usable_agents(core, [OPPONENTS])[0]
    cells = cells_of(core, [*opponents, AGENT])
    # All training seeds meet the same episodes: opponents play them once.
    assert len(cells) == 3 * (len(opponents) + core.seeds)
    assert len({cell.name for cell in cells}) == len(cells)
    standard = cells_of(SUITES["standard"], [AGENT])
    # No other mix of operations is there for the R-tree.
    missing = {(c.track, c.task) for c in standard if "rtree" in c.task}
    assert ("unseen-workload", "skylake-x-8n-rtree-rtree-ranges-5m") not in missing
    assert ("unseen-distribution", "skylake-x-8n-rtree-rtree-ranges-5m") in missing


def test_the_suite_of_the_paper_has_every_pair_in_both_loads() -> None:
    paper = SUITES["paper"]
    assert usable_agents(paper)[0][-2:] == ["surrogate", "decision-transformer"]
    cells = cells_of(paper, [AGENT])
    pairs = {(cell.track, cell.task) for cell in cells}
    for track, other in (
        ("same-task", "saturated"),
        ("unseen-machine", "unseen-machine-saturated"),
    ):
        assert {task for name, task in pairs if name == track} == {
            task for name, task in pairs if name == other
        }
    assert len(cells) == len(pairs) == 40
    # What no policy met is met by one that learned under the same load.
    for cell in cells:
        track = TRACKS[cell.track]
        if track.of_agents != cell.track:
            same = replace(cell, track=track.of_agents)
            assert same in cells, cell.name
            backlog = {"load": "saturated"} if cell.track.endswith("-saturated") else {}
            assert backlog.items() <= track.training_env({}).items()


COMMON: dict[str, Any] = {"common": True, "long_search": 240, "episodes": 2}


def test_common_episodes_and_long_searches(data: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, **COMMON, random_schedules=100)
    summary = run_offline(plan, tmp_path / "out", data, agents=[OPPONENTS, AGENT])
    path = tmp_path / "out" / "same-task" / f"{TOY}.jsonl"
    header, rows = read_results(path)
    assert header["notes"] == {"common_seed": 101, "long_search": 240}
    # Rules play once, both training seeds meet their episodes.
    of = {(row.policy, row.seed) for row in rows}
    assert {seed for policy, seed in of if policy == "lpt"} == {101}
    assert {seed for policy, seed in of if policy == AGENT} == {101, 102}
    assert len({row.env_seed for row in rows}) == 2
    out = tmp_path / "out"
    references = reference_rows(out, out, [TOY], 2, budget=plan.long_search)[TOY]
    best = {one["env_seed"]: (one["random"], one["best"]) for one in references}
    assert all((r.random_throughput, r.search_throughput) == best[r.env_seed] for r in rows)
    assert replay(path).mismatches == ()
    found = summary["tracks"]["same-task"]["paired"][TOY]
    assert found["episodes"] == 2
    assert found["policies"][AGENT]["seeds"] == 2
    text = (tmp_path / "out" / "README.md").read_text()
    assert text.index("ahead of search") < text.index("| IQM |")
    # The same call finds all of it there.
    again = run_offline(plan, tmp_path / "out", data, agents=[OPPONENTS, AGENT])
    assert again["tracks"] == summary["tracks"]
    lines = path.read_text().splitlines()
    lines[0] = lines[0].replace('"common_seed": 101', '"common_seed": 7')
    path.write_text("\n".join(lines))
    assert any("env_seed" in line for line in replay(path).mismatches)


def test_a_package_that_lacks_is_told_before_anything_is_computed(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "h5py" else object())
    with pytest.raises(MissingExtraError, match=r"h5py.*pmoss-env\[datasets\]"):
        run_offline(PLAN, tmp_path / "out", tmp_path / "data", agents=[AGENT, *FEW])
    assert list(tmp_path.iterdir()) == []

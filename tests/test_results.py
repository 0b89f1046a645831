"""The committed results replay, and the README shows what they hold."""

import json
import re
from pathlib import Path

import pytest

from pmoss_benchmarks.evaluation import aggregate, read_results, replay

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
README = (REPOSITORY / "README.md").read_text()


def test_the_demo_replays_to_the_last_bit() -> None:
    assert replay(RESULTS / "demo" / "results.jsonl").mismatches == ()


OFFLINE = sorted((RESULTS / "offline").rglob("*.jsonl"))


@pytest.mark.parametrize("path", OFFLINE, ids=lambda path: "/".join(path.parts[-3:]))
def test_an_episode_of_every_offline_result_replays_to_the_last_bit(path: Path) -> None:
    assert replay(path, episodes=1).mismatches == ()


@pytest.mark.heavy
@pytest.mark.parametrize("path", OFFLINE, ids=lambda path: "/".join(path.parts[-3:]))
def test_offline_results_replay_to_the_last_bit(path: Path) -> None:
    assert replay(path).mismatches == ()


@pytest.mark.parametrize("path", sorted((RESULTS / "offline").rglob("summary.json")))
def test_the_offline_tables_are_those_of_the_committed_rows(path: Path) -> None:
    pytest.importorskip("torch")
    from pmoss_benchmarks.offline.report import as_markdown, summarise

    summary = json.loads(path.read_text())
    assert (path.parent / "README.md").read_text() == as_markdown(summary)
    for track, found in summary["tracks"].items():
        rows = {
            task: read_results(path.parent / track / f"{task}.jsonl")[1] for task in found["tasks"]
        }
        assert json.loads(json.dumps(summarise(rows))) == found
        for of_task in found["tasks"].values():
            assert all(policy["illegal_actions"] == 0 for policy in of_task.values())


def test_readme_shows_the_committed_scores_of_the_core() -> None:
    summary = json.loads((RESULTS / "offline" / "core" / "summary.json").read_text())
    section = README.split("### Offline benchmark")[1].split("`pmoss rollout` lets")[0]
    overall = summary["tracks"]["same-task"]["overall"]
    shown = re.findall(
        r"^\| ([a-z-]+) \| (-?[0-9.]+) \[(-?[0-9.]+), (-?[0-9.]+)\] \|$", section, re.M
    )
    assert len(shown) >= 10
    for name, *numbers in shown:
        iqm = overall[name]["iqm"]
        assert [float(n) for n in numbers] == [round(iqm[k], 1) for k in ("value", "low", "high")]
    policies = ("decision-transformer", "percentile-bc", "best-fit", "lpt")
    for track, found in summary["tracks"].items():
        iqms = [found["overall"][name]["iqm"] for name in policies]
        cells = [f"{i['value']:.1f} [{i['low']:.1f}, {i['high']:.1f}]" for i in iqms]
        assert f"| {track} | {' | '.join(cells)} |" in section


def test_readme_shows_the_committed_scores_of_the_standard_suite() -> None:
    pytest.importorskip("torch")
    from pmoss_benchmarks.offline.report import SIMPLE

    summary = json.loads((RESULTS / "offline" / "standard" / "summary.json").read_text())
    tasks = summary["tracks"]["same-task"]["tasks"]
    assert len(tasks) == 17
    for task, found in tasks.items():
        learned = [found[name] for name in ("decision-transformer", "percentile-bc")]
        scores = [f"{policy['score']:.1f}" for policy in (*learned, found["best-fit"])]
        name = max(SIMPLE, key=lambda name: found[name]["score"])
        best = max(learned, key=lambda policy: policy["score"])
        ratio = best["throughput"] / found[name]["throughput"]
        simple = f"{name} {found[name]['score']:.1f} | {ratio:.2f}"
        assert f"| {task} | {' | '.join(scores)} | {simple} |" in README


def test_readme_shows_the_committed_ratios_on_the_papers_servers() -> None:
    table = (RESULTS / "offline" / "machines" / "README.md").read_text()
    wanted = (
        "over shared-everything",
        "mean of these",
        "over the best of them",
        "local-search over the best of them",
    )
    ratios: dict[str, list[str]] = {}
    for head, rows in re.findall(r"^(\| task \| best.*)\n\|.*\n((?:\|.*\n)+)", table, re.M):
        names = head.split(" | ")
        for row in rows.splitlines():
            cells = dict(zip(names, row.split(" | "), strict=True))
            machine = cells["| task"].removeprefix("| ").removesuffix("-btree-ycsb-a")
            ratios.setdefault(machine, []).extend(cells[name] for name in wanted)
    assert len(ratios) == 5
    for machine, shown in ratios.items():
        assert f"| {machine} | {' | '.join(shown)} |" in README


def test_readme_shows_the_committed_table() -> None:
    for summary in aggregate(read_results(RESULTS / "demo" / "results.jsonl")[1]):
        low, high = summary.throughput_low, summary.throughput_high
        cell = re.escape(f"{summary.throughput:.1f} [{low:.1f}, {high:.1f}]")
        assert re.search(rf"^  {summary.policy} +{cell} ", README, re.M), summary.policy


def test_the_performance_table_is_that_of_the_committed_reports() -> None:
    pytest.importorskip("torch")
    from pmoss_benchmarks.performance.tables import read_reports, side_by_side

    table = side_by_side(read_reports())
    assert (RESULTS / "performance" / "README.md").read_text() == table
    shown = re.findall(r"^\| .* \|$", README.split("## How fast")[1].split("\n## ")[0], re.M)
    assert len(shown) > 5
    for line in shown[2:]:
        assert line in table, line


def test_readme_shows_the_committed_win_beside_a_real_co_tenant() -> None:
    for gain in json.loads((RESULTS / "co-tenants.json").read_text())["gains"]:
        low, high = gain["interval"]
        assert f"{gain['ratio']:.2f} [{low:.2f}, {high:.2f}] times" in README


def test_readme_shows_the_committed_error_card() -> None:
    reports = [json.loads(path.read_text()) for path in RESULTS.glob("fidelity*.json")]
    for cell in (cell for report in reports for cell in report["cells"]):
        shown = (
            f"| {cell['machine']} | {cell['workload']} | {cell['median_error']:.1%} "
            f"| {cell['p95_error']:.1%} | {cell['tau']:.3f} | {cell['regret']:.1%} |"
        )
        assert shown in README
        assert cell["schedules"] >= 100


def test_readme_counts_the_committed_verdicts() -> None:
    verdicts = json.loads((RESULTS / "validation.json").read_text())["verdicts"]
    asked = [v for v in verdicts if v["verdict"] != "not modelled"]
    hard = [v for v in verdicts if v["gate"] == "hard"]
    inside = sum(v["verdict"] == "inside" for v in asked)
    kept = sum(v["verdict"] == "inside" for v in hard)
    assert (
        f"{inside} of {len(asked)} lie inside their tolerance, {kept} of the {len(hard)}" in README
    )
    assert not any(v["verdict"] == "outside" for v in hard)


def test_readme_shows_the_committed_off_policy_errors() -> None:
    pytest.importorskip("torch")
    from pmoss_benchmarks.spatial.off_policy import summarise

    rows = json.loads((RESULTS / "off_policy.json").read_text())["rows"]
    for task, horizon, estimator, median, worst in summarise(rows):
        assert f"| {task} | {horizon} | {estimator} | {median:.0%} | {worst:.0%} |" in README


def test_readme_shows_the_committed_headroom() -> None:
    tasks = json.loads((RESULTS / "headroom.json").read_text())["cells"]
    with_headroom = [task for task in tasks if task["has_headroom"]]
    assert len(with_headroom) >= 8
    for task in with_headroom:
        start = f"| {task['machine']} | {task['workload']} | {task['interference']} |"
        end = f"| {task['headroom']:+.0%} | {task['simulated_headroom']:+.0%} |"
        assert re.search(re.escape(start) + ".*" + re.escape(end), README), start


def test_readme_shows_the_committed_numbers_of_access_paths() -> None:
    report = json.loads((RESULTS / "access-path" / "results.json").read_text())
    assert report["dataset"]["observations"] >= 200_000
    for row in report["rows"]:
        assert row["gate"] == "soft" or row["low"] <= row["ours"] <= row["high"], row
        shown = f"| {row['row']} | {row['what']} | {row['paper']:g} | {row['ours']:.3g} |"
        assert row["row"] == "E15" or shown in README, row
    for agent in report["agents"]:
        start = f"| {agent['agent']} | {agent['fitted_to']} |"
        assert f"{start} {agent['above_oracle']:.2%} |" in README
    for engine in json.loads((RESULTS / "access-path" / "calibration.json").read_text())["engines"]:
        assert engine["conclusion"] in README

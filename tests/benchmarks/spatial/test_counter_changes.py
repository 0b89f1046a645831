"""Counters under stored schedules beside those under a baseline."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.spatial.counter_changes import changes_by, changes_cells
from pmoss_benchmarks.spatial.served import ServedCell, digests_of, served_cells
from pmoss_datasets.evaluation import evaluate, read_results, write_results
from pmoss_datasets.policies import SchedulePolicy
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.machines import load_machine

KWARGS = {"machine": "skylake-x-8n", "slices": 16}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policies = {name: SchedulePolicy(name) for name in ("grouped", "spread")}
    found = evaluate(KWARGS, policies, [1], 2, search_budget=5, random_schedules=2)
    path = tmp_path_factory.mktemp("results") / "ycsb-a.jsonl"
    write_results(path, found)
    return path


def test_schedules_with_local_data_reach_no_far_memory(results: Path) -> None:
    (cell,) = changes_cells([str(results)], "os-default", ["spread"], 2)
    found = changes_by(cell)
    assert (found["machine"], found["load"]) == ("skylake-x-8n", "closed")
    recorded = [row.throughput for row in read_results(results)[1] if row.policy == "spread"]
    assert [one["throughput"][1] for one in found["measured"]] == pytest.approx(recorded)
    at = {name: number for number, name in enumerate(found["counters"])}
    for one in found["measured"]:
        before, after = one["per_query"]
        assert before[at["remote_dram"]] > 0 and after[at["remote_dram"]] == 0
        assert after[at["instructions"]] == pytest.approx(before[at["instructions"]])
    workers = load_machine("skylake-x-8n").workers.size
    assert len(found["nodes"]) == workers
    for at_schedule, throughput in enumerate(found["measured"][0]["throughput"]):
        queries = np.array(found["cores"]["queries"][at_schedule])
        assert queries.shape == (workers,)
        assert queries.sum() == pytest.approx(throughput, rel=1e-3)


def test_what_is_recorded_of_a_baseline_equals_the_baseline(results: Path) -> None:
    (cell,) = changes_cells([str(results)], "os-interleave", ["grouped"], 1)
    (beside,) = changes_cells([str(results)], "grouped", ["spread"], 1)
    (one,), (other,) = changes_by(cell)["measured"], changes_by(beside)["measured"]
    assert one["throughput"][1] == other["throughput"][0]
    assert one["per_query"][1] == other["per_query"][0]


def test_a_file_and_a_policy_count_once_and_episodes_are_in_order(
    results: Path, tmp_path: Path
) -> None:
    again = str(results.parent / ".." / results.parent.name / results.name)
    cells = changes_cells([str(results), again], "os-default", ["spread", "spread"], 1)
    assert [cell.after for cell in cells] == ["spread"]
    turned = tmp_path / "turned.jsonl"
    head, *rows = results.read_text().splitlines()
    turned.write_text("\n".join([head, *rows[::-1]]) + "\n")
    (other,) = changes_cells([str(turned)], "os-default", ["spread"], 1)
    assert changes_by(other) == changes_by(cells[0])


def test_a_run_depends_on_what_its_files_hold(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(results.read_bytes())
    before = digests_of(served_cells([path]))
    path.write_bytes(results.read_bytes() + b"\n")
    assert digests_of(served_cells([path])) != before
    path.unlink()
    with pytest.raises(DatasetError, match=r"one\.jsonl: cannot be read"):
        digests_of([ServedCell(str(path))])


def test_what_is_not_there_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no-rule"):
        changes_cells([str(results)], "no-rule", ["spread"], 1)
    with pytest.raises(DescriptionError, match="spread beside itself"):
        changes_cells([str(results)], "spread", ["spread"], 1)
    (cell,) = changes_cells([str(results)], "os-default", ["lpt"], 1)
    with pytest.raises(UnknownNameError, match="grouped"):
        changes_by(cell)
    (cell,) = changes_cells([str(results)], "os-default", ["spread"], 3)
    with pytest.raises(DatasetError, match="spread has 2 episodes, 3 were asked for"):
        changes_by(cell)
    other = tmp_path / "other.jsonl"
    told = repr(read_results(results)[1][0].throughput)
    other.write_text(results.read_text().replace(told, "1.5"))
    (cell,) = changes_cells([str(other)], "os-default", ["grouped"], 1)
    with pytest.raises(DatasetError, match=r"grouped, episode 0: recorded 1\.5 Mq/s"):
        changes_by(cell)

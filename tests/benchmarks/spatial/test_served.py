"""Stored schedules under both counts of a backlog."""

from pathlib import Path

import pytest

from pmoss_benchmarks.spatial.served import means_of, served_by, served_cells
from pmoss_datasets.evaluation import evaluate, write_results
from pmoss_datasets.policies import SchedulePolicy
from pmoss_env.errors import DatasetError


def test_stored_schedules_serve_what_was_recorded(tmp_path: Path) -> None:
    kwargs = {"machine": "toy", "slices": 8, "load": "saturated", "interference": "busy_core"}
    policies = {name: SchedulePolicy(name) for name in ("grouped", "lpt-capacity")}
    found = evaluate(kwargs, policies, [1], 2, search_budget=20, random_schedules=5)
    write_results(tmp_path / "ycsb-a.jsonl", found)
    (cell,) = served_cells([tmp_path])
    result = served_by(cell)
    assert (result["machine"], result["load"]) == ("toy", "saturated")
    for policy in policies:
        recorded = [row.throughput for row in found.rows if row.policy == policy]
        episodes = result["rows"][policy]["episodes"]
        assert [one["served"] for one in episodes] == pytest.approx(recorded)
        assert all(one["mix"] <= 1.0001 * one["served"] for one in episodes)
        assert means_of(result)[policy]["served"] == pytest.approx(sum(recorded) / 2)


def test_what_comes_out_different_is_refused(tmp_path: Path) -> None:
    kwargs = {"machine": "toy", "slices": 4}
    policies = {"grouped": SchedulePolicy("grouped")}
    found = evaluate(kwargs, policies, [1], 1, search_budget=20, random_schedules=5)
    path = tmp_path / "one.jsonl"
    write_results(path, found)
    told = repr(found.rows[0].throughput)
    path.write_text(path.read_text().replace(told, "1.5"))
    with pytest.raises(DatasetError, match=r"grouped, episode 0: recorded 1\.5 Mq/s"):
        served_by(*served_cells([path]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="holds no result files"):
        served_cells([tmp_path / "empty"])

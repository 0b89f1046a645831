"""The tables of speed: hosts side by side, and one host before and after."""

import json

from pmoss_benchmarks.texts import performance as texts
from pmoss_benchmarks.texts.stored import Stored

MACHINE = {"cpu_model": "A CPU", "cpus": 2, "kernel": "6.18"}
BAND = {"name": "lookups / a peer", "unit": "x", "goal": ">= 2 x", "reached": True, "note": ""}
FAST = {**BAND, "low": 3.9, "median": 4.0, "high": 1234.5}
SLOW = {**BAND, "low": 1.5, "median": 1.6, "high": 1.7, "reached": False}
COST = {**FAST, "name": "cost", "unit": "%", "low": -1.0}
SCALE = {**FAST, "name": "for scale", "goal": "", "reached": None}


def stored(root, **figures):
    """Reports of hosts; one that is not named has none."""
    folder = root / "benchmarks" / "results" / "performance"
    folder.mkdir(parents=True)
    for name in {*texts.HOSTS, texts.BEFORE, texts.AFTER}:
        part = {"command": "pmoss", "code": {"modules": []}, "figures": figures.get(name, [])}
        content = {"version": "0.2.0", "machine": MACHINE, "parts": {"index": part}}
        (folder / f"{name}.json").write_text(json.dumps(content))
    return Stored(root)


def test_hosts_stand_side_by_side_and_goals_are_counted(tmp_path):
    first, second = texts.HOSTS
    alone = {**SLOW, "name": "alone", "goal": ">= 9 x"}
    text = texts.performance(stored(tmp_path, **{first: [FAST, SCALE], second: [SLOW, alone]}))
    assert f"| figure | goal | {first} | {second} |" in text
    assert "| lookups / a peer | >= 2 x | 4 [3.9, 1,234] x | 1.6 [1.5, 1.7] x, missed |" in text
    assert "| alone | >= 9 x |  | 1.6 [1.5, 1.7] x, missed |" in text
    assert "for scale" not in text  # it has no goal
    assert f"0 of 1 goals are missed on `{first}`." in text
    assert f"2 of 2 goals are missed on `{second}`." in text


def test_a_goal_that_rose_is_told_with_both_values(tmp_path):
    first, second = texts.HOSTS
    rose = {**SLOW, "goal": ">= 3 x"}
    text = texts.performance(stored(tmp_path, **{first: [FAST], second: [rose]}))
    assert "| >= 2 x; >= 3 x |" in text


def test_one_host_before_and_after(tmp_path):
    before, after = texts.BEFORE, texts.AFTER
    figures = {before: [SLOW, COST], after: [FAST, COST, {**FAST, "name": "new"}]}
    text = texts.before_and_after(stored(tmp_path, **figures))
    assert f"| figure | {before} | {after} | after / before |" in text
    assert "| lookups / a peer | 1.6 [1.5, 1.7] x | 4 [3.9, 1,234] x | 2.50 |" in text
    assert "new" not in text and "cost" not in text  # one is not in both, one may be 0

"""Replaying result files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pmoss_datasets.evaluation import replay
from pmoss_env.errors import DescriptionError, UnsupportedError
from tests.datasets.evaluation.policies import written


def test_replay_names_every_mismatch(tmp_path, evaluation):
    path = written(tmp_path / "r.jsonl", evaluation)
    rows = evaluation.rows
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["throughput"] = np.nextafter(lines[1]["throughput"], 100)
    lines[2]["actions"][3] = 999
    lines[3]["actions"].pop()
    lines[4]["actions"].append(1)
    lines[5]["illegal_actions"] = 7
    path.write_text("\n".join(json.dumps(line) for line in lines))
    progress = []
    report = replay(path, lambda *at: progress.append(at))
    assert report.episodes == len(rows)
    assert len(progress) == len(rows)
    of_line = {m.partition(":")[0]: m for m in report.mismatches}
    assert set(of_line) == {f"line {n}" for n in range(2, 7)}
    assert "throughput: recorded" in of_line["line 2"]
    assert "999" in of_line["line 3"]
    assert any("11 actions do not end" in m for m in report.mismatches)
    assert "illegal_actions: recorded 7, now" in of_line["line 6"]


def test_a_replay_of_some_episodes_takes_all_their_policies(tmp_path, evaluation):
    path = written(tmp_path / "r.jsonl", evaluation)
    every = {(row.seed, row.episode) for row in evaluation.rows}
    policies = {row.policy for row in evaluation.rows}
    assert len(every) > 1
    assert replay(path, episodes=1).episodes == len(policies)
    assert replay(path, episodes=len(every) + 1).episodes == len(evaluation.rows)
    with pytest.raises(DescriptionError, match="episodes = 0"):
        replay(path, episodes=0)


def test_replay_misses_no_episode(tmp_path, evaluation):
    first, second, *others = evaluation.rows
    path = written(tmp_path / "r.jsonl", replace(evaluation, rows=[first, first, *others]))
    mismatches = replay(path).mismatches
    assert len(mismatches) == 2
    assert mismatches[0] == "line 3: the same policy and episode as line 2"
    assert mismatches[1] == f"{second.policy}, seed 0, episode 0: is missing"


def test_measured_results_cannot_be_replayed(tmp_path, evaluation, monkeypatch):
    path = written(tmp_path / "r.jsonl", evaluation)
    from pmoss_env.backends.analytic import AnalyticBackend

    monkeypatch.setattr(AnalyticBackend, "repeatable", False)
    with pytest.raises(UnsupportedError, match="cannot be replayed"):
        replay(path)

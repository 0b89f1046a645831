"""Result files: what is written is what is read and replays, and damage is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pmoss_datasets.evaluation import read_results, replay, write_results
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError
from tests.datasets.evaluation.policies import KWARGS, written


def test_results_survive_writing_to_the_bit(tmp_path, evaluation):
    path = written(tmp_path / "deep" / "results.jsonl", evaluation, search_budget=7)
    header, back = read_results(path)
    assert back == evaluation.rows
    assert header["env_kwargs"] == KWARGS and header["search_budget"] == 300
    assert header["random_schedules"] == 30 and header["rows"] == 30
    assert header["notes"] == {"search_budget": 7}
    assert header["versions"]["numpy"] == np.__version__
    assert header["host"]["logical_cores"] >= 1 and header["command"]
    assert [p.name for p in path.parent.iterdir()] == ["results.jsonl"]


def test_writing_is_whole_or_not_at_all(tmp_path, evaluation):
    path = written(tmp_path / "results.jsonl", evaluation)
    before = path.read_bytes()
    wrong = replace(evaluation.rows[0], throughput=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        write_results(path, replace(evaluation, rows=[*evaluation.rows, wrong]))
    with pytest.raises(ValueError, match="JSON"):
        write_results(path, evaluation, bad=float("nan"))
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def in_row(old, new):
    """Changes the first row of a file's lines."""
    return lambda lines: [lines[0], lines[1].replace(old, new)]


def with_value(field, value):
    """Gives a field of the first row another value."""
    return lambda lines: [lines[0], json.dumps({**json.loads(lines[1]), field: value})]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [], "line 1"),
        (lambda lines: ["{}", *lines[1:]], "header"),
        (lambda lines: ["[1]", *lines[1:]], "line 1: is not a JSON object"),
        (lambda lines: [lines[0].replace('"format_version": 2', '"format_version": 9')], "9"),
        (lambda lines: [lines[0].replace('"search_budget": 300', '"search_budget": 0')], "budget"),
        # No file asks for work without end.
        (lambda lines: [lines[0].replace('budget": 300', f'budget": {10**12}')], "_budget = 1000"),
        (lambda lines: [lines[0].replace('schedules": 30', f'schedules": {10**12}')], "s = 1000"),
        (lambda lines: [lines[0].replace('rows": 30', f'rows": {10**12}')], "rows = 1000"),
        (lambda lines: [lines[0].replace('"rows"', '"row"'), *lines[1:]], "rows: is missing"),
        (lambda lines: lines[:-1], "rows = 30, but 29 follow"),
        (lambda lines: [*lines, lines[-1]], "rows = 30, but 31 follow"),
        (in_row('"seed": 0', '"seed": -1'), "seed = -1: must be"),
        (lambda lines: [lines[0].replace('"env_id"', '"env"')], "env_id"),
        (lambda lines: [lines[0], lines[1][:50]], "line 2: is not JSON"),
        (lambda lines: [lines[0], "[" * 100_000], "line 2: is not JSON"),
        (lambda lines: [*lines[:2], lines[2].replace('"score"', '"skore"')], "line 3: s[ck]ore: "),
        (with_value("score", float("nan")), "line 2: score = nan: must be a finite number"),
        (with_value("throughput", float("inf")), "line 2: throughput = inf: must be a finite"),
        (with_value("measurements", -3), "line 2: measurements = -3: must be a whole number from"),
        (with_value("evaluations", -1), "line 2: evaluations = -1: must be a whole number from 0"),
        (with_value("illegal_actions", -1), "line 2: illegal_actions = -1: must be a whole number"),
        (with_value("seconds_per_decision", -5.0), "seconds_per_decision = -5.0: must be at least"),
        (in_row('"seed": 0', '"seed": "0"'), "line 2: seed = '0': must be a whole number"),
        (in_row('"seed": 0', '"seed": true'), "line 2: seed = True: must be a whole number"),
        (in_row('"actions": [', '"actions": [0.5, '), r"line 2: actions\[0\] = 0.5: must be a wh"),
    ],
)
def test_damaged_files_are_refused_by_line_and_field(tmp_path, evaluation, damage, words):
    path = written(tmp_path / "r.jsonl", evaluation)
    path.write_text("\n".join(damage(path.read_text().splitlines())))
    with pytest.raises(DatasetError, match=words):
        read_results(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_results(tmp_path / "none.jsonl")


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
    assert "throughput: recorded" in of_line["line 2"] and "999" in of_line["line 3"]
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

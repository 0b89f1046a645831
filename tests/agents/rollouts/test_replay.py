"""Rollouts of a file run again and give the same bits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pmoss_agents.rollouts import is_rollout, replay_rollouts, roll_out
from pmoss_datasets.domain import find_domain
from pmoss_env.errors import DatasetError, PmossError, UnsupportedError
from pmoss_env.machines import load_machine

TOY = {"machine": "toy", "slices": 8, "backend": "analytic"}


def written(path: Path, domain: str = "spatial", **more: Any) -> Path:
    env = TOY if domain == "spatial" else {"scans": 6}
    names = ("lpt", "random") if domain == "spatial" else ("oracle", "random")
    policies = {name: find_domain(domain).policy(name) for name in names}
    roll_out(env, policies, episodes=2, seed=3, out=path, domain=domain, **more)
    return path


@pytest.mark.parametrize("domain", ["spatial", "access-path"])
def test_rollouts_replay_to_the_last_bit(domain: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", domain)
    assert is_rollout(path)
    report = replay_rollouts(path)
    assert (report.episodes, report.mismatches) == (4, ())
    assert replay_rollouts(path, episodes=1).episodes == 2


def test_what_ran_before_is_put_there_again(tmp_path: Path) -> None:
    machine = load_machine("toy")
    incumbent = machine.local_schedule([machine.workers[0]] * 8)
    path = written(tmp_path / "r.jsonl", incumbent=incumbent, undo="worse")
    assert replay_rollouts(path).mismatches == ()


def altered(path: Path, line: int, change: Callable[[dict[str, Any]], Any]) -> Path:
    lines = path.read_text().splitlines()
    row = json.loads(lines[line])
    change(row)
    lines[line] = json.dumps(row)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.update(final_mq_per_s=9.0), "line 2: lpt, episode 0: final_mq_per_s"),
        (lambda row: row["cores"].append(1), "must place exactly 8"),
        (lambda row: row.update(cores=[99] * 8), "core 99 does not exist"),
        (lambda row: row.pop("cores"), "cores has shape"),
    ],
)
def test_what_was_altered_is_reported(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    (mismatch,) = replay_rollouts(altered(written(tmp_path / "r.jsonl"), 1, change)).mismatches
    assert message in mismatch


@pytest.mark.parametrize("actions", [None, [0.5], "no", [0], [7] * 6])
def test_actions_of_others_are_checked(actions: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", "access-path")
    (mismatch,) = replay_rollouts(
        altered(path, 1, lambda row: row.update(actions=actions))
    ).mismatches
    assert mismatch.startswith("line 2: oracle, episode 0: ")


@pytest.mark.parametrize(
    ("line", "change", "error"),
    [
        (0, lambda row: row.pop("seed"), DatasetError),
        (0, lambda row: row.update(incumbent={"cores": 1}), DatasetError),
        (0, lambda row: row.update(domain="none"), PmossError),
        (0, lambda row: row.update(env={"slices": "many"}), PmossError),
        (0, lambda row: row["env"].update(backend="hardware", machine="host"), UnsupportedError),
        (2, lambda row: row.update(episode=-1), DatasetError),
    ],
)
def test_a_damaged_file_is_refused(
    line: int, change: Callable[[dict[str, Any]], Any], error: type[Exception], tmp_path: Path
) -> None:
    path = altered(written(tmp_path / "r.jsonl"), line, change)
    with pytest.raises(error):
        replay_rollouts(path)

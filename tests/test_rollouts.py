"""Policies that place slices, episode by episode, and go on after an interruption."""

from pathlib import Path
from typing import Any

import pytest

from pmoss_env.baselines import make_baseline
from pmoss_env.errors import DescriptionError
from pmoss_env.evaluation import SchedulePolicy
from pmoss_env.rollouts import roll_out

TOY = {"machine": "toy", "slices": 8, "backend": "analytic"}
POLICIES = {name: SchedulePolicy(make_baseline(name)) for name in ("lpt", "spread")}


def test_every_policy_meets_the_same_incumbents(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    rows = roll_out(TOY, POLICIES, episodes=2, seed=3, on_row=seen.append)
    assert seen == rows
    assert [(row["episode"], row["policy"]) for row in rows] == [
        (0, "lpt"),
        (0, "spread"),
        (1, "lpt"),
        (1, "spread"),
    ]
    for first, second in (rows[:2], rows[2:]):
        assert first["incumbent_mq_per_s"] == second["incumbent_mq_per_s"] > 0
    assert all(len(row["cores"]) == 8 and row["final_mq_per_s"] > 0 for row in rows)


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"

    class StopError(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["episode"] == 1:
            raise StopError

    with pytest.raises(StopError):
        roll_out(TOY, POLICIES, episodes=3, seed=3, out=out, on_row=stop)
    kept = out.read_bytes()
    rows = roll_out(TOY, POLICIES, episodes=3, seed=3, out=out)
    assert out.read_bytes().startswith(kept)
    whole = roll_out(TOY, POLICIES, episodes=3, seed=3)
    for row, again in zip(rows, whole, strict=True):
        assert {**row, "policy_seconds": 0} == {**again, "policy_seconds": 0}
    with pytest.raises(DescriptionError, match="seed differ"):
        roll_out(TOY, POLICIES, episodes=3, seed=4, out=out)


def test_this_host_rolls_out() -> None:
    options = {"records": 5_000, "seconds": 0.05, "warmup_seconds": 0.01}
    env = {"machine": "host", "slices": 4, "backend": "hardware", "backend_options": options}
    (row,) = roll_out(env, {"lpt": POLICIES["lpt"]}, episodes=1, seed=0)
    assert row["final_mq_per_s"] > 0
    assert row["provenance"]["backend"] == "hardware"

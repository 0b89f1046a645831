"""The loop on this host: ratios are those of one block, and what a part gives."""

from pathlib import Path
from typing import Any

import pytest

from pmoss_benchmarks.functions.autopilot import (
    GOALS,
    TABLES,
    Settings,
    cells,
    env_of,
    measure,
    summarise,
)
from pmoss_benchmarks.study.function import Run
from pmoss_env.machines import load_machine

FEW = {"records": 5_000, "warmup_seconds": 0.01, "routers": "workers"}


def block(autopilot: float, made: float, stay: float, load: float = 1.0) -> dict[str, Any]:
    served = {"autopilot": autopilot, "made": made, "stay": stay}
    return {"kind": "block", "mq_per_s": served, "host_load": load}


def null(kept: int, load: float) -> dict[str, Any]:
    return {"kind": "null", "trials": 50, "kept": kept, "host_load": load}


def test_ratios_are_of_one_block() -> None:
    rows = [null(1, 3.0), null(0, 1.0), block(2.0, 4.0, 1.0), block(30.0, 30.0, 20.0, 2.5)]
    summary = summarise({}, rows)
    assert [summary["null"][key] for key in ("trials", "kept")] == [100, 1]
    rate = summary["null"]["rate"]
    assert rate["value"] == 0.01 and 0 < rate["low"] < 0.01 < rate["high"] < 0.06
    assert summary["made"]["ratio"]["value"] == 0.75
    assert summary["stay"]["ratio"]["value"] == 1.75
    assert [summary["made"][key] for key in ("least", "greatest", "blocks")] == [0.5, 1.0, 2]
    assert summary["host_load"] == {"null": (1.0, 3.0), "block": (1.0, 2.5)}
    assert {name: summary[name]["goal"] for name in GOALS} == GOALS
    assert len(TABLES["default"](rows).rows) == 3
    assert len(TABLES["default"](rows[:2]).rows) == 1


@pytest.mark.skipif(load_machine("host").workers.size != 2, reason="needs two worker cores")
def test_every_side_serves_once(tmp_path: Path) -> None:
    usual = env_of(Settings(epoch_seconds=0.1))
    drift = {**usual["drift_options"], "period": 2}
    env = {"slices": 8, "backend_options": FEW, "drift_options": drift}
    settings = Settings(blocks=1, nulls=1, trials=2, phases=1, epoch_seconds=0.1, env=env)
    run = Run(settings, tmp_path, tmp_path, tmp_path)
    trials, whole = (measure(run, cell) for cell in cells(settings))
    assert trials["trials"] == 2 and 0 <= trials["kept"] <= 2 and trials["pairs"] >= 8
    assert sorted(whole["order"]) == sorted(whole["mq_per_s"]) and len(whole["order"]) == 3
    assert sum(whole["verdicts"].values()) == 2
    assert set(whole["moved_off"]) <= {"0", "1"}

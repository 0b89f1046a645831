"""The comparison on this host: parts are kept, and ratios are those of one block."""

import json

import numpy as np
import pytest

from pmoss_benchmarks.autopilot.comparison import (
    GOALS,
    Part,
    Plan,
    measure,
    rate_in_words,
    summary,
    usual_env,
)
from pmoss_benchmarks.autopilot.comparison import _with_share as with_share
from pmoss_benchmarks.texts.pages import BLOCKS
from pmoss_benchmarks.texts.stored import Stored
from pmoss_env.machines import load_machine
from tests.cli.invoking import pmoss

FEW = {"records": 5_000, "warmup_seconds": 0.01, "routers": "workers"}
SMALL = {"slices": 8, "backend_options": FEW}


def block(autopilot, made, stay, load=1.0):
    served = {"autopilot": autopilot, "made": made, "stay": stay}
    return {"kind": "block", "mq_per_s": served, "host_load": load}


def test_ratios_are_of_one_block():
    result = summary(
        [
            {"kind": "null", "trials": 50, "kept": 1, "host_load": 3.0},
            {"kind": "null", "trials": 50, "kept": 0, "host_load": 1.0},
            block(2.0, 4.0, 1.0),
            block(30.0, 30.0, 20.0),
        ]
    )
    null = result["null"]
    assert [null[key] for key in ("trials", "kept", "rate")] == [100, 1, 0.01]
    assert rate_in_words(null) == "1.0 % [0.2, 5.4]"
    assert result["made"]["ratio"] == 0.75 and result["stay"]["ratio"] == 1.75
    assert [result["made"][key] for key in ("least", "most", "blocks")] == [0.5, 1.0, 2]
    assert result["host_load"] == [1.0, 3.0]
    assert {name: result[name]["goal"] for name in GOALS} == GOALS


def test_the_text_tells_ratios_and_load(tmp_path):
    folder = tmp_path / "benchmarks" / "results" / "autopilot"
    folder.mkdir(parents=True)
    report = {
        "command": "pmoss benchmark autopilot",
        "version": "0",
        "machine": {"cpu_model": "a processor", "cpus": 2},
        "cells": [block(2.0, 4.0, 1.0), block(30.0, 30.0, 20.0, load=2.5)],
    }
    (folder / "blocks.json").write_text(json.dumps(report))
    text = BLOCKS["autopilot"](Stored(tmp_path))
    assert "1.75 times what staying did, 1.50 to 2.00 in 2 blocks; wanted were 1.15." in text
    assert "0.75 times what a schedule made for each phase did" in text
    assert "1 to 2.5, with the loop's own" in text and "blocks.json" in text


def test_nothing_to_measure_is_refused():
    output = pmoss("benchmark", "autopilot", "--trials", "0", "--blocks", "0", status=2)
    assert "nothing is left to measure" in output


def test_a_disturbed_core_keeps_its_share():
    workers = np.array([0, 1], dtype=np.int32)
    for share, kept in ((1.0, 4), (0.5, 2), (0.75, 3)):
        cores = with_share(np.ones(8), 1, workers, share)
        assert np.count_nonzero(cores == 1) == kept
    assert np.flatnonzero(with_share(np.ones(8), 0, workers, 0.5) == 0).tolist() == [0, 2]


@pytest.mark.skipif(load_machine("host").workers.size != 2, reason="needs two worker cores")
def test_every_side_serves_once():
    env = usual_env(0.1)
    env = {**env, **SMALL, "drift_options": {**env["drift_options"], "period": 2}}
    plan = Plan(env, "pace", trials=2, phases=1)
    null, whole = (measure(plan, Part(kind, 0)) for kind in ("null", "block"))
    assert null["trials"] == 2 and 0 <= null["kept"] <= 2 and null["pairs"] >= 8
    assert sorted(whole["order"]) == sorted(whole["mq_per_s"]) and len(whole["order"]) == 3
    assert sum(whole["verdicts"].values()) == 2
    assert set(whole["moved_off"]) <= {"0", "1"}

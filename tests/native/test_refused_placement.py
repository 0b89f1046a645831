"""A process that may not place memory, as in a container, gets the reason and no more."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pmoss_env import _native

#: Numbers of mbind, move_pages and get_mempolicy.
CALLS = {
    "x86_64": {"mbind": 237, "get_mempolicy": 239, "move_pages": 279},
    "aarch64": {"mbind": 235, "get_mempolicy": 236, "move_pages": 239},
}[platform.machine()]

MEASURE = """
import json, sys
import numpy as np
from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.workloads.catalog import load_workload
from pmoss_env.workloads.description import resized

cpu = _native.host_topology()["allowed_cpus"][0]
spec = native_workload(resized(load_workload("ycsb-a"), 20_000), 0)
runner = _native.Runner(spec, "btree", slices=16, huge_pages=False)
runner.load()
results = {"refusal": _native.placement_refusal()}
for data in ("slice", "interleaved", "first_touch", "keep"):
    try:
        raw = runner.measure(
            np.full(16, cpu), worker_cpus=[cpu], nodes=[0] * 16, data=data,
            strategy=sys.argv[1], pace="aggressive", seconds=0.05, warmup_seconds=0.0, window=0,
        )
        # On a busy host so short a measurement may complete no query.
        results[data] = [raw["seconds"] >= 0.05, raw["migration"]["slices"], raw["in_place"]]
    except _native.PlacementRefused as error:
        results[data] = str(error)
print(json.dumps(results))
"""

BACKEND = """
import json
from pmoss_env.backends import make_backend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import PlacementError

backend = make_backend("hardware", machine="host", workload="ycsb-a", slices=8, records=20_000,
                       seconds=0.05, warmup_seconds=0.0, own_process=False)
schedule = make_baseline("spread")(Context(backend.machine, 8))
answers = [backend.measure(schedule, seed=0).provenance["data"]]
backend.not_asked = ""  # as on a host with several nodes
try:
    backend.measure(schedule, seed=0)
except PlacementError as error:
    answers.append(str(error))
print(json.dumps(answers))
"""

REPORT = """
import json
from dataclasses import astuple
from pmoss_env.host_report import host_report

print(json.dumps([astuple(check) for check in host_report().checks]))
"""


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("refuse") / "refuse.so"
    source = Path(__file__).with_name("refuse.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run_refused(preload: Path, calls: list[str], program: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={
            **os.environ,
            "LD_PRELOAD": str(preload),
            "PMOSS_REFUSED": "," + "".join(f"{CALLS[name]}," for name in calls),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("strategy", ["copy", "move_pages"])
@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_is_an_error_that_names_the_way_out(preload, call, strategy):
    results = run_refused(preload, [call], MEASURE, strategy)
    for data in ("slice", "interleaved", "first_touch"):
        for words in ("seccomp", "CAP_SYS_NICE", "cpuset.mems", "keep"):
            assert words in results[data], (data, results[data])
    assert results["refusal"] in results["slice"]
    # What stays where it is needs none of these calls.
    assert results["keep"] == [True, 0, True]


def test_the_same_process_measures_where_nothing_is_refused(preload: Path) -> None:
    if refusal := _native.placement_refusal():
        pytest.skip(refusal)
    results = run_refused(preload, [], MEASURE, "copy")
    assert results["refusal"] == ""
    # What lies on the node already stays.
    assert results["slice"] == [True, 16, True]
    assert results["first_touch"][0::2] == [True, True]


def test_on_one_node_the_backend_asks_nothing_and_says_so(preload: Path) -> None:
    if len(_native.host_topology()["nodes"]) > 1:
        pytest.skip("this host has several nodes")
    data, refused = run_refused(preload, list(CALLS), BACKEND)
    assert "seccomp" in data["not_known"]
    assert data["home_share"] is None
    assert data["moved"]["slices"] == 0
    assert data["not_in_place"] == {}
    assert "seccomp" in refused


def test_the_host_report_says_so(preload: Path) -> None:
    report = {
        name: (value, words) for name, value, words in run_refused(preload, ["mbind"], REPORT)
    }
    assert report["memory placement"][0] == "refused"
    assert "CAP_SYS_NICE" in report["memory placement"][1]

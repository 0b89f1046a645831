"""Runs in the guest: the hardware environment and rollouts on four nodes.

Prints ``RESULT`` lines with one JSON object each; test_hardware.py judges them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.cli.rollout import rollout
from pmoss_env.backends import make_backend
from pmoss_env.machines import load_machine
from pmoss_env.types import Schedule

#: The emulated processors are slow: little of everything.
SLICES, RECORDS = 8, 20_000
OPTIONS = {"records": RECORDS, "seconds": 1.0, "warmup_seconds": 0.2}
FOLDER = Path("/results")


def result(name: str, **values: Any) -> None:
    """Prints a line that the host reads."""
    print("RESULT", json.dumps({"name": name, **values}), flush=True)


def place_data() -> None:
    """Each slice on a node of its own choice, moved there, and what the kernel says afterwards."""
    backend = make_backend("hardware", machine="host", slices=SLICES, workload="lookups", **OPTIONS)
    machine = backend.machine
    try:
        for turn in (0, 1):
            nodes = (np.arange(SLICES) + turn) % machine.nodes
            cores = np.array([machine.workers[machine.node_of_core == n][0] for n in nodes])
            snapshot = backend.measure(Schedule(cores, nodes), seed=turn)
            data = snapshot.provenance["data"]
            result(
                f"placed-{turn}",
                nodes=nodes.tolist(),
                throughput=snapshot.throughput,
                data={key: data[key] for key in data if not isinstance(data[key], dict)},
            )
    finally:
        backend.close()


def roll_out() -> None:
    """Policies act on the index, and each is undone."""
    out = FOLDER / "rollout.jsonl"
    rollout(
        ["random", "os-default"],
        backend="hardware",
        machine="host",
        env=[f"slices={SLICES}", "workload=lookups"],
        options=[f"{key}={value}" for key, value in OPTIONS.items()],
        episodes=1,
        undo="always",
        out=out,
    )
    for line in out.read_text().splitlines()[1:]:
        row = json.loads(line)
        result(f"rollout-{row['policy']}", restored=row["restored"])


def main() -> None:
    """All of it."""
    FOLDER.mkdir(exist_ok=True)
    machine = load_machine("host")
    result("host", nodes=machine.nodes, workers=machine.workers.size)
    place_data()
    roll_out()


main()

"""Runs in the guest: the hardware environment, rollouts, the autopilot and an export on four nodes.

Prints ``RESULT`` lines with one JSON object each; test_hardware.py judges them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pmoss_agents.cli.autopilot import autopilot
from pmoss_agents.cli.rollout import rollout
from pmoss_env.backends import make_backend
from pmoss_env.machines import load_machine
from pmoss_env.types import Schedule

#: The emulated processors are slow: little of everything.
SLICES, RECORDS = 8, 20_000
OPTIONS = {"records": RECORDS, "seconds": 1.0, "warmup_seconds": 0.2}
POLICIES = ["lpt", "random", "os-default"]
FOLDER = Path("/results")


def result(name: str, **values: Any) -> None:
    """Prints a line that the host reads."""
    print("RESULT", json.dumps({"name": name, **values}), flush=True)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Lines of a result file that are episodes or epochs."""
    return [json.loads(line) for line in path.read_text().splitlines()]


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


def play_environment() -> None:
    """An episode with random actions."""
    env = gymnasium.make(
        "pmoss/SpatialScheduling-v0",
        machine="host",
        backend="hardware",
        backend_options=OPTIONS,
        workload="lookups",
        slices=SLICES,
    )
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    steps, reward, over = 0, 0.0, False
    while not over:
        _, gained, ended, cut, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        steps, reward, over = steps + 1, reward + float(gained), ended or cut
    env.close()
    result("episode", steps=steps, reward=reward)


def roll_out() -> None:
    """Three policies act on the index, each is undone, and the last placements are exported."""
    out, placements = FOLDER / "rollout.jsonl", FOLDER / "placements"
    rollout(
        POLICIES,
        backend="hardware",
        machine="host",
        env=[f"slices={SLICES}", "workload=lookups"],
        options=[f"{key}={value}" for key, value in OPTIONS.items()],
        episodes=1,
        undo="always",
        export="numactl",
        export_to=placements,
        out=out,
    )
    for row in rows_of(out):
        if "policy" in row:
            result(f"rollout-{row['policy']}", restored=row["restored"])
    result("export", files=sorted(str(p.relative_to(placements)) for p in placements.rglob("*.*")))


def fly() -> None:
    """Some epochs of the autopilot."""
    out = FOLDER / "epochs.jsonl"
    autopilot(
        "repair",
        drift="busy-cores",
        workload="lookups",
        slices=SLICES,
        records=RECORDS,
        epochs=3,
        epoch_seconds=2.0,
        out=out,
    )
    result("autopilot", rows=len(rows_of(out)))


def main() -> None:
    """All of it."""
    FOLDER.mkdir(exist_ok=True)
    machine = load_machine("host")
    result("host", nodes=machine.nodes, workers=machine.workers.size)
    place_data()
    play_environment()
    roll_out()
    fly()


main()

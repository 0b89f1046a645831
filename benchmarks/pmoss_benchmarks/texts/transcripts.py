"""What commands print, stored as results: ``python -m pmoss_benchmarks.texts.transcripts``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pmoss_env.files import write_atomically
from pmoss_env.provenance import MEASURED, provenance

FOLDER = Path(__file__).parents[2] / "results" / "transcripts"
#: By name: the command, and the modules that do it.
COMMANDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "rollout": (
        "pmoss run rollout lpt-capacity random --machine skylake-x-8n --backend simulated "
        "-o records=200000 --undo worse --episodes 1 --seed 1",
        ["pmoss_agents.rollouts"],
    ),
    "explain": (
        "pmoss explain os-default lpt-capacity -e interference=busy_core --top 3",
        ["pmoss_agents.explaining"],
    ),
    "threads": (
        "pmoss run threads --slow-node 0 --seconds 10 -- "
        "pmoss run load readrandom --threads 4 --seconds 60",
        ["pmoss_env.envs.threads.live", "pmoss_agents.threads"],
    ),
}


def record(name: str) -> None:
    """Runs a command of COMMANDS and stores what it prints, in lines of at most 100 columns."""
    command, modules = COMMANDS[name]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command.split(),
        env={**os.environ, "PATH": programs, "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    output = "\n".join(lines).strip()
    path = FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {**provenance(modules, MEASURED), "command": command, "output": output}
    write_atomically(path, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or COMMANDS:
        record(wanted)

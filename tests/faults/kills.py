"""Kills at random moments: the same command goes on, and its results are the same bits."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pmoss_datasets import open_dataset

_MARK = "PMOSS_CAMPAIGN"
#: Says that Python and the package stand: what interrupts them before is not the command's.
_BEGUN = "the command begins"
_START = f"from pmoss_env.cli import main; print({_BEGUN!r}, flush=True); main()"
_SMALL = "-e machine=toy -e slices=4"


@dataclass(frozen=True)
class Work:
    """A command that is killed.

    Attributes:
        words: of the command; {out} is a folder of its own.
        digest: what must come out again, of that folder; None where results do not repeat.
        kept: the file whose finished rows must survive.
    """

    words: str
    digest: Callable[[Path], str] | None
    kept: str = ""


def _dataset(folder: Path) -> str:
    return open_dataset(folder).checksum


def _rows(path: Path, *keys: str, without: Sequence[str] = ()) -> str:
    """A digest of rows: of some keys, or of all but some."""
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    kept = [
        {key: row.get(key) for key in keys or row if key not in without}
        for row in rows
        if not row.get("cell", "").startswith("@")  # a run of a study
    ]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


#: Where policies put the slices, and what that gave.
PLACED = ("policy", "episode", "cores", "incumbent_mq_per_s", "final_mq_per_s")


def _weights(path: Path) -> str:
    import pmoss_agents

    arrays, _ = pmoss_agents.load(path)._state()
    return hashlib.sha256(b"".join([arrays[name].tobytes() for name in sorted(arrays)])).hexdigest()


WORKS = {
    "collect": Work(
        f"data collect {{out}}/data {_SMALL} --episodes 60",
        lambda folder: _dataset(folder / "data"),
        "data.partial",
    ),
    "build": Work(
        f"data collect {{out}}/data {_SMALL} --episodes 60 --processes 2",
        lambda folder: _dataset(folder / "data"),
        "data.partial",
    ),
    "train": Work(
        "train pmoss/toy-btree-ycsb-a-busy-core/mixed-v0 {out}/a.safetensors --set layers=1 "
        "--set heads=1 --set width=8 --set channels=4 --set updates=8 --set save_every=2 "
        "--overwrite",
        lambda folder: _weights(folder / "a.safetensors"),
    ),
    "study": Work(
        'study run headroom --small --set workloads=["lookups"] '
        '--set interference=["none","busy_core"] --set budget=50 --set instances=2 '
        "--out {out}/h.jsonl",
        lambda folder: _rows(folder / "h.jsonl", without=("run", "row_crc32")),
        "h.jsonl",
    ),
    "rollout": Work(
        "run rollout --machine toy --backend analytic -e slices=4 --episodes 20 "
        "--out {out}/r.jsonl",
        lambda folder: _rows(folder / "r.jsonl", *PLACED),
        "r.jsonl",
    ),
    "evaluate": Work(
        "evaluate lpt random local-search -e machine=toy -e slices=8 --budget 200 "
        "--seeds 2 --episodes 20 --out {out}/e.jsonl --overwrite",
        lambda folder: _rows(folder / "e.jsonl", without=("seconds_per_decision",)),
        "e.jsonl.partial",
    ),
    "threads": Work("run threads --seconds 2 -- sleep 2", None),
}


def _start(work: Work, folder: Path, mark: str) -> subprocess.Popen[bytes]:
    words = [word.format(out=folder) for word in work.words.split()]
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _START, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, _MARK: mark},
        )


def _wait_for_begin(child: subprocess.Popen[bytes], output: Path) -> None:
    while child.poll() is None and _BEGUN not in output.read_text(errors="replace"):
        time.sleep(0.01)


def _left(mark: str) -> list[int]:
    """Processes of a command that still run."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{_MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    processes.append(int(entry.name))
            except OSError:
                continue
    return processes


def _orphans(mark: str) -> list[int]:
    """Those that still run after they had time to notice."""
    for _ in range(100):
        if not (left := _left(mark)):
            return []
        time.sleep(0.1)
    return left


def _finished(folder: Path, work: Work) -> set[str]:
    """Whole rows of the file that must keep them."""
    path = folder / work.kept
    if not work.kept or not path.is_file():
        return set()
    return {line for line in path.read_text(errors="replace").split("\n")[1:-1] if line}


def run_one(number: int, scratch: Path, whole: dict[str, str], seed: int = 0) -> dict[str, object]:
    """Kills a command at a random moment, runs it again, and reports the result."""
    rng = np.random.default_rng([seed, number])
    name = list(WORKS)[number % len(WORKS)]
    work, mark = WORKS[name], f"{os.getpid()}-{number}"
    folder = scratch / str(number)
    folder.mkdir()
    began = time.monotonic()
    if work.digest is not None and name not in whole:
        assert _start(work, folder, mark).wait() == 0, (folder / "output").read_text()[-2000:]
        whole[name] = work.digest(folder)
        whole[f"{name} seconds"] = str(time.monotonic() - began)
        folder = scratch / f"{number}-again"
        folder.mkdir()
    number_of = int(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
    child = _start(work, folder, mark)
    _wait_for_begin(child, folder / "output")
    try:
        child.wait(float(rng.uniform(0.2, 1.1)) * float(whole.get(f"{name} seconds", 4)))
    except subprocess.TimeoutExpired:
        os.kill(child.pid, number_of)
        child.wait()
    kept = _finished(folder, work)
    faults = []
    if left := _orphans(mark):
        faults.append("orphans")
        for process in left:
            os.kill(process, signal.SIGKILL)
    output = (folder / "output").read_text(errors="replace")
    if "Traceback" in output:
        faults.append("traceback")
    stray = [p.name for p in folder.rglob(".*") if number_of != signal.SIGKILL]
    if stray:
        faults.append("stray files")
    done = (folder / "data").is_dir() or not kept
    if work.digest is not None:
        if not (folder / "data").is_dir() and _start(work, folder, mark).wait() != 0:
            faults.append("failed")
        elif work.digest(folder) != whole[name]:
            faults.append("other bits")
        now = _finished(folder, work)
        if not done and (folder / work.kept).is_file() and not kept <= now:
            faults.append("lost results")
    return {
        "number": number,
        "work": name,
        "signal": signal.Signals(number_of).name,
        "rows": len(kept),
        "faults": faults,
        "output": output[-1500:] if faults else "",
    }

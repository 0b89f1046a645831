"""The campaign of seeded mutations: each file is read in a child process with limits."""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from pmoss_env.cli.output import printable
from pmoss_env.errors import PmossError
from tests.faults.inputs import KINDS, Kind
from tests.faults.mutations import mutated
from tests.faults.tampering import FRAGMENT

#: Limits of a child: bytes above what it starts with, and seconds of processor time.
MEMORY, SECONDS = 4 << 30, 20
_EXECUTED = 77


def run_one(sound: Path, number: int, seed: int = 0) -> dict[str, object]:
    """Mutates a file of some kind, reads it in a child, and reports what happened."""
    names = list(KINDS)
    name = names[number % len(names)]
    kind = KINDS[name]
    with tempfile.TemporaryDirectory(dir=sound.parent) as scratch:
        top = kind.file.split("/")[0]
        shutil.copytree(sound / top, Path(scratch) / top)
        path = Path(scratch) / kind.file
        before = path.read_bytes()
        # As a hostile writer would: the checksum fits what the metadata say.
        after = mutated(before, kind.text, np.random.default_rng([seed, number]))
        path.write_bytes(after)
        kind.after(path.parent)
        expected = kind.read((sound / kind.file).parent) if kind.sealed else None
        outcome = _in_child(kind, path.parent, Path(scratch), expected)
    return {"number": number, "kind": name, "same": after == before, **outcome}


def _in_child(kind: Kind, folder: Path, scratch: Path, expected: object) -> dict[str, object]:
    report = scratch / "report"
    child = os.fork()
    if child == 0:
        _read(kind, folder, scratch, expected, report)
    deadline = time.monotonic() + 10 * SECONDS
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"outcome": "hang", "message": "waits without work"}
        time.sleep(0.002)
    status = ended[1]
    if os.WIFSIGNALED(status):
        what = "hang" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "crash"
        return {"outcome": what, "message": signal.Signals(os.WTERMSIG(status)).name}
    if os.WEXITSTATUS(status) == _EXECUTED:
        return {"outcome": "executed", "message": report.read_text()}
    return (
        dict(json.loads(report.read_text()))
        if report.exists()
        else {"outcome": "crash", "message": ""}
    )


def _read(kind: Kind, folder: Path, scratch: Path, expected: object, report: Path) -> None:
    """The child: reads, and writes what came of it. Never returns."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        started = event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn")
        imported = event == "import" and FRAGMENT in str(arguments[0])
        written = event == "open" and _writes_outside(arguments, scratch)
        if started or imported or written:
            report.write_text(f"{event} {arguments!r}"[:500])
            os._exit(_EXECUTED)

    sys.addaudithook(watch)
    try:
        data = kind.read(folder)
        wrong = kind.sealed and data != expected
        outcome = {"outcome": "wrong data" if wrong else "accepted", "message": ""}
    except PmossError as error:
        text = str(error)
        outcome = {"outcome": "refused", "message": printable(text, lines=False)[:300]}
    except MemoryError:
        outcome = {"outcome": "memory", "message": ""}
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        text = f"{type(error).__name__}: {error} ({place})"
        outcome = {"outcome": "foreign", "message": printable(text, lines=False)[:500]}
    report.write_text(json.dumps(outcome))
    os._exit(0)


def _writes_outside(arguments: tuple[object, ...], scratch: Path) -> bool:
    path, _mode, flags = (*arguments, None, None)[:3]
    writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    place = str(path) if isinstance(path, str | os.PathLike) else ""
    return bool(writes and place and not place.startswith((str(scratch), "/dev/null")))

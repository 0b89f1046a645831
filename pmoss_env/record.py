"""Records the memory accesses of a user-defined library, for the models of machines.

The library serves queries in a process of its own under tools of Valgrind. Callgrind counts the
instructions. DRD prints the memory accesses from the first query on, so that loading is fast. It
cannot print stores of more than 8 bytes. For a library with such stores Lackey is used, which
prints everything from the start of the process.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np

from pmoss_env import _native
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import PluginError, RecordingError, UnsupportedError
from pmoss_env.indexes import PLUGIN, check_hint, holds_points, register_plugin
from pmoss_env.plugin_recordings import (
    RecordedInstance,
    Recording,
    library_facts,
    remove_instances,
    save_instance,
)
from pmoss_env.workloads import Workload
from pmoss_env.workloads.description import WORD_BYTES

#: Called with the name of a stage, the work done and all work of the stage.
Progress = Callable[[str, int, int], None]

_KINDS = 4
#: Queries of each kind whose instructions are counted.
_COUNTED = 2_000
_PIECE = 1 << 18
#: Printed by DRD before it aborts at a wide store.
_WIDE_STORE = b"sizeof(HWord) == 4"
_TOOLS = {
    # One frame names the instruction; frames of inlined functions would be more lines.
    "drd": ("--tool=drd", "-q", "--num-callers=1", "--read-inline-info=no"),
    "lackey": ("--tool=lackey", "--trace-mem=yes", "--basic-counts=no"),
}


def record(
    path: str | Path,
    out: str | Path,
    *,
    workload: Workload,
    slices: int,
    queries: int,
    instances: int = 1,
    progress: Progress = lambda stage, done, total: None,
) -> Recording:
    """Records the memory accesses of a workload's queries in a library.

    Args:
        path: of the library, with or without "plugin:".
        out: folder of the recording; an older recording is replaced.
        workload: for an index on keys; ``records`` records are loaded.
        slices: number of key ranges, which the library gets.
        instances: number of workload instances, with the seeds 0 to instances - 1.

    Raises:
        PluginError: no library, or it failed or crashed.
        UnsupportedError: Valgrind is not installed; a workload on points, or of large values.
        RecordingError: the tool failed.
        DescriptionError: an invalid workload.
        ValueError: invalid numbers.
    """
    library = Path(register_plugin(path).removeprefix(PLUGIN))
    if holds_points(workload.index):
        raise UnsupportedError(
            f"workload {workload.name!r} is for an index on points, and a library holds keys"
        )
    if workload.value_bytes != WORD_BYTES:
        raise UnsupportedError(
            f"workload {workload.name!r}: value_bytes = {workload.value_bytes}: recordings are of "
            f"values of {WORD_BYTES} bytes; measure larger ones with hardware"
        )
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise UnsupportedError(
            "recording a library needs Valgrind, which is not installed: apt-get install valgrind"
        )
    facts = library_facts(library)
    done: list[RecordedInstance] = []
    try:
        for seed in range(instances):
            with tempfile.TemporaryDirectory(prefix="pmoss-record-") as folder:
                recorder = _Recorder(
                    valgrind, library, Path(folder), workload, slices, queries, progress
                )
                done.append(save_instance(Path(out), seed, *recorder.record(seed)))
        recording = Recording(Path(out), facts, workload, slices, queries, tuple(done))
        recording.save()
    except BaseException:
        # An older recording of the folder stays valid; the two may share instances.
        remove_instances(Path(out), done)
        raise
    return recording


class _Recorder:
    """Records an instance; the caller removes the folder of its files."""

    def __init__(
        self,
        valgrind: str,
        library: Path,
        folder: Path,
        workload: Workload,
        slices: int,
        queries: int,
        progress: Progress,
    ) -> None:
        self._valgrind, self._library, self._folder = valgrind, library, folder
        self._workload, self._slices, self._queries = workload, slices, queries
        self._progress = progress
        #: Written by the child at its end; missing if the library ended the process.
        self._end = folder / "facts.end"

    def record(self, seed: int) -> tuple[_native.Trace, dict[str, object]]:
        """The trace of an instance, and facts about the recording."""
        native = native_workload(self._workload, seed)
        planned = _native.PlannedQueries(native, self._slices, queries=self._queries)
        planned.keys.tofile(self._folder / "keys")
        queries = planned.operations
        queries.tofile(self._folder / "queries")
        costs = self._costs(np.bincount(queries[1::3].astype(np.int64), minlength=_KINDS))
        accesses = _native.AccessTrace(planned)
        used = "drd"
        if not self._accesses(used, accesses):
            used, accesses = "lackey", _native.AccessTrace(planned)
            self._accesses(used, accesses)
        trace = accesses.finish(costs)
        return trace, {
            "tool": used,
            "costs": costs,
            "touched": round(trace.mean_dependent + trace.mean_streaming, 2),
            "left_out": round(accesses.left_out, 2),
        }

    def _costs(self, counts: np.ndarray) -> list[tuple[float, float]]:
        """Instructions and branch misses of a query of each kind; zeros for one that is missing."""
        self._progress("counting", 0, 1)
        counted = [min(_COUNTED, int(count)) for count in counts]
        out = self._folder / "counts"
        words = ["--tool=callgrind", "-q", "--instr-atstart=no", "--branch-sim=yes"]
        with self._child([*words, f"--callgrind-out-file={out}"], _COUNTED) as (child, output):
            while os.read(output.fileno(), _PIECE):  # a full pipe would stop the tool
                pass
            self._check(child, "while its instructions were counted")
        totals = dict(_callgrind_totals(sorted(self._folder.glob("counts.*"))))
        self._progress("counting", 1, 1)
        costs = []
        for kind, count in enumerate(counted):
            cost = np.zeros(2)
            if str(kind) in totals:
                # Without the costs of serving an index that does nothing.
                cost = (totals[str(kind)] - totals[f"idle{kind}"]) / count
            costs.append((float(max(cost[0], 0.0)), float(max(cost[1], 0.0))))
        return costs

    def _accesses(self, tool: str, accesses: _native.AccessTrace) -> bool:
        """Reads the output of a tool. False if the tool cannot print a wide store."""
        facts = self._folder / "facts"
        facts.unlink(missing_ok=True)
        self._end.unlink(missing_ok=True)
        stage = f"watched by {tool}"
        self._progress(stage, 0, self._queries)
        ready, end, done = False, b"", 0
        with self._child(list(_TOOLS[tool]), 0) as (child, output):
            while piece := os.read(output.fileno(), _PIECE):
                # The child writes the facts before its first query.
                if not ready and facts.exists():
                    accesses.take_facts(facts.read_text())
                    ready = True
                if ready:
                    done = accesses.feed(piece)
                    self._progress(stage, done, self._queries)
                end += piece
                if _WIDE_STORE in end:
                    return False
                end = end[-len(_WIDE_STORE) :]
            self._check(child, f"after {done} of {self._queries} queries")
        if done != self._queries:
            raise RecordingError(
                f"plugin {str(self._library)!r}: {tool} showed {done} of {self._queries} queries"
            )
        return True

    @contextmanager
    def _child(
        self, words: list[str], counted: int
    ) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """Runs the child under the tool; gives the process and the tool's output."""
        log = self._folder / "log"
        reading, writing = os.pipe()
        arguments = [str(self._library), str(self._slices), str(self._folder), str(os.getpid())]
        script = Path(__file__).with_name("driven_child.py")
        with os.fdopen(reading, "rb", buffering=0) as output, log.open("wb") as log_file:
            try:
                child = subprocess.Popen(
                    [
                        *(self._valgrind, *words, "--default-suppressions=no", "--vgdb=no"),
                        *(f"--log-fd={writing}", sys.executable, "-I", "-S", str(script)),
                        *(str(_native.__file__), *arguments, str(counted)),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=log_file,
                    pass_fds=(writing,),
                    cwd=self._folder,
                    start_new_session=True,  # Ctrl-C is for the parent
                )
            finally:
                os.close(writing)
            try:
                yield child, output
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()

    def _check(self, child: subprocess.Popen[bytes], when: str) -> None:
        """Waits for the end; PluginError with the last line of the log after a failure."""
        status = child.wait()
        if status == 0 and self._end.exists():
            return
        text = (self._folder / "log").read_text(errors="replace")
        lines = text.strip().splitlines()
        wrong = [line for line in lines if "plugin '" in line]
        last = (wrong or lines or [""])[-1].removeprefix("_native.IndexPluginError: ")
        said = f"; it said: {last}" if last else ""
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        hint = check_hint(f"{PLUGIN}{self._library}")
        raise PluginError(
            f"plugin {str(self._library)!r} ended the recording {how} {when}{said}. {hint}"
        )


def _callgrind_totals(files: list[Path]) -> Iterator[tuple[str, np.ndarray]]:
    """The request name of each file, and its instructions and branch misses."""
    for file in files:
        text = file.read_text(errors="replace")
        name = re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE)
        events = re.search(r"^events: (.+)$", text, re.MULTILINE)
        totals = re.search(r"^(?:totals|summary): (.+)$", text, re.MULTILINE)
        if name and events and totals:
            values = dict(zip(events[1].split(), map(float, totals[1].split()), strict=False))
            misses = values.get("Bcm", 0.0) + values.get("Bim", 0.0)
            yield name[1], np.array([values["Ir"], misses])

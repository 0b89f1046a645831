"""Running the program as a user does, without a process of its own: each would import for seconds.

What a process decides, such as signals, pipes and what is imported, is tested with PMOSS.
"""

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pmoss_env.cli import main
from pmoss_env.processes import ENDING

PMOSS = Path(sys.executable).with_name("pmoss")
_COLUMNS = 200


@contextmanager
def _terminal() -> Iterator[None]:
    """A terminal of that many columns; signals do afterwards what they did before."""
    from pmoss_env.cli.console import console

    handlers = {number: signal.getsignal(number) for number in ENDING}
    columns = console.width
    console.width = _COLUMNS
    try:
        with patch.dict(os.environ, {"COLUMNS": str(_COLUMNS)}):
            yield
    finally:
        console.width = columns
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _run(*words: object) -> tuple[int, str, str]:
    """Exit status, output and errors of a command; what main() does not catch is raised."""
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with _terminal(), patch.object(sys, "argv", ["pmoss", *map(str, words)]):
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main()
        except SystemExit as ended:
            status = ended.code or 0
    return status, out.getvalue(), err.getvalue()


def pmoss_json(*words: object) -> Any:
    """What other programs read: progress and warnings go elsewhere."""
    status, out, err = _run(*words, "--json")
    assert status == 0, err
    return json.loads(out)


def pmoss(*words: object, status: int = 0) -> str:
    """Output and errors of a command that must end with a status."""
    ended, out, err = _run(*words)
    assert ended == status, out + err
    return out + err


#: Where /proc/PID/stat has a process's parent and its session, behind the name.
PARENT, SESSION = 1, 3


def running(field: int, value: int) -> list[int]:
    """Processes that still run whose parent or session is the given one."""
    processes = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[field]) == value and fields[0] != "Z":
            processes.append(int(stat.parent.name))
    return processes

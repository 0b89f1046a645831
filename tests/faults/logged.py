"""A campaign whose rows are kept in a log, so that it goes on where the log ends."""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def go_on(
    log: Path,
    numbers: Iterable[int],
    seconds: float,
    do: Callable[[], AbstractContextManager[Callable[[int], Row]]],
    is_fault: Callable[[Row], bool],
) -> list[Row]:
    """Does the numbers that the log lacks, until the time is over, and gives all its rows.

    Args:
        log: a row of JSON per number.
        numbers: of the whole campaign.
        seconds: after which nothing more is begun.
        do: gives what does a number; entered once.
        is_fault: whether a row is to be printed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    finished = {row["number"] for row in done}
    until = time.monotonic() + seconds
    with do() as run, log.open("a") as file:
        for number in numbers:
            if number in finished or time.monotonic() > until:
                continue
            row = run(number)
            done.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            if is_fault(row):
                print(json.dumps(row), flush=True)
    return done


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that goes with the campaign."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def command_line(what: str, number: int) -> argparse.Namespace:
    """Options of a campaign on the command line: the log, how many, and for how long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument(f"--{what}", type=int, default=number, dest="number")
    parser.add_argument("--seconds", type=float, default=1e9)
    return parser.parse_args()

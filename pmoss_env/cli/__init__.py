"""The `pmoss` command. Each package adds its own commands; see app.py."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> None:
    """Runs the command line; a typed error or lack of memory ends it with one line."""
    from pmoss_env.cli import signals
    from pmoss_env.errors import BackendError, PmossError
    from pmoss_env.extras import require

    try:
        require("typer", "rich")
        from pmoss_env.cli.app import make_app

        signals.end_like_ctrl_c()
        make_app()(standalone_mode=True)
    except PmossError as error:
        _exit_with(*(error.lines() if isinstance(error, BackendError) else [str(error)]))
    except OSError as error:
        reason = error.strerror or str(error)
        _exit_with(f"{error.filename}: {reason}" if error.filename else reason)
    except Exception as error:
        if _caused_by_interrupt(error):
            _interrupted()
        # PyTorch has no error of its own for this.
        if not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
            raise
        _exit_with("there is not enough memory for this")
    except (KeyboardInterrupt, SystemExit) as ended:
        # Typer ends an interrupted command by itself: with 130, in old versions with 1.
        if isinstance(ended, SystemExit) and (not signals.status() or ended.code not in (1, 130)):
            raise
        _interrupted()
    finally:
        # From here on a signal ends the interpreter without a traceback.
        signals.end_at_once()


def _caused_by_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt caused an error.

    Python 3.11 wraps an interrupt during the creation of a class. ``zipfile`` raises ValueError
    where it closes an archive whose last file is incomplete.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupted() -> NoReturn:
    """Exits with a line that says how to resume."""
    from pmoss_env.cli import signals
    from pmoss_env.processes import native_work_goes_on

    print(f"interrupted: {signals.resume_hint()}", file=sys.stderr)
    status = signals.status() or 130
    if native_work_goes_on():
        # It would end while the interpreter is torn down, which aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _exit_with(error: str, *log: str) -> NoReturn:
    """Exits with an error in one line, and the log of a process below it."""
    from pmoss_env.cli.output import printable

    lines = [printable(line, lines=False) for line in (f"error: {error}", *log)]
    print("\n  ".join(lines), file=sys.stderr)
    sys.exit(2)

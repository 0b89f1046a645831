"""The `pmoss` command. Each floor brings its own commands; see app.py."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Runs the command line; a typed error or too little memory ends it with one line."""
    from pmoss_env.errors import MissingExtraError, PmossError

    try:
        try:
            from pmoss_env.cli.app import make_app
        except ModuleNotFoundError as error:
            if error.name in ("typer", "rich"):
                raise MissingExtraError(error.name, "cli") from error
            raise
        _clean_up_on_sigterm()
        make_app()(standalone_mode=True)
    except PmossError as error:
        _tell(str(error))
    except OSError as error:
        reason = error.strerror or str(error)
        _tell(f"{error.filename}: {reason}" if error.filename else reason)
    except (MemoryError, RuntimeError) as error:
        # Python 3.11 wraps what interrupts the making of a class.
        if isinstance(error.__cause__, KeyboardInterrupt):
            _interrupted()
        # PyTorch has no error of its own for this.
        if not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
            raise
        _tell("there is not enough memory for this")
    except KeyboardInterrupt:
        _interrupted()
    finally:
        # The work is over: an interrupt of the interpreter's own end ends it without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted() -> NoReturn:
    """Ends with a line that says what goes on from here."""
    print(
        "interrupted: a command that keeps finished work (OUT.partial, or rows of --out) goes "
        "on when it is called again; train goes on from a checkpoint with --resume",
        file=sys.stderr,
    )
    sys.exit(130)


def _clean_up_on_sigterm() -> None:
    """Lets SIGTERM end the command as Ctrl-C does: no temporary file stays behind."""
    command = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != command:  # a forked worker has nothing of its own to clean up
            os._exit(128 + number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)


def _tell(error: str) -> NoReturn:
    """Ends with an error in one line."""
    from pmoss_env.cli.output import printable

    print(f"error: {printable(error, lines=False)}", file=sys.stderr)
    sys.exit(2)

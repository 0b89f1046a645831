"""Typed errors. Each names the value that is wrong and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


class PmossError(Exception):
    """Base of every error that this project raises on purpose."""


class UnknownNameError(PmossError, KeyError):
    """A name that no catalogue holds: a machine, workload, backend, load, agent, ..."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        close = closest(str(name), names)
        hint = f" Did you mean {close!r}?" if close else ""
        shown = few(names) if close else ", ".join(names)
        choices = f"Known: {shown}" if names else "There is none: leave it out"
        self.message = f"unknown {kind} {name!r}.{hint} {choices}"
        self._arguments = (kind, name, names)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[object, ...]]:
        """Pickles the arguments, so that a worker process can pass the error on."""
        return type(self), self._arguments

    def __str__(self) -> str:
        return self.message


def few(names: Sequence[str], count: int = 8) -> str:
    """Names in a row; of many only the first ones, and how many more there are."""
    if len(names) <= count + 1:
        return ", ".join(names)
    return f"{', '.join(names[:count])} and {len(names) - count} more"


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like a name, ``_`` as ``-``; empty if none is close."""
    from difflib import get_close_matches  # a tenth of the time that the package takes to import

    by_form = {each.replace("_", "-"): each for each in known}
    close = get_close_matches(name.replace("_", "-"), by_form, n=1)
    return by_form[close[0]] if close else ""


def unknown_key(where: str, key: str, known: Iterable[str]) -> str:
    """The message for an unknown key.

    Args:
        where: the kind of key, and the key: "environment argument 'machin'".
    """
    names = sorted(known)
    close = closest(key, names)
    hint = f"did you mean {close!r}? " if close else ""
    return f"{where}: unknown; {hint}known are {few(names) if close else ', '.join(names)}"


class DescriptionError(PmossError, ValueError):
    """A description or argument with a missing or impossible value: machine, workload, env, ..."""


class ScheduleError(PmossError, ValueError):
    """A schedule that this machine cannot run."""


class IllegalActionError(PmossError, ValueError):
    """A core that the position mask forbids, with ``on_illegal="raise"``."""


class BackendError(PmossError, RuntimeError):
    """A backend that could not measure.

    Attributes:
        log: the last lines that a measuring process printed before it ended.
    """

    def __init__(self, message: str = "", log: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)

    def lines(self) -> list[str]:
        """The message, and the lines of the log, if any."""
        return [str(self.args[0]), *(["Its log ends:", *self.log] if self.log else [])]

    def __str__(self) -> str:
        return "\n  ".join(self.lines())


class WorkersLostError(BackendError):
    """A cluster that lost its workers, with tasks left that are not to blame."""


class TaskError(BackendError):
    """Tasks that ended several workers on nodes that went on; all others are done."""


class ProcessError(BackendError):
    """A live process that cannot be observed or scheduled: gone, or not ours."""


class PolicyError(BackendError):
    """A policy that returned no action, or whose own process died or took too long."""


class PlacementError(BackendError):
    """The kernel or a container does not let this process place data, and the schedule needs it."""


class ForkedError(PmossError, RuntimeError):
    """An object that belongs to threads of the parent process, used after a fork."""


class UnsupportedError(BackendError):
    """A backend that cannot do what was asked, e.g. the R-tree on the analytic model."""


class PlatformError(UnsupportedError):
    """Something that a portable build of the native module, or this system, lacks."""


class DatasetError(PmossError, ValueError):
    """A dataset file that is damaged, foreign or of another version."""


class CheckpointError(PmossError, ValueError):
    """An agent's checkpoint that is damaged or made for another task."""


class SubmissionError(PmossError, ValueError):
    """A folder for the leaderboard that is incomplete, or a round that cannot take it."""


class PluginError(PmossError, ImportError):
    """Something of another package that cannot be loaded: an entry point, or ``module:name``."""


class RecordingError(PmossError, ValueError):
    """A recording of a library that is damaged, missing, or of something else."""


class MissingExtraError(PmossError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        checkout = (Path(__file__).parents[1] / "pyproject.toml").is_file()
        way_out = f"'.[{extra}]' in a checkout" if checkout else f"'pmoss-env[{extra}]'"
        super().__init__(f"this needs {package}, which is not installed: pip install {way_out}")
        self._arguments = (package, extra)

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """Pickles the arguments, so that a worker process can pass the error on."""
        return type(self), self._arguments

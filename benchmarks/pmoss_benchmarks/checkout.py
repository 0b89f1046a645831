"""The checkout that holds the studies and their results."""

from __future__ import annotations

from pathlib import Path

from pmoss_env.errors import UnsupportedError


def find_root(start: Path, option: str = "--root") -> Path:
    """The checkout that holds a folder.

    Args:
        start: a folder.
        option: of the command, which names another place.

    Raises:
        UnsupportedError: there are no committed results at or above it.
    """
    for folder in (start, *start.parents):
        if (folder / "benchmarks" / "results").is_dir() and (folder / "README.md").is_file():
            return folder
    raise UnsupportedError(
        f"{start}: is in no checkout: the results lie in benchmarks/results of the repository; "
        f"name it with {option}"
    )

"""What `pmoss study replay` does with reports of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmoss_datasets.evaluation import Replay


def recheck_report(path: Path, progress: Any, *, episodes: int | None) -> Replay:
    """Runs episodes of a benchmark's report again: one, or as many as are asked for.

    Args:
        path: of a file of confirmations.
        progress: called with (episodes done, episodes in all).
        episodes: how many; None: one.

    Raises:
        DatasetError: the file is no such report, or damaged.
    """
    from pmoss_benchmarks.spatial import confirmation
    from pmoss_datasets.evaluation import Replay
    from pmoss_env.errors import DatasetError, PmossError
    from pmoss_env.files import read_json

    try:
        report = read_json(path)
        if not isinstance(report, dict):
            raise TypeError("is no JSON object")
        return Replay(episodes or 1, tuple(confirmation.recheck(path, episodes or 1, progress)))
    except PmossError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DatasetError(
            f"{path}: is no report that can be run again: {type(error).__name__}: {error}"
        ) from error

"""Studies, their special functions, performance and results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

__all__ = ["read"]


def read(study: str, root: Path | str | None = None) -> pandas.DataFrame:
    """The stored rows of a study as a frame: a row each, nested fields by their path.

    Args:
        study: e.g. "headroom" or "headroom/machines"; `pmoss study list` lists them.
        root: of the checkout; None: the one around the current folder.

    Raises:
        UnknownNameError: there is no such study.
        DatasetError: it has no rows, or they are damaged.
        MissingExtraError: pandas is not installed.
    """
    from pmoss_benchmarks.study.store import Results, find_root
    from pmoss_env.extras import require

    require("pandas")
    import pandas

    results = Results(find_root(Path(root or Path.cwd()).resolve()))
    return pandas.json_normalize([dict(row) for row in results[study].rows])

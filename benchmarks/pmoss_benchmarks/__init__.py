"""Studies, their special functions, performance and results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

__all__ = ["read"]


def read(study: str, root: Path | str | None = None) -> pandas.DataFrame:
    """The stored results of a study as a frame: a row for each episode of each policy.

    Columns are the fields of the stored rows, nested ones by their path, ``policy`` and
    ``episode``. A study whose rows hold no episodes gives one row for each stored one.

    Args:
        study: e.g. "headroom" or "headroom/machines"; `pmoss study list` lists them.
        root: of the checkout; None: the one around the current folder.

    Raises:
        UnknownNameError: there is no such study.
        DatasetError: it has no rows, or they are damaged.
        MissingExtraError: pandas or msgspec is not installed.
    """
    from pmoss_env.extras import require

    require("pandas", "msgspec")
    import pandas

    from pmoss_benchmarks.study.frames import episode_records
    from pmoss_benchmarks.study.store import Results, find_root

    results = Results(find_root(Path(root or Path.cwd()).resolve(), "root="))
    return pandas.json_normalize(episode_records(results[study].rows))

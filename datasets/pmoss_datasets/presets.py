"""Committed tasks and tiers: a folder of TOML files per domain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pmoss_env.files import read_toml


@lru_cache
def read_tiers(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The tiers of ``<folder>/tiers`` by name; ``mixture_of`` takes the behaviours of another."""
    tiers: dict[str, Any] = {
        path.stem: read_toml(path, dict) for path in sorted((folder / "tiers").glob("*.toml"))
    }
    for data in tiers.values():
        if (other := data.pop("mixture_of", None)) is not None:
            data["behaviours"] = tiers[other]["behaviours"]
    return tiers


def task_files(folder: Path) -> dict[str, Path]:
    """The files of ``<folder>/tasks`` by the tasks' names."""
    return {path.stem: path for path in sorted((folder / "tasks").glob("*.toml"))}

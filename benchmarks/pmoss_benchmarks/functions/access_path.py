"""The hardware-offload paper: its numbers beside ours, the models, and agents at work."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pmoss_benchmarks.access_path.episodes import play
from pmoss_benchmarks.access_path.figures import draw_figures
from pmoss_benchmarks.access_path.reproduction import Measurements, reproduce
from pmoss_benchmarks.study.function import Cell, Row, Run
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans, open_scans
from pmoss_env.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        dataset: folder of scans; empty: simulate them.
        combinations: of features, if scans are simulated.
        repeats: of each, if scans are simulated.
    """

    AXES: ClassVar = ("dataset",)

    dataset: str = ""
    combinations: int = 2048
    repeats: int = 50


def cells(settings: Settings) -> list[Cell]:
    """The server."""
    return [{"machine": "uv-300h"}]


def measure(run: Run, cell: Cell) -> Row:
    """The whole reproduction.

    Returns:
        ``dataset``, the scans that models and agents learned from and were tested on;
        ``statements``, a published figure each; scores of the ``models`` and of the ``agents``.

    Raises:
        MissingExtraError: scikit-learn is not installed.
        DatasetError: the dataset is damaged.
    """
    require("sklearn")
    settings = run.settings
    with tempfile.TemporaryDirectory() as temporary:
        if settings.dataset:
            scans = open_scans(Path(settings.dataset))
        else:
            recipe = AccessPathRecipe(combinations=settings.combinations, repeats=settings.repeats)
            scans = collect_scans(recipe, Path(temporary) / "scans")
        statements, scores, _ = reproduce(scans)
        return {
            "dataset": {"id": scans.id, "checksum": scans.checksum, "observations": len(scans)},
            "statements": [statement.as_dict() for statement in statements],
            "models": [score.as_dict() for score in scores],
            "agents": [played.as_dict() for played in play(scans)],
        }


def _statements(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    (row,) = rows
    lines = [
        [one["what"], f"{one['paper']:g}", f"{one['ours']:.3g}", one["verdict"]]
        for one in row["statements"]
    ]
    return TableOfRows(["what", "paper", "ours", "verdict"], lines)


def _agents(rows: Sequence[Mapping[str, Any]]) -> TableOfRows:
    (row,) = rows
    lines = [[a["agent"], a["fitted_to"], f"{a['above_oracle']:.2%}"] for a in row["agents"]]
    return TableOfRows(["agent", "fitted to", ">time above the oracle's"], lines)


TABLES = {"default": _statements, "agents": _agents}


def _figures(rows: Sequence[Mapping[str, Any]]) -> Figure:
    return draw_figures(Measurements())


PLOTS = {"figures": _figures}

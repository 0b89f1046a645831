"""Matplotlib figures without global state, as pixels or as files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pmoss_env.extras import require
from pmoss_env.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Of a figure that Matplotlib drew in black on white, whose elements have colours of their own.
_DARK = """
@media (prefers-color-scheme: dark) {
  #figure_1 { fill: #eef2f6; }
  [style*="fill: #ffffff"] { fill: #14181d !important; }
  [style*="fill: #000000"], [style*="fill: #1d2733"] { fill: #eef2f6 !important; }
  [style*="stroke: #000000"], [style*="stroke: #1d2733"], [style*="stroke: #333333"] {
    stroke: #eef2f6 !important; }
}
"""


def new_figure(width: float, height: float, dpi: int = 100) -> Figure:
    """An empty figure without a window and without pyplot.

    Args:
        width: inches.
        height: inches.
    """
    require("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def pixels_of(figure: Figure) -> npt.NDArray[np.uint8]:
    """A figure of new_figure() as an (height, width, 3) uint8 image."""
    figure.canvas.draw()
    rgba = figure.canvas.buffer_rgba()  # type: ignore[attr-defined]
    return np.array(rgba, dtype=np.uint8)[..., :3].copy()


def write_svg(figure: Figure, path: str | Path) -> Path:
    """Writes a figure as an SVG file that follows the reader's dark mode; returns its path."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    write_atomically(path, buffer.getvalue().replace("</style>", f"{_DARK}</style>", 1))
    return Path(path)


def write_png(figure: Figure, path: str | Path) -> Path:
    """Writes a figure as a PNG file, whole or not at all; returns its path."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
    return Path(path)

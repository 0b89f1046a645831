"""Matplotlib figures without global state, as pixels or as PNG files."""

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


def new_figure(width: float, height: float, dpi: int = 100) -> Figure:
    """An empty figure without a window and without pyplot.

    Args:
        width: inches.
        height: inches.
        dpi: pixels per inch.
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


def write_png(figure: Figure, path: str | Path) -> Path:
    """Writes a figure as a PNG file, whole or not at all; returns its path."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
    return Path(path)

"""Pictures of an episode: the path and the speed of each scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pmoss_env.envs.access_path.scans import PATHS, Scans
from pmoss_env.pictures import new_figure, pixels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colour and marker of each path; distinct in grey and for colour-blind people.
STYLES = (("#3b6ea5", "o"), ("#d1731f", "^"), ("#7a7a7a", "x"))
_ROWS = 12


def as_text(
    scans: Scans,
    features: npt.NDArray[Any],
    paths: npt.NDArray[Any],
    times_us: npt.NDArray[Any],
    title: str,
) -> str:
    """The latest scans as a table.

    Args:
        features: (n, 5) their features.
        paths: (n,) their paths.
        times_us: (n,) their run times.
    """
    lines = [title, "scan  from > to       MB    ns    links   engine  path       GB/s"]
    for i in range(max(0, len(scans) - _ROWS), len(scans)):
        size, latency, _, link, engine = features[i]
        lines.append(
            f"{i:>4}   {scans.storage_node[i]:>3} > {scans.execution_node[i]:<2} {size:>8.1f} "
            f"{latency:>5.0f} {link:>8.1f} {engine:>8.1f}  {PATHS[paths[i]]:<8} "
            f"{size / times_us[i] * 1e3:>6.2f}"
        )
    return "\n".join(lines)


def as_image(
    scans: Scans,
    features: npt.NDArray[Any],
    paths: npt.NDArray[Any],
    times_us: npt.NDArray[Any],
    title: str,
) -> npt.NDArray[np.uint8]:
    """The scans as an (height, width, 3) uint8 image; arguments as of as_text()."""
    figure = new_figure(7.2, 5.2)
    speeds, traffic = figure.subplots(2, 1, height_ratios=[3, 1])
    draw_speeds(speeds, scans, paths, times_us, title)
    traffic.plot(features[:, 3], color="#333333", label="links")
    traffic.plot(features[:, 4], color="#999999", linestyle="--", label="engine")
    traffic.set_xlabel("scan")
    traffic.set_ylabel("background, GB/s")
    traffic.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    return pixels_of(figure)


def draw_speeds(
    axes: Axes,
    scans: Scans,
    paths: npt.NDArray[Any],
    times_us: npt.NDArray[Any],
    title: str,
) -> None:
    """Draws throughput over column size into ``axes``, one mark per scan."""
    for path, (name, (colour, marker)) in enumerate(zip(PATHS, STYLES, strict=True)):
        chosen = paths == path
        if chosen.any():
            axes.scatter(
                scans.megabytes[chosen],
                scans.bytes[chosen] / times_us[chosen] * 1e-3,
                s=18,
                c=colour,
                marker=marker,
                label=name,
            )
    axes.set_xscale("log")
    axes.set_xlabel("column, MB")
    axes.set_ylabel("throughput, GB/s")
    axes.set_title(title, loc="left", fontsize=11)
    if len(scans):
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)

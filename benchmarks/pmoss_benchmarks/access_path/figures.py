"""The paper's figures from our measurements: throughput over size, by distance, under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pmoss_benchmarks.access_path.measurements import CPU, OFFLOAD, PLACES, RELAXED, Measurements
from pmoss_env.envs.access_path import PATHS, Background, Scans
from pmoss_env.envs.access_path.viewer import STYLES
from pmoss_env.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_figures(m: Measurements) -> Figure:
    """A figure with six panels.

    Args:
        m: what is asked.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(12, 7)
    panels: Any = figure.subplots(2, 3)
    _over_size(panels[0, 0], m)
    _by_distance(panels[0, 1], m)
    _over_results(panels[0, 2], m)
    _under_load(panels[1, 0], m, "links")
    _under_load(panels[1, 1], m, "engine")
    _link_traffic(panels[1, 2], m)
    return figure


def _finish(axes: Any, title: str, label: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(label, fontsize=9)
    axes.set_ylabel("GB/s", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, loc="best")


def _over_size(axes: Any, m: Measurements) -> None:
    sizes = np.geomspace(0.1, 1024, 40)
    for path in (CPU, OFFLOAD, RELAXED):
        speeds = [m.gb_per_s(path, "other blade", float(size)) for size in sizes]
        axes.plot(sizes, speeds, color=STYLES[path][0], label=PATHS[path])
    axes.set_xscale("log")
    _finish(axes, "other blade, over the size (figures 3, 7)", "column, MB")


def _by_distance(axes: Any, m: Measurements) -> None:
    nodes = {"local": 0, "blade": 1, "blade,\n2 hops": 2, "other\nblade": 4}
    for path, offset in ((CPU, -0.27), (OFFLOAD, 0.0), (RELAXED, 0.27)):
        scans = Scans.of(np.array(list(nodes.values())), 256e6)
        times = m.simulated.run(scans, path, 0)
        axes.bar(
            np.arange(len(nodes)) + offset,
            scans.bytes / times.run_time_us * 1e-3,
            0.25,
            color=STYLES[path][0],
            label=PATHS[path],
        )
    axes.set_xticks(range(len(nodes)), list(nodes))
    _finish(axes, "1 GB, by distance (figures 4, 7)", "")
    # Above the bars, which it would cover.
    axes.set_ylim(top=1.2 * axes.get_ylim()[1])
    axes.legend(fontsize=8, frameon=False, loc="upper center", ncols=3)


def _over_results(axes: Any, m: Measurements) -> None:
    shares = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 24)])
    for path in (CPU, OFFLOAD):
        speeds = [m.gb_per_s(path, "other blade", 256.0, float(share)) for share in shares]
        axes.plot(100 * shares, speeds, color=STYLES[path][0], label=PATHS[path])
    axes.set_xscale("symlog", linthresh=0.01)
    _finish(axes, "other blade, over the results (figure 5)", "rows that match, %")


def _under_load(axes: Any, m: Measurements, what: str) -> None:
    loads = np.linspace(0.0, 12.0 if what == "links" else 9.0, 10)
    for place, line in (("same blade", "--"), ("other blade", "-")):
        for path in (CPU, OFFLOAD):
            speeds = [
                m.gb_per_s(
                    path,
                    place,
                    256.0,
                    background=Background(load, 0.0) if what == "links" else Background(0.0, load),
                )
                for load in loads
            ]
            axes.plot(loads, speeds, line, color=STYLES[path][0], label=f"{PATHS[path]}, {place}")
    figure = "section 4.2" if what == "links" else "figure 6"
    _finish(axes, f"under load on the {what} ({figure})", "background asks for, GB/s")


def _link_traffic(axes: Any, m: Measurements) -> None:
    """Payload and overhead per link of a 4 GB scan of another blade (figure 2)."""
    names = m.simulated.link_names
    scans = Scans.of(PLACES["other blade"], np.array([1e9]))
    bars: dict[str, list[float]] = {}
    for path in (CPU, OFFLOAD):
        for name, (payload, overhead) in zip(names, m.simulated.links(scans, path)[0], strict=True):
            if payload + overhead > 0.05:
                bars.setdefault(name, [0.0] * 4)[2 * path : 2 * path + 2] = [payload, overhead]
    at = np.arange(len(bars))
    values = np.array(list(bars.values()))
    for path, offset in ((CPU, -0.2), (OFFLOAD, 0.2)):
        payload, overhead = values[:, 2 * path], values[:, 2 * path + 1]
        colour = STYLES[path][0]
        axes.barh(at + offset, payload, 0.38, color=colour, label=PATHS[path])
        axes.barh(at + offset, overhead, 0.38, left=payload, color=colour, alpha=0.4)
    axes.set_yticks(at, list(bars), fontsize=7)
    axes.set_title("traffic of one scan; pale: overhead (figure 2)", loc="left", fontsize=10)
    axes.set_xlabel("GB/s", fontsize=9)
    axes.legend(fontsize=8, frameon=False)

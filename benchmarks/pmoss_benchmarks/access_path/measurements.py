"""The simulated UV 300H, asked what the paper on access paths measured on the real one.

Every parameter of the simulated machine has its source in the machine file.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from pmoss_benchmarks.study.function import Figure
from pmoss_env.envs.access_path import PATHS, Background, Scans, SimulatedScans
from pmoss_env.envs.access_path.viewer import STYLES
from pmoss_env.pictures import new_figure

CPU, OFFLOAD, RELAXED = range(3)
#: Where the column is, for a core on node 0 of the UV 300H.
PLACES = {"local": 0, "same blade": 1, "other blade": 4}
#: A column at which every path runs at full speed.
LARGE_MB = 1024.0
#: Share of the full speed that counts as "reaches its maximum throughput".
FULL = 0.95
#: Background that the figures on load ask for at worst: four workers that load, two that copy.
LINK_GB_PER_S, ENGINE_GB_PER_S = 12.0, 6.0
_SEEDS = 8


class Measurements:
    """The simulated UV 300H, asked what the paper measured on the real one."""

    def __init__(self) -> None:
        self.simulated = SimulatedScans("uv-300h")

    def gb_per_s(
        self,
        path: int,
        place: str,
        megabytes: float = LARGE_MB,
        share: float = 0.0,
        background: Background | None = None,
    ) -> float:
        """Throughput of a scan, GB/s: the mean over a few seeds of the background."""
        rows = np.full(_SEEDS if background else 1, megabytes * 1e6 / 4)
        scans = Scans.of(PLACES[place], rows, np.floor(rows * share), background)
        times = self.simulated.run(scans, path, np.arange(len(scans)))
        return float(np.mean(scans.bytes / times.run_time_us) * 1e-3)

    def full_speed_mb(self, path: int) -> float:
        """The smallest column, MB, of another blade that is scanned at FULL of full speed."""
        place = "other blade"
        wanted = FULL * self.gb_per_s(path, place)
        low, high = 0.01, LARGE_MB
        while high / low > 1.01:
            middle = (low * high) ** 0.5
            if self.gb_per_s(path, place, middle) >= wanted:
                high = middle
            else:
                low = middle
        return high

    def mixed_gb_per_s(self, path: int, place: str) -> float:
        """Median throughput over mixed conditions, as in figure 4.

        Which conditions the figure mixes is not said. Here columns
        have 4 MB to 2 GB, with one result. Links and the engine are idle to half loaded.
        """
        rng = np.random.default_rng(4)
        n = 96
        rows = np.ldexp(1e6 * (1 + rng.random(n)), rng.integers(9, size=n))
        background = Background(
            rng.random(n) * LINK_GB_PER_S / 2,
            np.where(rng.random(n) < 0.5, 0.0, rng.random(n) * ENGINE_GB_PER_S / 2),
        )
        scans = Scans.of(PLACES[place], np.floor(rows), 1.0, background)
        times = self.simulated.run(scans, path, np.arange(n))
        return float(np.median(scans.bytes / times.run_time_us) * 1e-3)

    @cached_property
    def link_loss(self) -> dict[str, dict[int, float]]:
        """GB/s lost under the worst traffic on the links, by place and path."""
        busy = Background(LINK_GB_PER_S, 0.0)
        return {
            place: {
                path: self.gb_per_s(path, place) - self.gb_per_s(path, place, background=busy)
                for path in (CPU, OFFLOAD)
            }
            for place in PLACES
        }

    def gain(self, share: float) -> float:
        """Offloaded over loaded throughput on the other blade, at a share of rows that match."""
        return self.gb_per_s(OFFLOAD, "other blade", 256.0, share) / self.gb_per_s(
            CPU, "other blade", 256.0, share
        )


def draw_figures(m: Measurements) -> Figure:
    """A figure with six panels."""
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

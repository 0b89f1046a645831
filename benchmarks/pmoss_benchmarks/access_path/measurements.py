"""The simulated UV 300H, asked what the paper on access paths measured on the real one.

Every parameter of the simulated machine has its source in the machine file.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pmoss_env.envs.access_path import Background, Scans, SimulatedScans

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

    def __init__(self, **changes: float) -> None:
        """Takes the machine.

        Args:
            **changes: parameters of its ``[offload]`` table to use instead.
        """
        self.simulated = SimulatedScans("uv-300h", **changes)

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

    def full_speed_mb(self, path: int, place: str = "other blade") -> float:
        """The smallest column, MB, that is scanned at FULL of the speed of a large one."""
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

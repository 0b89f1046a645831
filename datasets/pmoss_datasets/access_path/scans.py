"""Simulated scans: combinations of features, each repeated on every path.

The paper has more than 200,000 observations and at least 50 repeats (section 5.1).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_datasets.checked import check
from pmoss_datasets.folder import checksum
from pmoss_env.checks import check_name, check_whole
from pmoss_env.envs.access_path import (
    PATHS,
    ScanDistribution,
    Scans,
    SimulatedScans,
    feature_matrix,
)
from pmoss_env.noise import Noise
from pmoss_env.types import Float64Array

#: Combinations that are simulated at once.
_CHUNK = 32


@dataclass(frozen=True)
class AccessPathRecipe:
    """The settings of a dataset of scans; the same recipe gives the same bits.

    Attributes:
        machine: a machine with copy engines.
        relaxed: measure the third path too.
        noise: strength of the measurement noise of the run times; 1 is as on hardware.
        distribution: fields of ``ScanDistribution``; the rest as it has them.
    """

    machine: str = "uv-300h"
    combinations: int = 2048
    repeats: int = 50
    relaxed: bool = False
    seed: int = 0
    noise: float = 1.0
    distribution: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(AccessPathRecipe, vars(self))
        for name, least in (("combinations", 1), ("repeats", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), least, 2**63 - 1)
        names = [f.name for f in fields(ScanDistribution)]
        for name in self.distribution:
            check_name("field of distribution", name, names)
        Noise(self.noise, (0,))

    @property
    def id(self) -> str:
        """The dataset's id."""
        return f"pmoss/{self.machine}-access-path/calibration-v0"

    @property
    def paths(self) -> int:
        """Number of measured paths."""
        return len(PATHS) if self.relaxed else len(PATHS) - 1

    @property
    def observations(self) -> int:
        """Number of run times."""
        return self.combinations * self.repeats * self.paths


def collect_scans(recipe: AccessPathRecipe, threads: int = 1) -> AccessPathDataset:
    """Simulates every combination and repeat of a recipe.

    Args:
        threads: to simulate in; the bits are the same for any number.
    """
    simulated = SimulatedScans(recipe.machine)
    combinations, repeats = recipe.combinations, recipe.repeats
    rng = np.random.default_rng([recipe.seed, 0])
    distribution = ScanDistribution(**recipe.distribution)
    scans = distribution.draw(rng, combinations, simulated.nodes)
    seed = rng.integers(2**53, size=(combinations, repeats)).astype(np.uint64)
    run_time = np.empty((combinations, repeats, recipe.paths))
    traffic = {name: np.empty((combinations, repeats)) for name in ("link", "engine")}
    for start in range(0, combinations, _CHUNK):
        chunk = slice(start, min(start + _CHUNK, combinations))
        n = chunk.stop - start
        repeated = scans[np.repeat(np.arange(start, chunk.stop), repeats)]
        for way in range(recipe.paths):
            times = simulated.run(repeated, way, seed[chunk].ravel(), threads=threads)
            run_time[chunk, :, way] = times.run_time_us.reshape(n, repeats)
            traffic["link"][chunk] = times.link_traffic.reshape(n, repeats)
            traffic["engine"][chunk] = times.engine_traffic.reshape(n, repeats)
    readings = Noise(recipe.noise, (recipe.seed, 1)).throughput_factors(run_time.size)
    columns = {
        **vars(scans),
        "latency": simulated.latency_ns(scans),
        "seed": seed,
        "link_traffic": traffic["link"],
        "engine_traffic": traffic["engine"],
        "run_time_us": run_time / readings.reshape(run_time.shape),
    }
    for array in columns.values():
        array.setflags(write=False)
    return AccessPathDataset(recipe, columns)


@dataclass(eq=False)
class AccessPathDataset:
    """Simulated scans; C combinations, R repeats, P paths.

    Attributes:
        columns: read-only arrays. (C,) features of section 5.1: "execution_node", "storage_node",
            "rows" of 4 bytes, "results", "latency" in ns, and background: "cpu_workers" and
            "engine_workers" with "cpu_worker_gb_per_s" and "engine_worker_gb_per_s" each. (C, R)
            "seed", and "link_traffic" and "engine_traffic" in GB/s right before the scan.
            (C, R, P) "run_time_us" with the noise of the recipe.
    """

    recipe: AccessPathRecipe
    columns: Mapping[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        """Observations: one run time each."""
        return self.recipe.observations

    @property
    def id(self) -> str:
        """The dataset's id."""
        return self.recipe.id

    @cached_property
    def checksum(self) -> str:
        """Sha256 over the checksums of all columns."""
        checksums = {name: checksum(values) for name, values in self.columns.items()}
        return hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()

    def pairs(self, combinations: Any = None) -> tuple[Float64Array, Float64Array]:
        """The run time of each scan on every path.

        Args:
            combinations: numbers of those wanted; all if None.

        Returns:
            (n, 5) features and (n, P) microseconds; the repeats of a combination lie together.
        """
        columns = self.columns
        if combinations is not None:
            columns = {name: values[combinations] for name, values in columns.items()}
        count, repeats, paths = columns["run_time_us"].shape
        scans = Scans(**{f.name: columns[f.name] for f in fields(Scans)})
        features = feature_matrix(
            scans[np.repeat(np.arange(count), repeats)],
            np.repeat(columns["latency"], repeats),
            columns["link_traffic"].ravel(),
            columns["engine_traffic"].ravel(),
        )
        return features, columns["run_time_us"].reshape(-1, paths)

    def split(self, test_share: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
        """Numbers of the combinations to train on and to test on (80 / 20, section 5.1).

        Whole combinations are held out, so that no repeat of a tested scan was trained on.
        """
        order = np.random.default_rng(seed).permutation(self.recipe.combinations)
        cut = round(test_share * order.size)
        return np.sort(order[cut:]), np.sort(order[:cut])

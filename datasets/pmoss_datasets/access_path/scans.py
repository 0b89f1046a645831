"""Datasets of measured scans: combinations of features, each repeated on every path.

The same kind of folder as every dataset (storage.py): ``data.hdf5`` and ``metadata.json``, written
whole or not at all, with a checksum per field, and regenerated to the last bit from its recipe.
The paper's has more than 200,000 observations and at least 50 repeats (section 5.1).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_datasets.checked import check
from pmoss_datasets.folder import (
    DATA,
    METADATA,
    check_arrays,
    check_target,
    checksum,
    open_hdf5,
    whole_folder,
    whole_hdf5,
)
from pmoss_datasets.schema import read_described
from pmoss_env import __version__
from pmoss_env.envs.access_path import (
    FEATURES,
    PATHS,
    ScanDistribution,
    Scans,
    SimulatedScans,
    feature_matrix,
)
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.noise import Noise
from pmoss_env.types import Float64Array

FORMAT = "pmoss-access-path-dataset"
#: Raised by one whenever a reader of the older version could misread the newer one.
SCHEMA_VERSION = 1
#: Combinations that are simulated between two looks at the progress.
_CHUNK = 32

#: Fields of ``data.hdf5``: C combinations, R repeats, P paths (section 5.1 for the features).
FIELDS: Mapping[str, tuple[str, str, str]] = {
    "execution_node": ("C", "int32", "node"),
    "storage_node": ("C", "int32", "node"),
    "rows": ("C", "float64", "values of 4 bytes"),
    "results": ("C", "float64", "positions"),
    "cpu_workers": ("C", "int32", "background workers"),
    "cpu_worker_gb_per_s": ("C", "float64", "GB/s each"),
    "engine_workers": ("C", "int32", "background workers"),
    "engine_worker_gb_per_s": ("C", "float64", "GB/s each"),
    "latency": ("C", "float64", "ns"),
    "seed": ("CR", "uint64", "1"),
    "link_traffic": ("CR", "float64", "GB/s, read right before the scan"),
    "engine_traffic": ("CR", "float64", "GB/s, read right before the scan"),
    "run_time_us": ("CRP", "float64", "us, with the noise of the recipe"),
}


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
            if not least <= (value := getattr(self, name)) < 2**63:
                raise DescriptionError(f"{name} = {value!r}: must be a whole number from {least}")
        names = [f.name for f in fields(ScanDistribution)]
        for name in self.distribution:
            if name not in names:
                raise UnknownNameError("field of distribution", name, names)
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


def collect_scans(
    recipe: AccessPathRecipe,
    path: str | Path,
    progress: Callable[[int, int], None] | None = None,
    threads: int = 1,
    *,
    overwrite: bool = False,
) -> AccessPathDataset:
    """Simulates every combination and repeat of a recipe and writes the dataset.

    Args:
        progress: called with (combinations done, all of them).
        threads: to simulate in; the bits are the same for any number.

    Raises:
        DatasetError: the folder exists or cannot be written. Nothing is left behind.
    """
    path = Path(path)
    check_target(path, overwrite)
    arrays = simulate(recipe, progress, threads)
    return _write(path, arrays, recipe)


def simulate(
    recipe: AccessPathRecipe,
    progress: Callable[[int, int], None] | None = None,
    threads: int = 1,
) -> dict[str, npt.NDArray[Any]]:
    """The fields of a recipe's dataset, by name."""
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
        if progress is not None:
            progress(chunk.stop, combinations)
    readings = Noise(recipe.noise, (recipe.seed, 1)).throughput_factors(run_time.size)
    return {
        **vars(scans),
        "latency": simulated.latency_ns(scans),
        "seed": seed,
        "link_traffic": traffic["link"],
        "engine_traffic": traffic["engine"],
        "run_time_us": run_time / readings.reshape(run_time.shape),
    }


def pairs_of(columns: Mapping[str, npt.NDArray[Any]]) -> tuple[Float64Array, Float64Array]:
    """(C * R, 5) features and (C * R, P) microseconds of the fields of a dataset."""
    combinations, repeats, paths = columns["run_time_us"].shape
    scans = Scans(**{f.name: columns[f.name] for f in fields(Scans)})
    features = feature_matrix(
        scans[np.repeat(np.arange(combinations), repeats)],
        np.repeat(columns["latency"], repeats),
        columns["link_traffic"].ravel(),
        columns["engine_traffic"].ravel(),
    )
    return features, columns["run_time_us"].reshape(-1, paths)


def _write(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], recipe: AccessPathRecipe
) -> AccessPathDataset:
    metadata = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "id": recipe.id,
        "code_version": __version__,
        "recipe": asdict(recipe),
        "observations": recipe.observations,
        "features": dict(FEATURES),
        "paths": list(PATHS[: recipe.paths]),
        "fields": {name: list(description) for name, description in FIELDS.items()},
        "checksums": {name: checksum(arrays[name]) for name in FIELDS},
    }
    text = json.dumps(metadata, indent=1, sort_keys=True, allow_nan=False) + "\n"
    with whole_folder(path) as temporary:
        with whole_hdf5(temporary / DATA) as file:
            file.attrs["format"] = FORMAT
            file.attrs["metadata_sha256"] = hashlib.sha256(text.encode()).hexdigest()
            for name in FIELDS:
                file.create_dataset(
                    name, data=arrays[name], compression="gzip", compression_opts=6, shuffle=True
                )
        (temporary / METADATA).write_bytes(text.encode())
    return open_scans(path)


def open_scans(path: str | Path) -> AccessPathDataset:
    """Opens a dataset of scans, and checks every field.

    Raises:
        DatasetError: a file is missing, damaged, foreign or of another version.
    """
    path = Path(path)
    recipe, checksums, text = read_described(path, AccessPathRecipe, FORMAT, SCHEMA_VERSION)
    try:
        with open_hdf5(path / DATA) as file:
            written = file.attrs.get("metadata_sha256")
            check_arrays(file, FIELDS)
            columns = {name: file[name][()] for name in FIELDS}
    except DatasetError:
        raise
    except Exception as error:  # h5py answers damage with whatever the bytes look like
        raise DatasetError(f"{path / DATA}: is missing or damaged: {error}") from error
    if written != hashlib.sha256(text.encode()).hexdigest():
        raise DatasetError(f"{path / METADATA}: differs from what was written with {DATA}")
    sizes = {"C": recipe.combinations, "R": recipe.repeats, "P": recipe.paths}
    for name, (axes, dtype, _) in FIELDS.items():
        array, shape = columns[name], tuple(sizes[axis] for axis in axes)
        if array.shape != shape or array.dtype != dtype:
            raise DatasetError(
                f"{path / DATA}: {name}: {array.dtype} {array.shape}: must be {dtype} {shape}"
            )
        if checksum(array) != checksums.get(name):
            raise DatasetError(f"{path / DATA}: {name}: bytes differ from what was written")
        array.setflags(write=False)
    return AccessPathDataset(path, recipe, columns, checksums)


@dataclass(eq=False)
class AccessPathDataset:
    """A dataset of scans that was opened.

    Attributes:
        columns: read-only arrays of FIELDS by name.
        checksums: of the columns.
        pieces: what it holds, in a word.
    """

    path: Path
    recipe: AccessPathRecipe
    columns: Mapping[str, npt.NDArray[Any]]
    checksums: Mapping[str, str]
    pieces: str = "scans"

    def __len__(self) -> int:
        """Observations: one run time each."""
        return self.recipe.observations

    @property
    def id(self) -> str:
        """The dataset's id."""
        return self.recipe.id

    @property
    def checksum(self) -> str:
        """Sha256 over the checksums of all fields."""
        text = json.dumps(dict(self.checksums), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def verify(self) -> None:
        """Refuses impossible values; raises DatasetError for the first thing that is wrong."""
        for name, values in self.columns.items():
            if not np.isfinite(values).all() or values.min() < 0:
                raise DatasetError(f"{self.path / DATA}: {name}: has impossible values")
        if (self.columns["results"] > self.columns["rows"]).any():
            raise DatasetError(f"{self.path / DATA}: results: more than there are rows")

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
        return pairs_of(columns)

    def split(self, test_share: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
        """Numbers of the combinations to train on and to test on (80 / 20, section 5.1).

        Whole combinations are held out, so that no repeat of a tested scan was trained on.
        """
        order = np.random.default_rng(seed).permutation(self.recipe.combinations)
        cut = round(test_share * order.size)
        return np.sort(order[cut:]), np.sort(order[:cut])

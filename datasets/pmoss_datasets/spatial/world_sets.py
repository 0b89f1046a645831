"""Sets of made-up worlds on disk: shards that are made in processes and mapped when read.

A set is a folder with metadata and one ``.npy`` file for each SHARD worlds. It can be opened, and
learned from, while it is being made: what it will hold is decided by its recipe alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import time
import tokenize
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_datasets.checked import check
from pmoss_datasets.executors import run_tasks
from pmoss_datasets.folder import METADATA, check_target, read_metadata, remove_leftovers
from pmoss_datasets.schema import check_version
from pmoss_datasets.spatial.worlds import (
    INSTANCES,
    MAX_WORLDS,
    RECORD,
    SCHEDULES,
    SPLITS,
    draw_world,
    log_world,
)
from pmoss_env.checks import check_name, check_whole
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.files import file_sha256, write_atomically
from pmoss_env.types import COUNTER_NAMES
from pmoss_env.version import __version__

FORMAT = "pmoss worlds"
SCHEMA_VERSION = 2
#: Worlds of a file.
SHARD = 64
#: Files that are mapped at once; each is a file descriptor.
_MOST_OPEN = 256


@dataclass(frozen=True)
class WorldsRecipe:
    """The settings of a set of worlds; the same recipe gives the same bits.

    Attributes:
        split: one of SPLITS.
        count: how many worlds, from number 0 of the split on.
    """

    split: str = "train"
    count: int = 1024

    def __post_init__(self) -> None:
        check(WorldsRecipe, vars(self))
        check_name("split", self.split, SPLITS)
        check_whole("count", self.count, 1, MAX_WORLDS)

    @property
    def id(self) -> str:
        """The set's id."""
        return f"pmoss/worlds/{self.split}-v1"

    @property
    def shards(self) -> list[tuple[int, int]]:
        """The first world of each file, and the one after its last."""
        return [(first, min(first + SHARD, self.count)) for first in range(0, self.count, SHARD)]


@dataclass(frozen=True)
class _Described:
    """What the metadata of a set must hold; the rest is for readers."""

    recipe: WorldsRecipe
    checksums: Mapping[str, str]


class _Shards:
    """Makes the files of a set; works in any process of this host."""

    def __init__(self, path: Path, split: str) -> None:
        self._path, self._split = path, split

    def __call__(self, bounds: tuple[int, int]) -> str:
        """Makes a file; returns its checksum."""
        records = [log_world(draw_world(self._split, number)) for number in range(*bounds)]
        content = io.BytesIO()
        np.save(content, np.stack(records))
        write_atomically(_shard(self._path, bounds[0]), content.getvalue())
        return hashlib.sha256(content.getvalue()).hexdigest()

    def close(self) -> None:
        """Nothing to release."""


def make_worlds(
    recipe: WorldsRecipe,
    path: str | Path,
    progress: Callable[[int, int], None] | None = None,
    *,
    processes: int = 1,
    overwrite: bool = False,
    seconds: float = math.inf,
) -> WorldSet:
    """Makes the worlds of a recipe; goes on where an earlier call stopped.

    Args:
        path: the folder; one of the same split that has fewer worlds grows.
        progress: called with (worlds done, all of them).
        processes: at once; the bits are the same for any number.
        seconds: to stop after. The set then holds the worlds up to the first that is missing.

    Raises:
        DatasetError: no world was made in time, or the folder holds something else, or it cannot be
            written.
    """
    path, began = Path(path), time.monotonic()
    try:
        checksums = _sound_files(path, recipe)
        if checksums is None:
            check_target(path, overwrite, form=FORMAT)
            for place in path.glob(_shard(path, 0).name.replace("0" * 8, "*")):
                place.unlink()
            checksums = {}
        path.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        _write_metadata(path, recipe, checksums)
        waiting = [
            bounds for bounds in recipe.shards if _shard(path, bounds[0]).name not in checksums
        ]
        worlds = recipe.count - sum(last - first for first, last in waiting)
        make = partial(_Shards, path, recipe.split)
        with closing(run_tasks(make, waiting, processes=processes)) as tasks:
            for (first, last), checksum in tasks:
                worlds += last - first
                checksums[_shard(path, first).name] = checksum
                _write_metadata(path, recipe, checksums)
                if progress is not None:
                    progress(worlds, recipe.count)
                if time.monotonic() - began > seconds:
                    break
        remove_leftovers(path)
        starts = [first for first, _ in recipe.shards]
        if absent := [first for first in starts if _shard(path, first).name not in checksums]:
            if not absent[0]:
                raise DatasetError(f"{path}: no world was made in {seconds:g} seconds")
            recipe = WorldsRecipe(recipe.split, absent[0])
            _write_metadata(path, recipe, checksums)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be written: {error.strerror or error}") from error
    return WorldSet(path)


class WorldSet:
    """A set of worlds that was opened.

    Attributes:
        path: its folder.
        recipe: what it is made of.
    """

    #: What it holds, in a word.
    pieces = "worlds"

    def __init__(self, path: str | Path) -> None:
        """Opens a set, whole or not; its files are looked at when they are first needed.

        Raises:
            DatasetError: the metadata are missing, damaged, foreign or of another version.
        """
        self.path = Path(path)
        where = self.path / METADATA
        _, metadata = read_metadata(self.path)
        check_version(metadata, where, FORMAT, SCHEMA_VERSION)
        facts: dict[str, Any] = {name: metadata.get(name) for name in ("recipe", "checksums")}
        try:
            check(_Described, facts)
            self.recipe = WorldsRecipe(**facts["recipe"])
        except (DescriptionError, UnknownNameError) as error:
            raise DatasetError(f"{where}: {error}") from error
        self._checksums: dict[str, str] = facts["checksums"]
        self._open: dict[int, npt.NDArray[Any]] = {}

    def __len__(self) -> int:
        """How many worlds there will be."""
        return self.recipe.count

    @property
    def id(self) -> str:
        """The set's id."""
        return self.recipe.id

    @property
    def checksum(self) -> str:
        """Sha256 of the recipe, which decides every bit, and of the layout."""
        facts = {**asdict(self.recipe), "layout": str(RECORD), "schema_version": SCHEMA_VERSION}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def made(self, count: int) -> bool:
        """Whether the first worlds, so many, have been made."""
        for first, stop in self.recipe.shards:
            if first < count and first not in self._open:
                place, size = _shard(self.path, first), stop - first
                if not place.is_file() or place.stat().st_size < size * RECORD.itemsize:
                    return False
        return True

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        """() RECORD of a world, read-only and mapped.

        Raises:
            IndexError: no such world.
            DatasetError: it has not been made yet, or its file is damaged.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"world {number}: there are {len(self)}")
        first = number // SHARD * SHARD
        if first not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.clear()
            self._open[first] = self.records(first)
        record: npt.NDArray[Any] = self._open[first][number - first]
        return record

    def verify(self) -> None:
        """See OtherData.verify; every world must be there."""
        for first, _ in self.recipe.shards:
            self.records(first)
            place = _shard(self.path, first)
            if self._checksums.get(place.name) != file_sha256(place):
                raise DatasetError(f"{place}: is not what was written: make it anew")

    def sound_files(self) -> dict[str, str]:
        """Checksums of the files that are what was written, by name."""
        places = [_shard(self.path, first) for first, _ in self.recipe.shards]
        return {
            place.name: self._checksums[place.name]
            for place in places
            if place.is_file() and file_sha256(place) == self._checksums.get(place.name)
        }

    def records(self, first: int) -> npt.NDArray[Any]:
        """(n,) RECORD of a file, read-only and mapped.

        Raises:
            DatasetError: it has not been made yet, or is damaged.
        """
        place = _shard(self.path, first)
        size = min(first + SHARD, len(self)) - first
        try:
            records: npt.NDArray[Any] = np.load(place, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError as error:
            raise DatasetError(
                f"{place}: is missing: pmoss data worlds {self.path} goes on making it"
            ) from error
        # NumPy lets Python's tokenizer and parser read the header.
        except (OSError, ValueError, SyntaxError, tokenize.TokenError) as error:
            raise DatasetError(f"{place}: is damaged: {error}") from error
        if records.dtype != RECORD or records.shape != (size,):
            raise DatasetError(f"{place}: holds {records.shape} of {records.dtype}")
        return records


def _shard(path: Path, first: int) -> Path:
    return path / f"worlds-{first:08d}.npy"


def _sound_files(path: Path, recipe: WorldsRecipe) -> dict[str, str] | None:
    """Of a folder with the first worlds of a recipe: checksums of its sound files. Else None."""
    try:
        begun = WorldSet(path)
    except DatasetError:
        return None
    split, count = begun.recipe.split, begun.recipe.count
    if split != recipe.split or count > recipe.count:
        return None
    return begun.sound_files() if count % SHARD == 0 or count == recipe.count else None


def _write_metadata(path: Path, recipe: WorldsRecipe, checksums: Mapping[str, str]) -> None:
    names = [_shard(path, first).name for first, _ in recipe.shards]
    metadata = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "id": recipe.id,
        "code_version": __version__,
        "recipe": asdict(recipe),
        "instances": INSTANCES,
        "schedules": SCHEDULES,
        "counter_names": list(COUNTER_NAMES),
        "checksums": {name: checksums[name] for name in names if name in checksums},
    }
    text = json.dumps(metadata, indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_atomically(path / METADATA, text)

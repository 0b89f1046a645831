"""Datasets on disk: a folder with ``data.hdf5`` and ``metadata.json``.

Written whole or not at all, checked before writing, and verified when read: a damaged file is
refused with the file, the episode and the field named. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import operator
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.folder import (
    DATA,
    METADATA,
    check_arrays,
    check_target,
    checksum,
    open_hdf5,
    read_metadata,
    whole_folder,
    whole_hdf5,
)
from pmoss_datasets.interfaces import Expander
from pmoss_datasets.schema import (
    FIRST_DOMAIN,
    FORMAT,
    Array,
    Metadata,
    check_version,
    field_shape,
    sizes_of,
    stack,
)
from pmoss_datasets.validation import (
    find_problems,
    metadata_problems,
    validate,
    value_problems,
)
from pmoss_env.checks import check_name
from pmoss_env.errors import DatasetError, MissingExtraError, UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array

if TYPE_CHECKING:
    import h5py

#: Episodes in one compressed block: many enough to compress well, few enough to read one quickly.
BLOCK = 64


def _episode_codes(array: Array) -> npt.NDArray[np.uint32]:
    """(N,) CRC of each episode's bytes: it shows which episode of a damaged field is wrong."""
    return np.array([zlib.crc32(np.ascontiguousarray(row).tobytes()) for row in array], np.uint32)


def write_dataset(
    path: str | Path, episodes: Sequence[Any], metadata: Metadata, *, overwrite: bool = False
) -> Dataset:
    """Writes a dataset folder and opens it.

    Args:
        path: the folder to make, or a root folder plus the dataset's id.
        episodes: at least one, records of the metadata's domain.
        metadata: ``episodes`` and ``checksums`` are filled in here.

    Raises:
        DatasetError: a value breaks the schema, the folder exists or the disk is full. Nothing is
            left behind.
    """
    path = Path(path)
    if not episodes:
        raise DatasetError(f"{path}: no episodes: a dataset must hold at least one")
    check_target(path, overwrite)
    domain = find_domain(metadata.domain)
    machine = domain.machine(metadata, path)
    try:
        values = [domain.values(episode) for episode in episodes]
        metadata = replace(
            domain.measured(metadata, episodes),
            episodes=len(episodes),
            optional_fields=tuple(
                name for name in domain.optional if any(v.get(name) is not None for v in values)
            ),
        )
        arrays = stack(values, metadata.fields, domain.ragged)
        metadata = replace(
            metadata,
            checksums={name: checksum(array) for name, array in arrays.items()},
        )
        validate(arrays, metadata, machine)
        text = json.dumps(metadata.to_json(), indent=1, sort_keys=True, allow_nan=False) + "\n"
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from error
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{path}: metadata is not plain JSON: {error}") from error

    with whole_folder(path) as temporary:
        with whole_hdf5(temporary / DATA) as file:
            file.attrs["format"] = FORMAT
            file.attrs["schema_version"] = metadata.schema_version
            file.attrs["metadata_sha256"] = hashlib.sha256(text.encode()).hexdigest()
            for name, array in arrays.items():
                _write_array(file, name, array)
            for name, array in arrays.items():
                file.create_dataset(f"codes/{name}", data=_episode_codes(array))
        (temporary / METADATA).write_bytes(text.encode())
    return open_dataset(path)


def _write_array(file: h5py.File, name: str, array: Array) -> None:
    if array.size == 0:
        file.create_dataset(name, data=array)
        return
    file.create_dataset(
        name,
        data=array,
        chunks=(min(len(array), BLOCK), *array.shape[1:]),
        compression="gzip",
        compression_opts=6,
        shuffle=True,
    )


def open_dataset(path: str | Path) -> Dataset:
    """Opens a dataset folder; arrays are read, and checked, when first used.

    Raises:
        DatasetError: a file is missing, truncated, foreign, of a newer version, or does not fit
            the other one.
    """
    path = Path(path)
    text, raw = read_metadata(path)
    metadata = _metadata_of(raw, path / METADATA)
    for problem in metadata_problems(metadata, stored=True):
        raise DatasetError(f"{path / METADATA}: {problem}")
    where = path / DATA
    if not where.is_file():
        raise DatasetError(f"{where}: is missing")
    try:
        with open_hdf5(where) as file:
            if file.attrs.get("format") != FORMAT:
                raise DatasetError(f"{where}: is an HDF5 file, but not of a {FORMAT}")
            version = int(file.attrs["schema_version"])
            if version != metadata.schema_version:
                raise DatasetError(
                    f"{where}: schema_version = {version}, but {METADATA} says "
                    f"{metadata.schema_version}"
                )
            if file.attrs["metadata_sha256"] != hashlib.sha256(text.encode()).hexdigest():
                raise DatasetError(
                    f"{path / METADATA}: differs from what was written with {DATA}: one of the two "
                    "is damaged or was changed"
                )
            for field in metadata.fields:
                if field.name not in file:
                    raise DatasetError(f"{where}: {field.name}: is missing")
            check_arrays(file, [field.name for field in metadata.fields])
            sizes = sizes_of(metadata, {f.name: file[f.name].shape for f in metadata.fields})
            for field in metadata.fields:
                shape = field_shape(field, metadata, sizes)
                stored = file[field.name]
                if stored.shape != shape or stored.dtype != field.dtype:
                    raise DatasetError(
                        f"{where}: {field.name}: {stored.dtype} {stored.shape}: must be "
                        f"{field.dtype} {shape}"
                    )
    except (DatasetError, MissingExtraError):
        raise
    # h5py answers damage with whatever error the damaged bytes happen to look like.
    except Exception as error:
        raise DatasetError(
            f"{where}: is truncated, damaged or no HDF5 file: {str(error) or type(error).__name__}"
        ) from error
    return Dataset(path, metadata, find_domain(metadata.domain).machine(metadata, path))


def _metadata_of(raw: Any, where: Path) -> Metadata:
    """The metadata in the form of its domain."""
    check_version(raw, where)
    name = raw.get("domain", FIRST_DOMAIN)
    try:
        domain = find_domain(str(name))
    except UnknownNameError as error:
        raise DatasetError(f"{where}: domain: {error}") from error
    return domain.metadata.from_json(raw, where)


class Dataset:
    """A dataset that was opened: a sequence of episodes, and whole columns by field name.

    Counters stand in the columns of today's table, whatever table the dataset was written with.
    Counters that it lacks are 0, with a running ratio of 0: not available.

    Attributes:
        path: its folder.
        metadata: the contents of ``metadata.json``, as this version has them.
        stored: the same as the file has them.
        domain: whose episodes they are.
    """

    def __init__(self, path: Path, metadata: Metadata, machine: Machine | None) -> None:
        self.path = path
        self.domain: Domain = find_domain(metadata.domain)
        self.stored = metadata
        self.metadata = self.domain.current_metadata(metadata)
        self._machine = machine
        self._columns: dict[str, Array] = {}
        self._checked = False

    def __len__(self) -> int:
        return self.metadata.episodes

    def __getitem__(self, index: int) -> Any:
        """One episode, the record of its domain.

        Raises:
            DatasetError: a value of any episode is damaged or impossible.
            IndexError: there is no such episode.
            TypeError: the index is no whole number.
        """
        try:
            index = operator.index(index)
        except TypeError as error:
            raise TypeError(
                f"episode {index!r:.60}: must be one whole number: [dataset[i] for i in range(5)] "
                "gives the first five"
            ) from error
        if not -len(self) <= index < len(self):
            raise IndexError(f"episode {index}: there are {len(self)}")
        if not self._checked:
            arrays = {field.name: self.column(field.name) for field in self.metadata.fields}
            try:
                validate(arrays, self.metadata, self._machine)
            except DatasetError as error:
                raise DatasetError(f"{self.path / DATA}: {error}") from error
            self._checked = True
        values: dict[str, Any] = {}
        for field in self.metadata.fields:
            row = self.column(field.name)[index]
            values[field.name] = row if field.axes or field.shape else row.item()
        return self.domain.episode(values)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    @property
    def machine(self) -> Machine:
        """The machine that its episodes ran on; UnsupportedError where its domain has none."""
        if self._machine is None:
            raise UnsupportedError(f"{self.path}: its domain {self.domain.name!r} has no machine")
        return self._machine

    @property
    def steps(self) -> int:
        """Steps of the longest episode, T."""
        return self.metadata.sizes["T"]

    @property
    def lengths(self) -> Array:
        """(N,) int64, the steps of each episode."""
        return self.domain.lengths(self)

    def reward(self, mode: str | None) -> str:
        """A mode of rewards, the domain's first if None; UnknownNameError if it has none such."""
        modes = self.domain.rewards
        if mode is not None and mode not in modes:
            raise UnknownNameError("reward", mode, modes)
        return mode or modes[0]

    def expander(self) -> Expander:
        """What shows its episodes as an agent saw them."""
        return self.domain.expander(self)

    @property
    def id(self) -> str:
        """Its id, as ``pmoss/<task>/<tier>-v<version>``."""
        return self.metadata.id

    @property
    def checksum(self) -> str:
        """Sha256 over the checksums of all fields: the same for the same episodes."""
        text = json.dumps(dict(self.metadata.checksums), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def column(self, name: str) -> Array:
        """(N, ...) read-only array of one field over all episodes, checked against its checksum.

        Raises:
            UnknownNameError: the dataset has no such field.
            DatasetError: the bytes are not those that were written, or a value is impossible by
                itself; names episode and field.
        """
        names = [field.name for field in self.metadata.fields]
        check_name("field", name, names)
        if name not in self._columns:
            array = self.domain.current(name, self._read(name), self.stored)
            array.setflags(write=False)
            self._columns[name] = array
        return self._columns[name]

    def verify(self) -> None:
        """Reads and checks every value and the metadata: checksums, shapes, ranges, legal actions.

        Bytes of the HDF5 file that hold neither, such as padding and free space, are not covered.

        Raises:
            DatasetError: the first thing that is wrong.
        """
        for problem in self.problems():
            raise DatasetError(problem)

    def problems(self) -> Iterator[str]:
        """The problems that verify() finds; each line names file, field and perhaps episode."""
        arrays: dict[str, Array] = {}
        for field in self.metadata.fields:
            try:
                array = self._read(field.name)
            except DatasetError as error:
                yield str(error)
            else:
                arrays[field.name] = self.domain.current(field.name, array, self.stored)
                codes = self._codes(field.name)
                if codes is None or not np.array_equal(codes, _episode_codes(array)):
                    yield f"{self.path / DATA}: codes/{field.name}: differs from the sound field"
        missing = {f"{field.name}: is missing" for field in self.metadata.fields} - {
            f"{name}: is missing" for name in arrays
        }
        for problem in find_problems(arrays, self.metadata, self._machine):
            if problem not in missing:  # reported above, with the reason
                yield f"{self.path / DATA}: {problem}"

    def reference_returns(self, reward: str | None = None) -> tuple[float, float]:
        """Mean returns, in the domain's unit, that score 0 and 100.

        Args:
            reward: whose returns; the domain's first mode if None.

        Raises:
            UnknownNameError: another reward.
            DatasetError: the dataset has no reference scores, or what scores 100 is not above
                what scores 0 in them.
        """
        domain, mode = self.domain, self.reward(reward)
        scores: Mapping[str, Mapping[str, float]] = self.metadata.reference_scores
        if not scores:
            raise DatasetError(f"{self.path}: has no reference scores")
        bottom, top = domain.references[:2]
        low, high = scores[bottom]["mean"], scores[top]["mean"]
        if high <= low:
            raise DatasetError(
                f"{self.path}: reference_scores: {top} = {high} is not above {bottom} = {low}: "
                "there is no scale"
            )
        return domain.reference_returns(scores, mode)

    def normalized_score(
        self, returns: Float64Array | float, reward: str | None = None
    ) -> Float64Array:
        """Returns on the dataset's scale: 0 and 100 = what the domain's first references reach.

        One scale for the whole dataset, from the means of its reference episodes: good for the
        mean over many episodes. It is not the score of an evaluation, which
        takes each episode's own references, and must not be compared with it.
        A hundred times what Minari and D4RL call the normalised score, to the last bit.

        Raises:
            DatasetError: see reference_returns().
        """
        low, high = self.reference_returns(reward)
        return 100.0 * ((np.asarray(returns, dtype=np.float64) - low) / (high - low))

    def _read(self, name: str) -> Array:
        where = self.path / DATA
        try:
            with open_hdf5(where) as file:
                array: Array = file[name][()]
        except Exception as error:
            raise DatasetError(
                f"{where}: {self._first_unreadable(name)}: {name}: cannot be read: {error}"
            ) from error
        if checksum(array) != self.metadata.checksums.get(name):
            codes, episode = self._codes(name), "all episodes"
            if codes is not None and (wrong := np.flatnonzero(_episode_codes(array) != codes)).size:
                episode = f"episode {wrong[0]}"
            raise DatasetError(f"{where}: {episode}: {name}: bytes differ from what was written")
        field = next(field for field in self.metadata.fields if field.name == name)
        for problem in value_problems(field, array):
            raise DatasetError(f"{where}: {problem}")
        return array

    def _codes(self, name: str) -> Array | None:
        """(N,) what _episode_codes() gave when the field was written; None if damaged."""
        try:
            with open_hdf5(self.path / DATA) as file:
                stored = file[f"codes/{name}"]
                # A foreign one may be larger than memory.
                codes: Array | None = stored[()] if stored.shape == (len(self),) else None
        except Exception:
            return None
        return codes

    def _first_unreadable(self, name: str) -> str:
        """Which episodes the first damaged block of a field holds."""
        try:
            with open_hdf5(self.path / DATA) as file:
                for first in range(0, len(self), BLOCK):
                    try:
                        file[name][first : first + BLOCK]
                    except Exception:
                        return f"episodes {first} to {min(first + BLOCK, len(self)) - 1}"
        except Exception:
            pass
        return "all episodes"

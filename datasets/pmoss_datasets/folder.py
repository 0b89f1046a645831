"""The folder of a dataset: written whole or not at all, metadata beside the arrays."""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pmoss_datasets.schema import FORMAT
from pmoss_env.errors import DatasetError
from pmoss_env.extras import require
from pmoss_env.files import MAX_JSON_BYTES, check_regular, parse_json, read_json, read_text

if TYPE_CHECKING:
    import h5py

DATA = "data.hdf5"
METADATA = "metadata.json"
#: How many times its file the arrays of a file may be. Zeros reach a thousand, episodes a dozen.
_MOST_RATIO = 200
#: Bytes that no ratio is asked of.
_SMALL = 64 << 20
#: Names of whole_folder() and write_atomically() before the rename.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}")


def import_h5py() -> Any:
    """h5py; MissingExtraError if it is not installed."""
    require("h5py")
    import h5py

    return h5py


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file to read; OSError for pipes, devices and what else is no regular file."""
    h5py = import_h5py()
    check_regular(path)
    with h5py.File(path, "r") as file:
        yield file


def check_arrays(file: h5py.File, names: Iterable[str]) -> None:
    """Refuses arrays that lie in other files, or that declare more than the file can hold.

    Args:
        names: of its arrays that will be read; all must be there.

    Raises:
        DatasetError: names file, array and sizes.
    """
    h5py = import_h5py()
    room = max(_SMALL, _MOST_RATIO * Path(file.filename).stat().st_size)
    total = 0
    for name in names:
        parts = name.split("/")
        links = [file.get("/".join(parts[: i + 1]), getlink=True) for i in range(len(parts))]
        array = file[name] if all(isinstance(link, h5py.HardLink) for link in links) else None
        if not isinstance(array, h5py.Dataset) or array.is_virtual or array.external is not None:
            raise DatasetError(f"{file.filename}: {name}: must be an array of this file itself")
        block = math.prod(array.chunks or (0,)) * array.dtype.itemsize
        total += array.size * array.dtype.itemsize
        if total > room or block > max(_SMALL, array.nbytes):
            raise DatasetError(
                f"{file.filename}: {name}: declares {array.nbytes} bytes: no file of this size "
                "holds so much"
            )


def checksum(array: npt.NDArray[Any]) -> str:
    """Sha256 of an array's dtype, shape and bytes, independent of how it is compressed."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def check_target(
    path: str | Path, overwrite: bool, what: str = METADATA, form: str = FORMAT
) -> None:
    """Finds out whether a dataset could be written, and leaves no trace of it.

    Args:
        overwrite: whether a dataset that is there may be replaced.
        what: a file in it by which such a dataset is known.
        form: the format that METADATA names in what may be replaced.

    Raises:
        DatasetError: something is there that may not be replaced, or nothing can be written there.
    """
    path = Path(path)
    try:
        if path.exists():
            if not overwrite:
                raise DatasetError(f"{path}: exists already; overwrite (--overwrite) replaces it")
            if not (path / what).is_file() or (what == METADATA and not _is_of(path, form)):
                raise DatasetError(
                    f"{path}: exists and is no dataset ({form}); it will not be replaced"
                )
        folder = path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        # Only a try shows: permissions do not bind root, nor say that a file system is read-only.
        Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=folder)).rmdir()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be written: {error.strerror}") from error


def _is_of(path: Path, form: str) -> bool:
    """Whether a folder's metadata names a format; also of a damaged dataset."""
    try:
        metadata = read_json(path / METADATA)
    except (OSError, ValueError):
        return (path / DATA).is_file()
    return isinstance(metadata, dict) and metadata.get("format") == form


def read_metadata(path: Path) -> tuple[str, Any]:
    """The text of a dataset's metadata and what it says; raises DatasetError naming the file."""
    where = path / METADATA
    try:
        text = read_text(where, MAX_JSON_BYTES)
        return text, parse_json(text)
    except FileNotFoundError as error:
        raise DatasetError(
            f"{where}: is missing: {path} is no dataset; `pmoss data collect` makes one, and "
            "`pmoss data worlds` made-up worlds"
        ) from error
    except OSError as error:
        raise DatasetError(f"{where}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DatasetError(f"{where}: cannot be read: {error}") from error


@contextmanager
def nothing_left(path: Path) -> Iterator[None]:
    """Removes the folders made for ``path`` after an error; one of files becomes a DatasetError."""
    made = [folder for folder in path.absolute().parents if not folder.exists()]
    try:
        yield
    except BaseException as error:
        for folder in made:
            with suppress(OSError):  # never made, or someone else's by now
                folder.rmdir()
        if isinstance(error, OSError):
            raise DatasetError(f"{path}: cannot be written: {error.strerror or error}") from error
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of ``path`` at the end, or is gone after an error.

    Raises:
        DatasetError: what is written does not fit on the disk, for instance.
    """
    with nothing_left(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A sibling folder lies on the same file system, so that the rename is atomic.
        whole = path.absolute()  # "." has no name
        temporary = whole.with_name(f".{whole.name}.{os.urandom(6).hex()}")
        temporary.mkdir()  # with the mode that the user's umask gives
        try:
            yield temporary
            for written in (*temporary.rglob("*"), temporary):
                _sync(written)
            _replace(temporary, whole)
            _sync(whole.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def whole_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file in memory that is written at the end.

    Not straight to the disk: HDF5 takes the process with it when that gets full.
    """
    data = io.BytesIO()
    with import_h5py().File(data, "w", libver="latest") as file:
        yield file
    path.write_bytes(data.getbuffer())


def remove_leftovers(folder: Path) -> None:
    """Removes, at any depth, what killed processes were writing there under temporary names."""
    for path in list(folder.rglob(".*")):
        if _TEMPORARY.fullmatch(path.name):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _replace(source: Path, target: Path) -> None:
    """Renames ``source`` to ``target``, which may be an older dataset."""
    if not target.exists():
        source.rename(target)
        return
    # Folders cannot be swapped in one portable step; the old one is kept until the new one is in.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    kept = old / target.name
    try:
        target.rename(kept)
        source.rename(target)
    except BaseException:
        if kept.exists() and not target.exists():
            kept.rename(target)
        raise
    finally:
        # Not if the old one could not be put back: what is in there is then the only copy.
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    # Windows brings to the disk only what may be written.
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

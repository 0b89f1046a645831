"""Recordings of the memory accesses of user-defined libraries, read by the models.

A recording is a folder. ``recording.json`` has the checksum of the library, the workload and the
number of slices. Each workload instance has a file of arrays. Nothing of it is executed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_env import _native
from pmoss_env.errors import DescriptionError, RecordingError, UnsupportedError
from pmoss_env.files import (
    MAX_SETTINGS_BYTES,
    file_sha256,
    read_bytes,
    read_json,
    write_atomically,
)
from pmoss_env.indexes import PLUGIN, is_plugin
from pmoss_env.workloads import Workload

FORMAT = 1
#: Appended to the path of a library: the default folder of its recording.
RECORDING_SUFFIX = ".recording"
#: Most bytes of the arrays of an instance, and of the header of an array.
MAX_BYTES = 1 << 30
_MAX_HEADER = 1 << 10
_SETTINGS = "recording.json"
#: The file of an instance: its seed, and the beginning of its checksum.
_FILE = re.compile(r"instance-(\d+)(-[0-9a-f]{16})?\.npz")
#: Fields of the workload that a recording may not share with the requested one.
_FREE_FIELDS = ("name", "description", "source", "index", "records")


@dataclass(frozen=True)
class RecordedInstance:
    """A recorded workload instance.

    Attributes:
        facts: tool, costs of the queries, and share of the accesses left out.
    """

    seed: int
    file: str
    sha256: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Recording:
    """A folder with recordings of a library under a workload.

    Attributes:
        library: "name" and "sha256" of the library's file.
        workload: with the number of loaded ``records``.
        queries: number of recorded queries per instance.
        instances: with the seeds 0, 1, ...
    """

    folder: Path
    library: Mapping[str, str]
    workload: Workload
    slices: int
    queries: int
    instances: tuple[RecordedInstance, ...]

    def save(self) -> None:
        """Writes recording.json, after the instances; replaces an older recording."""
        content = {
            "format": FORMAT,
            "library": dict(self.library),
            "workload": dataclasses.asdict(self.workload),
            "slices": self.slices,
            "queries": self.queries,
            "instances": [dataclasses.asdict(instance) for instance in self.instances],
        }
        write_atomically(self.folder / _SETTINGS, json.dumps(content, indent=1) + "\n")
        # Remove the files of the older recording, which was valid until now.
        named = {instance.file for instance in self.instances}
        for path in self.folder.glob("instance-*.npz"):
            if path.name not in named and _FILE.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def trace(self, workload_seed: int) -> _native.Trace:
        """The recording for a seed: that of instance ``workload_seed`` modulo their number.

        Raises:
            RecordingError: the file is damaged or was changed.
        """
        instance = self.instances[workload_seed % len(self.instances)]
        path = self.folder / instance.file
        try:
            data = read_bytes(path, MAX_BYTES)
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != instance.sha256:
            raise RecordingError(f"{path}: was changed since it was recorded: record it again")
        try:
            return _native.trace_of_arrays(self.slices, _arrays(data))
        # A damaged file raises many kinds of errors, depending on the bytes.
        except Exception as error:
            raise RecordingError(f"{path}: {type(error).__name__}: {error}") from error


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a file. It is uncompressed, so they take no more memory than the file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("must not be compressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: np.ascontiguousarray(file[name]) for name in file.files}


def save_instance(
    folder: Path, seed: int, trace: _native.Trace, facts: Mapping[str, Any]
) -> RecordedInstance:
    """Writes the arrays of an instance into a folder.

    Raises:
        RecordingError: they take more than MAX_BYTES.
    """
    arrays = _native.arrays_of_trace(trace)
    size = sum(array.nbytes + _MAX_HEADER for array in arrays.values())
    if size > MAX_BYTES:
        raise RecordingError(
            f"the recording of instance {seed} takes {size / 2**20:,.0f} MiB; at most "
            f"{MAX_BYTES / 2**20:,.0f} are read: record fewer queries, or shorter scans"
        )
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    data = buffer.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    name = f"instance-{seed}-{sha256[:16]}.npz"
    write_atomically(folder / name, data)
    return RecordedInstance(seed, name, sha256, dict(facts))


def remove_instances(folder: Path, instances: Sequence[RecordedInstance]) -> None:
    """Removes the files of an unfinished recording, except those of the folder's recording."""
    try:
        named = {instance.file for instance in load_recording(folder).instances}
    except RecordingError:
        named = set()
    for instance in instances:
        if instance.file not in named:
            (folder / instance.file).unlink(missing_ok=True)


def library_facts(path: Path) -> dict[str, str]:
    """The name and checksum of a library."""
    status = path.stat()
    return {"name": path.name, "sha256": _sha256(path, status.st_mtime_ns, status.st_size)}


@lru_cache(maxsize=32)
def _sha256(path: Path, _changed: int, _size: int) -> str:
    return file_sha256(path)


def load_recording(folder: str | Path) -> Recording:
    """Reads recording.json of a folder.

    Raises:
        RecordingError: there is none, or it is damaged.
    """
    folder = Path(folder)
    path = folder / _SETTINGS
    try:
        content = read_json(path, MAX_SETTINGS_BYTES)
        if content["format"] != FORMAT:
            raise RecordingError(
                f"{path}: format = {content['format']!r}; this version reads {FORMAT}: record it "
                "again"
            )
        recording = Recording(
            folder,
            {name: str(content["library"][name]) for name in ("name", "sha256")},
            Workload(**content["workload"]),
            int(content["slices"]),
            int(content["queries"]),
            tuple(RecordedInstance(**instance) for instance in content["instances"]),
        )
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError(f"{path}: is no recording: {error}") from error
    files = [instance.file for instance in recording.instances]
    matches = [_FILE.fullmatch(file) for file in files]
    if not files or [int(m[1]) if m else -1 for m in matches] != list(range(len(files))):
        raise RecordingError(f"{path}: is no recording: its instances are {files}")
    return recording


def recording_of(
    index: str, workload: Workload, slices: int, folder: str | None = None
) -> Recording:
    """The recording of a library for the models.

    Args:
        index: "plugin:" and the path.
        workload: must equal the recorded one, except for the number of records.
        slices: number of key ranges; must equal the recorded one.
        folder: of the recording. None: PATH.recording.

    Raises:
        UnsupportedError: there is no recording.
        RecordingError: it is damaged, or is of another library, workload or number of slices.
    """
    library = Path(index.removeprefix(PLUGIN))
    default = library.with_name(library.name + RECORDING_SUFFIX)
    place = default if folder is None else Path(folder)
    if not (place / _SETTINGS).exists():
        raise UnsupportedError(
            f"index = {index!r}: its memory accesses were not recorded in {str(place)!r}, which "
            f"the models need: pmoss index record --index {index} --slices {slices} --out {place}; "
            "or measure it with the backend hardware"
        )
    recording = load_recording(place)
    if recording.library["sha256"] != library_facts(library)["sha256"]:
        raise RecordingError(
            f"{place}: was recorded of another {recording.library['name']}, not of {library} as it "
            "is now: record it again"
        )
    if recording.slices != slices:
        raise RecordingError(
            f"{place}: was recorded for {recording.slices} slices, not {slices}: ask for "
            f"{recording.slices}, or record it again"
        )
    wanted, recorded = dataclasses.asdict(workload), dataclasses.asdict(recording.workload)
    for name in wanted:
        if name not in _FREE_FIELDS and wanted[name] != recorded[name]:
            raise RecordingError(
                f"{place}: was recorded of the workload {recording.workload.name!r} with "
                f"{name} = {recorded[name]!r}, not {wanted[name]!r}: record it again"
            )
    return recording


def recording_for(
    workload: Workload, slices: int, records: int | None, folder: str | None
) -> tuple[Recording | None, int | None]:
    """The recording and number of records of a user-defined index; (None, records) for others.

    Raises:
        UnsupportedError: there is no recording, or the index needs none.
        DescriptionError: another number of records than recorded.
    """
    if not is_plugin(workload.index):
        if folder is not None:
            raise UnsupportedError(
                f"recording = {folder!r}: is for the index of a library, and "
                f"{workload.index!r} is none"
            )
        return None, records
    recording = recording_of(workload.index, workload, slices, folder)
    recorded = recording.workload.records
    if records not in (None, recorded):
        raise DescriptionError(
            f"records = {records}: the recording {recording.folder} has {recorded}"
        )
    return recording, recorded


class RecordedProfiler:
    """The profilers of recorded instances, computed once each."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._profilers: dict[int, _native.Profiler] = {}

    def profiler(self, seed: int) -> _native.Profiler:
        """The profiler of the instance for a seed; see Recording.trace()."""
        number = seed % len(self._recording.instances)
        if number not in self._profilers:
            profiles = _native.profile_trace(self._recording.trace(number))
            self._profilers[number] = _native.Profiler(profiles)
        return self._profilers[number]

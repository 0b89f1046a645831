"""Recordings of what a user's library touches: folders of data that the models read.

``recording.json`` says what was recorded: the library by its checksum, the workload, the slices.
Beside it lies a file of arrays for each workload instance. Nothing in a folder is executed.
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
from pmoss_env.files import MOST_SETTINGS, open_regular, read_bytes, read_json, write_atomically
from pmoss_env.indexes import PLUGIN, is_plugin
from pmoss_env.workloads import Workload

FORMAT = 1
#: Behind the name of a library: where its recording is looked for unless one is named.
BESIDE = ".recording"
#: Bytes of one instance's arrays, and of what stands before each.
MOST_BYTES = 1 << 30
_MOST_HEADER = 1 << 10
_SETTINGS = "recording.json"
#: An instance's file: its seed, and the beginning of its checksum.
_FILE = re.compile(r"instance-(\d+)(-[0-9a-f]{16})?\.npz")
#: What two workloads of one meaning may differ in.
_WORDS = ("name", "description", "source", "index", "records")


@dataclass(frozen=True)
class Recorded:
    """One instance.

    Attributes:
        seed: of the workload instance.
        file: its name in the folder.
        sha256: of the file.
        facts: how it was recorded: the tool, what queries cost, what was left out.
    """

    seed: int
    file: str
    sha256: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Recording:
    """A folder with recordings of one library under one workload.

    Attributes:
        folder: where it lies.
        library: "name", the file's, and "sha256".
        workload: what was served; its ``records`` were loaded.
        slices: number of key ranges.
        queries: recorded in each instance.
        instances: of the seeds 0, 1, ...
    """

    folder: Path
    library: Mapping[str, str]
    workload: Workload
    slices: int
    queries: int
    instances: tuple[Recorded, ...]

    def save(self) -> None:
        """Writes recording.json; the instances are there already.

        From then on this recording takes the place of the one that was in the folder.
        """
        told = {
            "format": FORMAT,
            "library": dict(self.library),
            "workload": dataclasses.asdict(self.workload),
            "slices": self.slices,
            "queries": self.queries,
            "instances": [dataclasses.asdict(one) for one in self.instances],
        }
        write_atomically(self.folder / _SETTINGS, json.dumps(told, indent=1) + "\n")
        # Of the recording that was there before: until now, it was the one that counted.
        named = {one.file for one in self.instances}
        for path in self.folder.glob("instance-*.npz"):
            if path.name not in named and _FILE.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def trace(self, workload_seed: int) -> _native.Trace:
        """The recorded instance that stands for a seed: number ``workload_seed`` modulo theirs.

        Raises:
            RecordingError: the file is damaged or is another one.
        """
        one = self.instances[workload_seed % len(self.instances)]
        path = self.folder / one.file
        try:
            data = read_bytes(path, MOST_BYTES)
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != one.sha256:
            raise RecordingError(f"{path}: was changed since it was recorded: record it again")
        try:
            return _native.trace_of_arrays(self.slices, _arrays(data))
        # A damaged file answers with many kinds of error, depending on the bytes.
        except Exception as error:
            raise RecordingError(f"{path}: {type(error).__name__}: {error}") from error


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a file. It is not compressed, so that they take no more memory than it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("is compressed, which no recording is")
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: np.ascontiguousarray(file[name]) for name in file.files}


def save_instance(
    folder: Path, seed: int, trace: _native.Trace, facts: Mapping[str, Any]
) -> Recorded:
    """Writes the arrays of one instance into a folder, beside what is there.

    Raises:
        RecordingError: they take more than MOST_BYTES, which nobody would read.
    """
    arrays = _native.arrays_of_trace(trace)
    size = sum(array.nbytes + _MOST_HEADER for array in arrays.values())
    if size > MOST_BYTES:
        raise RecordingError(
            f"the recording of instance {seed} takes {size / 2**20:,.0f} MiB; at most "
            f"{MOST_BYTES / 2**20:,.0f} are read: record fewer queries, or shorter scans"
        )
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    data = buffer.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    name = f"instance-{seed}-{sha256[:16]}.npz"
    write_atomically(folder / name, data)
    return Recorded(seed, name, sha256, dict(facts))


def forget_instances(folder: Path, done: Sequence[Recorded]) -> None:
    """Removes instances that no recording of the folder will name.

    Args:
        folder: that they were written into.
        done: of a recording that did not come to its end.
    """
    try:
        named = {one.file for one in load_recording(folder).instances}
    except RecordingError:
        named = set()
    for one in done:
        if one.file not in named:
            (folder / one.file).unlink(missing_ok=True)


def library_facts(path: Path) -> dict[str, str]:
    """The name and checksum of a library."""
    told = path.stat()
    return {"name": path.name, "sha256": _sha256(path, told.st_mtime_ns, told.st_size)}


@lru_cache(maxsize=32)
def _sha256(path: Path, _changed: int, _size: int) -> str:
    with open(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_recording(folder: str | Path) -> Recording:
    """Reads recording.json of a folder.

    Raises:
        RecordingError: there is none, or it is damaged.
    """
    folder = Path(folder)
    path = folder / _SETTINGS
    try:
        told = read_json(path, MOST_SETTINGS)
        if told["format"] != FORMAT:
            raise RecordingError(
                f"{path}: format = {told['format']!r}; this version reads {FORMAT}: record it again"
            )
        recording = Recording(
            folder,
            {name: str(told["library"][name]) for name in ("name", "sha256")},
            Workload(**told["workload"]),
            int(told["slices"]),
            int(told["queries"]),
            tuple(Recorded(**one) for one in told["instances"]),
        )
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError(f"{path}: is no recording: {error}") from error
    files = [one.file for one in recording.instances]
    found = [_FILE.fullmatch(file) for file in files]
    if not files or [int(name[1]) if name else -1 for name in found] != list(range(len(files))):
        raise RecordingError(f"{path}: is no recording: its instances are {files}")
    return recording


def recording_of(
    index: str, workload: Workload, slices: int, folder: str | None = None
) -> Recording:
    """The recording with which the models know a library.

    Args:
        index: "plugin:" and the path.
        workload: what it shall be for; its number of records is the recording's.
        slices: number of key ranges that it shall be for.
        folder: of the recording. None: PATH.recording.

    Raises:
        UnsupportedError: there is no recording.
        RecordingError: it is damaged, or is of another library, workload or number of slices.
    """
    library = Path(index.removeprefix(PLUGIN))
    place = Path(folder) if folder is not None else library.with_name(library.name + BESIDE)
    if not (place / _SETTINGS).exists():
        raise UnsupportedError(
            f"index = {index!r}: its memory accesses were not recorded in {str(place)!r}, which "
            f"the models need: pmoss record --index {index} --slices {slices} --out {place}; or "
            "measure it with the backend hardware"
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
    wanted, found = dataclasses.asdict(workload), dataclasses.asdict(recording.workload)
    for name in wanted:
        if name not in _WORDS and wanted[name] != found[name]:
            raise RecordingError(
                f"{place}: was recorded of the workload {recording.workload.name!r} with "
                f"{name} = {found[name]!r}, not {wanted[name]!r}: record it again"
            )
    return recording


def recording_for(
    workload: Workload, slices: int, records: int | None, folder: str | None
) -> tuple[Recording | None, int | None]:
    """The recording that a model needs, if its workload is for a library, and its records.

    Raises:
        UnsupportedError: there is no recording, or none is needed.
        RecordingError: see recording_of().
        DescriptionError: another number of records than was recorded.
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
    """The profiles of recorded instances, each computed once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._known: dict[int, _native.SliceProfiles] = {}

    def profiles(self, seed: int) -> _native.SliceProfiles:
        """The profiles of the instance that stands for a seed; see Recording.trace()."""
        number = seed % len(self._recording.instances)
        if number not in self._known:
            self._known[number] = _native.profile_trace(self._recording.trace(number))
        return self._known[number]

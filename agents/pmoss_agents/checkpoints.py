"""Checkpoints: files that hold agents.

A checkpoint is one safetensors file: arrays by name, and a JSON header among its metadata. Nothing
in it is ever unpickled or imported, a checksum covers header and arrays, and it is written whole
or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env import __version__
from pmoss_env.errors import CheckpointError
from pmoss_env.extras import require
from pmoss_env.files import check_regular, parse_json, write_atomically

Array = npt.NDArray[Any]

FORMAT = "pmoss-agent"
#: Raised by one whenever an older reader could misread a newer checkpoint.
VERSION = 3
SUFFIX = ".safetensors"


def best_path(checkpoint: str | Path) -> Path:
    """Where the best checkpoint of a training lies, beside the last one."""
    path = Path(checkpoint)
    return path.with_name(f"{path.stem}.best{path.suffix}")


def write(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Writes a checkpoint, whole or not at all.

    Args:
        header: what the agent is, as plain JSON values; ``agent`` is its registry name.
        arrays: what it has learned, by name.

    Raises:
        CheckpointError: the path is a folder.
    """
    if Path(path).is_dir():
        raise CheckpointError(f"{path}: is a folder: name a file in it, such as agent{SUFFIX}")
    _safetensors()
    # safetensors writes an array's memory as it lies, so that it must lie in C order.
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    text = json.dumps({**header, "code_version": __version__}, sort_keys=True)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "header": text,
        "sha256": _checksum(text, arrays),
    }
    write_atomically(path, _ordered(_safetensors().numpy.save(arrays, metadata)))


def _ordered(data: bytes) -> bytes:
    """The same file with its metadata in order: safetensors writes them as a hash table has them.

    So the same agent gives the same file.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    # Arrays begin at a multiple of 8 bytes.
    text = text.ljust(-(-len(text) // 8) * 8)
    return len(text).to_bytes(8, "little") + text + data[end:]


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a checkpoint.

    Raises:
        CheckpointError: the file is missing, damaged, foreign or of another version.
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(f"{path}: does not exist")
    if (path / "metadata.json").is_file():
        raise CheckpointError(
            f"{path}: is a dataset, and a checkpoint is wanted: "
            f"`pmoss train {path} OUT{SUFFIX}` makes one of it"
        )
    try:
        check_regular(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    module = _safetensors()
    try:
        with module.safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # A damaged file answers with many kinds of error, depending on the bytes.
    except Exception as error:
        raise CheckpointError(
            f"{path}: is damaged or no checkpoint: {type(error).__name__}: {error}"
        ) from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path}: is not a {FORMAT} file")
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(
            f"{path}: version = {metadata.get('version')!r}: this version reads {VERSION}"
        )
    text = metadata.get("header", "")
    if metadata.get("sha256") != _checksum(text, arrays):
        raise CheckpointError(f"{path}: is damaged: its checksum is another")
    try:
        header = parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"{path}: its header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: its header is no JSON object")
    return header, arrays


def _checksum(header: str, arrays: Mapping[str, Array]) -> str:
    """SHA-256 of the header's text, and of every array's name, type, shape and bytes."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _safetensors() -> ModuleType:
    require("safetensors")
    import safetensors
    import safetensors.numpy

    return safetensors

"""Agents that ship with the package: trained, each with a card that says how and what it is worth.

Their names begin with "pmoss/". Each is a checkpoint of weights alone, without what only an
interrupted training needs, and a card of the same name. The card holds the checkpoint's checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents import checkpoints
from pmoss_agents.agent import Array
from pmoss_agents.configs import check_types
from pmoss_env.errors import CheckpointError, DescriptionError, UnknownNameError
from pmoss_env.files import read_bytes, read_json, write_atomically

PREFIX = "pmoss/"
FOLDER = Path(__file__).parent / "shipped"
#: Bytes of the largest checkpoint that ships.
MAX_BYTES = 8 << 20
CARD = ".json"
#: What begins the names of arrays that only go on with an interrupted training.
_OPTIMISER = "optimiser/"


@dataclass(frozen=True)
class Score:
    """An agent's score in episodes that its data do not hold.

    Attributes:
        low: lower end of its 95 % interval over the episodes.
        unit: what the value is, in words.
        results: the stored file that holds the episodes, or a folder of such.
    """

    value: float
    low: float
    high: float
    unit: str
    episodes: int
    results: str


@dataclass(frozen=True)
class Card:
    """The description of an agent that ships.

    Attributes:
        name: what load() knows it by.
        domain: the environment that it is for.
        env: arguments of the environment that it was trained for, plain JSON; empty for any.
        dataset: ``id``, ``checksum`` and number of ``episodes`` or ``worlds`` of its data.
        commands: that make it again.
        licence: of the weights, an SPDX name.
        size: bytes of the checkpoint.
    """

    name: str
    agent: str
    domain: str
    env: Mapping[str, Any]
    dataset: Mapping[str, Any]
    seed: int
    updates: int
    score: Score
    commands: tuple[str, ...]
    licence: str
    code_version: str
    size: int
    sha256: str


def names() -> list[str]:
    """The names of all agents that ship, sorted."""
    return sorted(PREFIX + path.name.removesuffix(CARD) for path in FOLDER.glob("*" + CARD))


def is_name(word: str | Path) -> bool:
    """Whether a word can only name an agent that ships: no file, and no ending of one."""
    text = str(word)
    if not text.startswith(PREFIX) or Path(text).exists():
        return False
    return Path(text).suffix != checkpoints.SUFFIX


def card(name: str) -> Card:
    """The card of an agent that ships.

    Raises:
        UnknownNameError: there is none of that name; lists them.
        CheckpointError: the card is damaged.
    """
    return _read(_file(name).with_suffix(CARD))


def find(name: str) -> Path:
    """The checkpoint of an agent that ships, once its checksum is that of the card.

    Raises:
        UnknownNameError: there is none of that name; lists them.
        CheckpointError: checkpoint or card are damaged.
    """
    path = _file(name)
    expected = _read(path.with_suffix(CARD)).sha256
    try:
        actual = hashlib.sha256(read_bytes(path, MAX_BYTES)).hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if actual != expected:
        raise CheckpointError(
            f"{path}: is damaged: its SHA-256 is {actual[:12]}, but its card says "
            f"{expected[:12]}; install the package again"
        )
    return path


def slim(checkpoint: str | Path, out: Path) -> None:
    """Writes a checkpoint without what only an interrupted training needs.

    Weights that would be too large are rounded to 16 bits: the agent then acts a little otherwise.

    Args:
        out: of the new one, ``.safetensors``.

    Raises:
        CheckpointError: it cannot be read, or is larger than what ships may be; then nothing is
            left at ``out``.
    """
    header, arrays = checkpoints.read(checkpoint)
    weights = {key: a for key, a in arrays.items() if not key.startswith(_OPTIMISER)}
    if sum(array.nbytes for array in weights.values()) > MAX_BYTES:
        weights = {key: _halved(array) for key, array in weights.items()}
    checkpoints.write(out, header, weights)
    if (size := out.stat().st_size) > MAX_BYTES:
        out.unlink()
        raise CheckpointError(f"{checkpoint}: has {size} bytes of weights: {MAX_BYTES} may ship")


def _halved(array: Array) -> Array:
    """Matrices in 16 bits; scales and offsets are few, and stay as they are."""
    is_matrix = array.ndim > 1 and array.dtype == np.float32
    return array.astype(np.float16) if is_matrix else array


def write_card(path: Path, written: Card) -> None:
    """Writes a card, whole or not at all."""
    write_atomically(path, json.dumps(asdict(written), indent=1) + "\n")


def in_words(shown: Card) -> list[str]:
    """A card as lines of plain text."""
    score = shown.score
    world = ", ".join(f"{key} {value}" for key, value in shown.env.items()) or "any server"
    pieces = next(piece for piece in ("episodes", "worlds") if piece in shown.dataset)
    return [
        f"{shown.name}: {shown.agent}, for the environment {shown.domain}",
        f"trained for: {world}",
        f"data: {shown.dataset['id']}, {shown.dataset[pieces]} {pieces}, "
        f"checksum {str(shown.dataset['checksum'])[:12]}",
        f"training: {shown.updates} updates, seed {shown.seed}, pmoss-env {shown.code_version}",
        f"score: {score.value:.1f} [{score.low:.1f}, {score.high:.1f}] {score.unit}",
        f"that is in {score.episodes} episodes that its data do not hold: {score.results}",
        f"file: {shown.size / 1e6:.2f} MB, SHA-256 {shown.sha256}",
        f"licence: {shown.licence}",
        "made by:",
        *(f"  {command}" for command in shown.commands),
    ]


def _file(name: str) -> Path:
    """The path of the checkpoint of a name."""
    if name not in (shipped := names()):
        raise UnknownNameError("pretrained agent", name, shipped)
    return FOLDER / (name.removeprefix(PREFIX) + checkpoints.SUFFIX)


def _read(path: Path) -> Card:
    try:
        values = read_json(path)
        values = {**values, "score": Score(**values["score"])}
        values["commands"] = tuple(values["commands"])
        check_types(str(path), Card, {field.name: values[field.name] for field in fields(Card)})
        return Card(**values)
    except (OSError, DescriptionError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: is no card of an agent: {error}") from error

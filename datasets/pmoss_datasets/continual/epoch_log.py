"""Epochs of a real host, appended to a file one by one, as a dataset to train on.

Each line of the file is an epoch: what was seen before its moves, the moves, and what it paid. An
episode is a session of the file, up to the next epoch that is missing or in which something went
wrong. The last epoch of an episode only shows its end.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.schema import Array
from pmoss_datasets.stepwise.actions import Actions
from pmoss_datasets.stepwise.schema import StepEpisode
from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env import __version__
from pmoss_env.errors import DatasetError
from pmoss_env.result_files import read_rows

#: What a file of epochs calls itself.
FORMAT = "autopilot-epochs"
#: Epochs of an episode: a long session becomes several.
_MOST_EPOCHS = 100
_TYPES = ("float32", "int32", "int8")
#: What every row must have to be read.
_FIELDS = (
    "session",
    "epoch",
    "seen",
    "info",
    "most_moves",
    "actions",
    "illegal",
    "reward",
    "trouble",
)
_ELDER = "an older version wrote it; let `pmoss run autopilot` write a new file"

Row = Mapping[str, Any]


def pack(parts: Mapping[str, Array]) -> dict[str, Any]:
    """An observation as plain JSON, to the bit."""
    return {
        key: {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "base64": base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii"),
        }
        for key, value in parts.items()
    }


def unpack(plain: Mapping[str, Any]) -> dict[str, Array]:
    """The observation of pack().

    Raises:
        DatasetError: it is something else.
    """
    arrays: dict[str, Array] = {}
    try:
        for key, part in plain.items():
            if part["dtype"] not in _TYPES:
                raise ValueError(f"dtype {part['dtype']!r}")
            data = base64.b64decode(part["base64"], validate=True)
            arrays[key] = np.frombuffer(data, part["dtype"]).reshape(part["shape"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(f"an observation cannot be read: {error}") from error
    return arrays


def read_log(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings and the whole rows of a file of epochs, also while it is written.

    Raises:
        DatasetError: it cannot be read, is another file, or is of a version that kept less.
    """
    header, rows = read_rows(path)
    if header.get("format") != FORMAT:
        raise DatasetError(
            f"{path}: is no file of epochs, such as `pmoss run autopilot --out` writes"
        )
    settings = header.get("settings")
    if not isinstance(settings, dict) or "drift" not in settings:
        raise DatasetError(f"{path}: its header names no drift: {_ELDER}")
    for row in rows:
        if missing := [name for name in _FIELDS if name not in row]:
            raise DatasetError(f"{path}: an epoch has no {', '.join(missing)}: {_ELDER}")
    return dict(settings), rows


def log_episodes(rows: Sequence[Row]) -> list[StepEpisode]:
    """The episodes of some rows, in their order; epochs that teach nothing are left out."""
    return [_episode(number, part) for number, part in enumerate(_parts(rows))]


def log_dataset(path: Path, folder: Path, *, overwrite: bool = False) -> Dataset:
    """Makes a dataset of a file of epochs; the file may still be written.

    Raises:
        DatasetError: the file holds no two epochs that follow each other, or is another file; or
            the folder cannot be written.
    """
    settings, rows = read_log(path)
    episodes = log_episodes(rows)
    if not episodes:
        raise DatasetError(
            f"{path}: holds no two epochs in a row: let `pmoss run autopilot` run longer"
        )
    agent = str(settings.pop("agent", "unknown"))
    kwargs = {"machine": "host", **settings, "backend": "hardware"}
    task = CONTINUAL.task({"machine": "host", "drift": kwargs["drift"]})
    metadata = CONTINUAL.metadata(
        id=f"pmoss/{task}/autopilot-v0",
        env_kwargs=kwargs,
        recipe={},
        seed=0,
        code_version=__version__,
        episodes=len(episodes),
        policy_names=(agent,),
        reference_scores={},
        checksums={},
        domain=CONTINUAL.name,
        **CONTINUAL.shapes(kwargs, [episode.values() for episode in episodes]),
    )
    return write_dataset(folder, episodes, metadata, overwrite=overwrite)


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Runs of epochs that follow each other, each with one more that shows its end."""
    part: list[Row] = []
    for row in rows:
        follows = part and (row["session"], row["epoch"]) == (
            part[-1]["session"],
            part[-1]["epoch"] + 1,
        )
        spoiled = part and (part[-1]["trouble"] or part[-1]["illegal"])
        if part and (not follows or spoiled or len(part) > _MOST_EPOCHS):
            if len(part) > 1:
                yield part
            # What ended a long one begins the next.
            part = [part[-1]] if follows and not spoiled else []
        part.append(row)
    if len(part) > 1:
        yield part


def _episode(number: int, rows: Sequence[Row]) -> StepEpisode:
    """An episode of rows of which the last one shows its end."""
    states: list[dict[str, Array]] = []
    actions: list[int] = []
    rewards: list[float] = []
    infos: list[Row] = []
    for row in rows[:-1]:
        observation = unpack(row["seen"])
        numbered = Actions((observation["slice_mask"].size, observation["tile_mask"].size))
        most_moves = int(row["most_moves"])
        for moves, (slice_, tile) in enumerate(row["actions"]):
            states.append(dict(observation))
            infos.append({**row["info"], "moves": moves})
            actions.append(numbered.number((slice_, tile)))
            rewards.append(0.0)
            observation = _moved(observation, slice_, tile, (most_moves - moves - 1) / most_moves)
        rewards[-1] = float(row["reward"])
    states.append(unpack(rows[-1]["seen"]))
    infos.append(rows[-1]["info"])
    return StepEpisode(
        episode=number,
        seed=int(rows[0]["session"]),
        policy=0,
        outcome=float(np.sum(rewards)),
        actions=np.array(actions, dtype=np.int32),
        propensity=np.full(len(actions), np.nan, dtype=np.float32),
        rewards=np.array(rewards),
        action_mask=np.stack(
            [np.concatenate([state["slice_mask"], state["tile_mask"]]) for state in states]
        ),
        observations={key: np.stack([state[key] for state in states]) for key in states[0]},
        infos={
            name: np.array(
                [np.nan if info[name] is None else info[name] for info in infos], dtype=np.float64
            )
            for name in CONTINUAL.infos
        },
    )


def _moved(
    observation: Mapping[str, Array], slice_: int, tile: int, left: float
) -> dict[str, Array]:
    """What the environment shows after a move; see native/environment/epochs.hpp."""
    after = {**observation, "moves_left": np.array([left], dtype=np.float32)}
    if slice_ < observation["slice_tiles"].size:
        for key, value in (("slice_tiles", tile), ("slice_mask", 0)):
            after[key] = observation[key].copy()
            after[key][slice_] = value
    return after

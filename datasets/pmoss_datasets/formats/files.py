"""D4RL's and d3rlpy's forms as files, written episode by episode and whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pmoss_datasets.folder import import_h5py
from pmoss_datasets.formats.d3rlpy import to_d3rlpy
from pmoss_datasets.formats.d4rl import D4RLView
from pmoss_datasets.storage import Dataset
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import DatasetError

Progress = Callable[[int, int], None]


def write_d4rl(
    dataset: Dataset,
    path: str | Path,
    reward: Reward = "terminal",
    progress: Progress = lambda done, total: None,
    *,
    overwrite: bool = False,
) -> None:
    """Writes the HDF5 file that D4RL's ``env.get_dataset(h5path)`` reads, compressed.

    Args:
        dataset: what to write.
        path: the file.
        reward: its mode.
        progress: called with (episodes done, episodes).
        overwrite: replace a file that is there.

    Raises:
        DatasetError: the file exists, or the dataset is damaged.
    """
    h5py = import_h5py()
    view, total = D4RLView(dataset, reward), len(dataset)
    with _whole(Path(path), overwrite) as temporary, h5py.File(temporary, "w") as file:
        for number, episode in enumerate(view.sequences()):
            for key, values in episode.items():
                if key.startswith("metadata/"):
                    if number == 0:
                        text = values.item() if values.dtype.kind == "U" else values
                        file.create_dataset(key, data=text)
                    continue
                if number == 0:
                    file.create_dataset(
                        key,
                        shape=(total * len(values), *values.shape[1:]),
                        dtype=values.dtype,
                        chunks=values.shape,
                        compression="gzip",
                        shuffle=True,
                    )
                file[key][number * len(values) : (number + 1) * len(values)] = values
            progress(number + 1, total)


def write_d3rlpy(
    dataset: Dataset,
    path: str | Path,
    reward: Reward = "terminal",
    progress: Progress = lambda done, total: None,
    *,
    overwrite: bool = False,
) -> None:
    """Writes what ``d3rlpy.dataset.ReplayBuffer.load`` reads, with flat observations.

    Args: as of write_d4rl(). All of it is expanded in memory first.

    Raises:
        DatasetError: the file exists, or the dataset is damaged.
        MissingExtraError: d3rlpy is not installed.
    """
    buffer = to_d3rlpy(dataset, reward, observation="flat")
    # h5py reads back what it writes, so "wb", as d3rlpy's manual has it, does not do.
    with _whole(Path(path), overwrite) as temporary, open(temporary, "w+b") as file:
        buffer.dump(file)
    progress(len(dataset), len(dataset))


@contextmanager
def _whole(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name at the end."""
    if path.exists() and not overwrite:
        raise DatasetError(f"{path}: exists already; pass overwrite=True to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

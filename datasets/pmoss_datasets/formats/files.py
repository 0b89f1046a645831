"""D4RL's form as a file, written whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from pmoss_datasets.folder import check_target, import_h5py, nothing_left
from pmoss_datasets.formats.d4rl import D4RLView
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError
from pmoss_env.files import write_atomically

Progress = Callable[[int, int], None]


def write_d4rl(
    dataset: Dataset,
    path: str | Path,
    reward: str | None = None,
    progress: Progress = lambda done, total: None,
    *,
    overwrite: bool = False,
) -> None:
    """Writes the HDF5 file that D4RL's ``env.get_dataset(h5path)`` reads, compressed.

    Episodes are expanded one by one, and held in memory compressed (0.1 MB each on large machines)
    until all of them are written.

    Args:
        reward: its mode; the first of the dataset's domain if None.
        progress: called with (episodes done, episodes).

    Raises:
        DatasetError: the file exists or cannot be written, or the dataset is damaged, or does not
            know the rewards asked for. Nothing is left behind.
    """
    h5py = import_h5py()
    path = Path(path)
    if path.is_dir():
        raise DatasetError(f"{path}: is a folder, and a file is to be written")
    check_target(path, overwrite, what="")  # which finds the file itself
    view, lengths = D4RLView(dataset, reward), dataset.lengths
    end = 0
    # In memory: HDF5 takes the process with it when a disk is full.
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for number, episode in enumerate(view.sequences()):
            begin, end = end, end + int(lengths[number])
            for key, values in episode.items():
                if key.startswith("metadata/"):
                    if number == 0:
                        text = values.item() if values.dtype.kind == "U" else values
                        file.create_dataset(key, data=text)
                    continue
                if number == 0:
                    file.create_dataset(
                        key,
                        shape=(int(lengths.sum()), *values.shape[1:]),
                        dtype=values.dtype,
                        chunks=(int(lengths.max()), *values.shape[1:]),
                        compression="gzip",
                        shuffle=True,
                    )
                file[key][begin:end] = values
            progress(number + 1, len(dataset))
    with nothing_left(path):
        write_atomically(path, buffer.getvalue())

"""To Minari: a folder that stock Minari opens."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from pmoss_datasets.card import card
from pmoss_datasets.folder import check_target, import_h5py, whole_folder
from pmoss_datasets.formats.episodes import worth
from pmoss_datasets.interfaces import Expander
from pmoss_datasets.storage import Dataset
from pmoss_env import __version__
from pmoss_env.checks import check_name
from pmoss_env.errors import DatasetError
from pmoss_env.extras import require
from pmoss_env.version import CONTINUED

if TYPE_CHECKING:
    from minari import MinariDataset

AUTHOR = "the authors of pmoss_env"
CONTACT = "see the project's page"
#: The file in which Minari keeps the arrays.
MAIN = "main_data.hdf5"
#: Forms in which Minari keeps the arrays: one file for all, or a file for each episode, which
#: viewers of tables show.
FORMS = ("hdf5", "parquet")
#: Metadata of an export, by which it is known whatever its form is.
EXPORTED = "data/metadata.json"


def to_minari(
    dataset: Dataset,
    root: str | Path,
    reward: str | None = None,
    *,
    form: str = "hdf5",
    overwrite: bool = False,
) -> MinariDataset:
    """Writes ``<root>/<id>`` as Minari keeps it, compressed, and opens it with Minari.

    With ``MINARI_DATASETS_PATH=<root>``, ``minari.load_dataset(id)`` finds it. Stock Minari
    recovers the environment and the seeds of its episodes, and reports normalised scores. All
    episodes are held in memory, compressed, until they are written.

    Args:
        root: folder of Minari datasets.
        reward: its mode, the first of its domain if None; the environment that Minari recovers
            pays the same.
        form: one of FORMS.

    Raises:
        DatasetError: something is there, it cannot be written, or the dataset is damaged. Nothing
            is left behind.
        MissingExtraError: Minari, or for Parquet PyArrow, is not installed.
        UnknownNameError: the form is unknown.
    """
    check_name("form of Minari's data", form, FORMS)
    minari, storage_class = _minari()
    if form == "parquet":
        require("pyarrow")
    target = Path(root) / dataset.metadata.id
    check_target(target, overwrite, what=EXPORTED)
    mode = dataset.reward(reward)
    kwargs = dataset.domain.paying(dataset.metadata.env_kwargs, mode)
    env = gymnasium.make(dataset.domain.env_id, **kwargs)
    packed = _packed(dataset, env.observation_space, mode) if form == "hdf5" else b""
    with whole_folder(target) as temporary:
        storage = storage_class.new(
            temporary / "data",
            observation_space=env.observation_space,
            action_space=env.action_space,
            env_spec=env.spec,
            data_format=form,
            # Grids of counters are no pictures, which Minari would store with losses.
            jpeg_encoding=False,
        )
        storage.update_metadata(_minari_metadata(dataset, mode, minari.__version__))
        if form == "parquet":
            storage.update_episodes(_buffers(dataset, env.observation_space, mode))
        else:
            (temporary / "data" / MAIN).write_bytes(packed)
            storage.update_metadata(
                {
                    "total_episodes": len(dataset),
                    "total_steps": int(dataset.lengths.sum()),
                    "dataset_size": round(len(packed) / 1e6, 3),
                }
            )
    return minari.MinariDataset(target / "data")


def is_minari(folder: Path) -> bool:
    """Whether a folder with metadata is one of Minari's, or of an episode in one."""
    names = (MAIN, "part-0.parquet", "0/part-0.parquet")
    return any((folder / name).is_file() for name in names)


def _minari_metadata(dataset: Dataset, reward: str, version: str) -> dict[str, Any]:
    metadata = dataset.metadata
    # What this version goes on with it plays to the bit. Earlier ones were never released.
    plays = __version__ if metadata.code_version in CONTINUED else metadata.code_version
    about: dict[str, Any] = {
        "dataset_id": metadata.id,
        "minari_version": version,
        "algorithm_name": ", ".join(metadata.policy_names),
        "author": {AUTHOR},
        "author_email": {CONTACT},
        "requirements": [f"pmoss-env=={plays}"],
        "description": card(dataset),
        "pmoss_reward": reward,
        "pmoss_checksum": dataset.checksum,
    }
    with suppress(DatasetError):  # none, or nothing is better than what scores 0: no scale
        low, high = dataset.reference_returns(reward)
        scores = metadata.reference_scores[dataset.domain.references[1]]
        about |= {
            "ref_min_score": low,
            "ref_max_score": high,
            "num_episodes_average_score": int(scores["n"]),
        }
    return about


def _packed(dataset: Dataset, space: gymnasium.Space[Any], reward: str) -> bytes:
    """Minari's file of all episodes, with one compressed chunk per array.

    Minari's own writer first keeps them a hundred times as large on the disk, and HDF5 takes the
    process with it when that is full.
    """
    h5py = import_h5py()
    expander = dataset.expander()
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="latest") as file:
        for number, episode in enumerate(dataset):
            shown, arrays = _arrays(dataset, expander, number, space, reward)
            if isinstance(shown, dict):
                shown = {f"observations/{key}": array for key, array in shown.items()}
            else:
                shown = {"observations": shown}
            arrays = {**shown, **arrays}
            arrays["infos/action_mask"] = arrays.pop("action_mask")
            group = file.create_group(f"episode_{number}")
            group.attrs.update(id=number, seed=episode.seed, total_steps=episode.steps)
            for name, array in arrays.items():
                group.create_dataset(
                    name, data=array, chunks=array.shape, compression="gzip", shuffle=True
                )
    return buffer.getvalue()


def _buffers(dataset: Dataset, space: gymnasium.Space[Any], reward: str) -> Iterator[Any]:
    """Episodes as Minari's own writer takes them."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    expander = dataset.expander()
    for number, episode in enumerate(dataset):
        shown, arrays = _arrays(dataset, expander, number, space, reward)
        yield EpisodeBuffer(
            id=number,
            seed=episode.seed,
            observations=shown,
            infos={"action_mask": arrays.pop("action_mask")},
            **arrays,
        )


def _arrays(
    dataset: Dataset, expander: Expander, number: int, space: gymnasium.Space[Any], reward: str
) -> tuple[Any, dict[str, Any]]:
    """The observations of an episode, a dictionary where the space is one, and its other arrays."""
    episode = dataset[number]
    observations = expander.observations(episode, last=True, copies=False)
    shown: Any = {key: observations[key] for key in expander.space.spaces}
    if not isinstance(space, gymnasium.spaces.Dict):
        shown = observations["observation"]
    ended = np.zeros(episode.steps, dtype=np.bool_)
    ended[-1] = True
    actions = episode.actions.astype(np.int64)
    if parts := getattr(dataset.metadata, "parts", ()):
        actions = np.stack(np.unravel_index(actions, parts), axis=1)  # as MultiDiscrete has them
    return shown, {
        "actions": actions,
        "rewards": worth(dataset, number, reward),
        "terminations": ended & (dataset.domain.ends == "terminated"),
        "truncations": ended & (dataset.domain.ends == "truncated"),
        "action_mask": expander.masks(episode, last=True),
    }


def _minari() -> tuple[Any, Any]:
    require("minari")
    import minari
    from minari.dataset.minari_storage import MinariStorage

    return minari, MinariStorage

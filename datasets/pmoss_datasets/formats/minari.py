"""To Minari and back: a folder that stock Minari opens, and Minari data as a dataset of ours."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from pmoss_datasets.card import card
from pmoss_datasets.domain import Domain, domain_of_env
from pmoss_datasets.folder import (
    DATA,
    METADATA,
    check_target,
    import_h5py,
    refuse_foreign_links,
    whole_folder,
)
from pmoss_datasets.formats.episodes import check_one_part, worth
from pmoss_datasets.interfaces import Expander, Player
from pmoss_datasets.replaying import replay_recipe
from pmoss_datasets.schema import Played
from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env import __version__
from pmoss_env.errors import DatasetError, MissingExtraError, PmossError, UnknownNameError
from pmoss_env.extras import require
from pmoss_env.files import read_json
from pmoss_env.version import CONTINUED

if TYPE_CHECKING:
    from minari import MinariDataset

AUTHOR = "the authors of pmoss_env"
CONTACT = "see the project's page"
LINK = "https://pypi.org/project/pmoss-env/"
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
    if form not in FORMS:
        raise UnknownNameError("form of Minari's data", form, FORMS)
    minari, storage_class = _minari()
    if form == "parquet":
        require("pyarrow")
    check_one_part(dataset, "Minari's form")
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


def from_minari(
    source: str | Path | MinariDataset, path: str | Path, *, overwrite: bool = False
) -> Dataset:
    """Makes a dataset of ours from what Minari's own tools collected on our environment.

    Every episode is played again from its seed and its actions. The observations and rewards that
    come out must be those that Minari kept. So scores, other reward modes and views of the result
    are those of the same episodes.

    Args:
        source: a Minari dataset, the folder of one, or its id below $MINARI_DATASETS_PATH.

    Raises:
        DatasetError: the data are damaged, of another environment or lack seeds, an action is not
            allowed, or an episode does not come out again; names file, episode and field.
        MissingExtraError: Minari is not installed.
    """
    minari, _ = _minari()
    check_target(path, overwrite)
    data = source
    with _damage(f"{source}: cannot be opened by Minari"):
        if isinstance(data, str | Path):
            folder = Path(data)
            if not folder.exists() and (in_root := _minari_root() / folder).is_dir():
                folder = in_root
            if (folder / DATA).is_file():
                raise DatasetError(f"{source}: is a dataset of pmoss already, not one of Minari's")
            check_minari(folder)
            data = minari.MinariDataset(folder / "data" if (folder / "data").is_dir() else folder)
        where = data.storage.data_path
        spec = data.env_spec
    name = None if spec is None else spec.id
    try:
        domain = domain_of_env(str(name))
    except UnknownNameError as error:
        raise DatasetError(f"{where}: env_spec: is of {name}, which is of no domain") from error
    with _damage(f"{where}: env_spec"):
        # Of the registered id: the entry point and the wrappers that the file names are code.
        given = dict(spec.kwargs)
        given.pop("render_mode", None)
        env: Any = domain.make_env(given, name)
        kwargs, reward = domain.task_of(env)  # with those of a ready-made id
        recipe = replay_recipe(domain.name, kwargs, "minari")
        player = domain.player(recipe)
    try:
        played = []
        file = where / MAIN if (where / MAIN).is_file() else where
        for number in data.episode_indices:
            place = f"{file}: episode {number}"
            with _damage(place):
                played.append(_play_again(domain, player, data, int(number), reward, place))
    finally:
        player.close()
        env.close()
    if not played:
        raise DatasetError(f"{where}: total_episodes: is 0")
    facts = domain.facts(recipe, played)
    facts["provenance"] = {**facts["provenance"], "imported_from": "minari"}
    metadata = domain.metadata(
        id=recipe.id,
        env_kwargs=recipe.kwargs,
        recipe={},
        seed=0,
        code_version=__version__,
        episodes=len(played),
        policy_names=(str(data.storage.metadata.get("algorithm_name", "unknown")),),
        reference_scores={},
        checksums={},
        domain=domain.name,
        **facts,
    )
    episodes = [domain.episode(each.values) for each in played]
    return write_dataset(path, episodes, metadata, overwrite=overwrite)


def is_minari(folder: Path) -> bool:
    """Whether a folder with metadata is one of Minari's, or of an episode in one."""
    names = (MAIN, "part-0.parquet", "0/part-0.parquet")
    return any((folder / name).is_file() for name in names)


def check_minari(folder: Path) -> None:
    """Refuses what of a Minari folder must not even be opened by Minari.

    Raises:
        DatasetError: a file that links to others, or declares more than it holds.
        OSError: no regular file.
        ValueError: metadata that are no JSON.
    """
    place = folder / "data" if (folder / "data").is_dir() else folder
    read_json(place / METADATA)
    for file in place.rglob("*.hdf5"):
        refuse_foreign_links(file)


@contextmanager
def _damage(where: str) -> Iterator[None]:
    """Minari answers damage with whatever it stumbles over: all of it becomes one typed line."""
    try:
        yield
    except (DatasetError, MissingExtraError):
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(f"{where}: {text}") from error


def _play_again(
    domain: Domain, player: Player, data: Any, number: int, reward: str, where: str
) -> Played:
    [stored] = data.iterate_episodes([number])
    with _damage(f"{where}: seed"):
        seed = next(iter(data.storage.get_episode_metadata([number]))).get("seed")
    if seed is None:
        raise DatasetError(f"{where}: seed: is missing: the episode cannot be played again")
    if not 0 <= seed < 2**63:
        raise DatasetError(f"{where}: seed: {seed}: must be from 0 on, below 2^63")
    actions, paid = np.asarray(stored.actions), np.asarray(stored.rewards)
    if actions.dtype.kind not in "iu":
        raise DatasetError(f"{where}: actions: {actions.dtype}: must be whole numbers")
    if not np.asarray(stored.terminations)[-1:].any():
        raise DatasetError(f"{where}: terminations: the episode was not played to its end")
    if paid.shape != actions.shape:
        raise DatasetError(f"{where}: rewards: {paid.shape}: must be {actions.shape}")

    def see(t: int, observation: Any) -> None:
        parts, arrays = observation, stored.observations
        if not isinstance(observation, dict):
            parts, arrays = {"observation": np.asarray(observation)}, {"observation": arrays}
        for key, value in parts.items():
            if key not in arrays:
                raise DatasetError(f"observations/{key}: is missing")
            kept, shape = np.asarray(arrays[key]), (actions.size + 1, *value.shape)
            if kept.shape != shape:
                raise DatasetError(f"observations/{key}: {kept.shape}: must be {shape}")
            if not np.array_equal(kept[t], value):
                raise DatasetError(
                    f"observations/{key}: step {t} is not what the environment shows: another "
                    "version of it, or damage"
                )

    try:
        played = player.replay(seed, actions, number, see)
        again = domain.rewards_of(domain.episode(played.values), reward)
    except PmossError as error:
        raise DatasetError(f"{where}: {error}") from error
    if not np.array_equal(paid, again):
        wrong = int(np.argmax(paid != again))
        raise DatasetError(
            f"{where}: rewards: step {wrong} is {paid[wrong]}: the environment pays {again[wrong]}"
        )
    return played


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
        "code_permalink": LINK,
        "requirements": [f"pmoss-env=={plays}"],
        "description": card(dataset),
        "pmoss_reward": reward,
        "pmoss_checksum": dataset.checksum,
    }
    if metadata.reference_scores:
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
    return shown, {
        "actions": episode.actions.astype(np.int64),
        "rewards": worth(dataset, number, reward),
        "terminations": ended,
        "truncations": np.zeros_like(ended),
        "action_mask": expander.masks(episode, last=True),
    }


def _minari_root() -> Path:
    """Minari's folder of datasets: ``$MINARI_DATASETS_PATH``, else ``~/.minari/datasets``."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def _minari() -> tuple[Any, Any]:
    require("minari")
    import minari
    from minari.dataset.minari_storage import MinariStorage

    return minari, MinariStorage

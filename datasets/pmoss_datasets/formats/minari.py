"""To Minari and back: a folder that stock Minari opens, and Minari data as a dataset of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from pmoss_datasets.card import card
from pmoss_datasets.expansion import Expander, rewards
from pmoss_datasets.folder import check_target, import_h5py, whole_folder
from pmoss_datasets.playing import ENV_ID, Played, Player
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_datasets.schema import Metadata, machine_facts
from pmoss_datasets.storage import Dataset, write_dataset
from pmoss_env import __version__
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import DatasetError, MissingExtraError, PmossError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES, Float64Array

if TYPE_CHECKING:
    from minari import MinariDataset

AUTHOR = "the authors of pmoss_env"
CONTACT = "see the project's page"
LINK = "https://pypi.org/project/pmoss-env/"


def to_minari(
    dataset: Dataset,
    root: str | Path,
    reward: Reward = "terminal",
    *,
    overwrite: bool = False,
) -> MinariDataset:
    """Writes ``<root>/<id>`` as Minari keeps it, compressed, and opens it with Minari.

    With ``MINARI_DATASETS_PATH=<root>``, ``minari.load_dataset(id)`` finds it. Stock Minari
    recovers the environment and the seeds of its episodes, and reports normalised scores.

    Args:
        dataset: what to write.
        root: folder of Minari datasets.
        reward: its mode; the environment that Minari recovers pays the same.
        overwrite: replace a dataset that is there.

    Raises:
        DatasetError: something is there, it cannot be written, or the dataset is damaged. Nothing
            is left behind.
        MissingExtraError: Minari is not installed.
    """
    minari, storage_class, buffer_class = _minari()
    target = Path(root) / dataset.metadata.id
    check_target(target, overwrite, what="data/metadata.json")
    spec = gymnasium.make(ENV_ID, **_env_kwargs(dataset, reward)).spec
    with whole_folder(target) as temporary:
        expander = Expander(dataset)
        storage = storage_class.new(
            temporary / "data",
            observation_space=expander.space,
            action_space=gymnasium.spaces.Discrete(dataset.machine.tiles),
            env_spec=spec,
            # Grids of counters are no pictures, which Minari would store with losses.
            jpeg_encoding=False,
        )
        storage.update_metadata(_minari_metadata(dataset, reward, minari.__version__))
        # One episode at a time: expanded they are a hundred times as large.
        for buffer in _buffers(dataset, expander, reward, buffer_class):
            storage.update_episodes([buffer])
        size = _compress(temporary / "data" / "main_data.hdf5")
        storage.update_metadata({"dataset_size": round(size / 1e6, 3)})
    return minari.MinariDataset(target / "data")


def from_minari(
    source: str | Path | MinariDataset, path: str | Path, *, overwrite: bool = False
) -> Dataset:
    """Makes a dataset of ours from what Minari's own tools collected on our environment.

    Every episode is played again from its seed and its actions; the observations and rewards that
    come out must be those that Minari kept, so that scores, other reward modes and views of the
    result are those of the same episodes.

    Args:
        source: a Minari dataset, or the folder of one.
        path: the folder to write.
        overwrite: replace a dataset that is there already.

    Raises:
        DatasetError: the data are of another environment or lack seeds, an action is not allowed,
            or an episode does not come out again; names episode and field.
        MissingExtraError: Minari is not installed.
    """
    minari, _, _ = _minari()
    check_target(path, overwrite)
    data = source
    try:
        if isinstance(data, str | Path):
            folder = Path(data)
            data = minari.MinariDataset(folder / "data" if (folder / "data").is_dir() else folder)
        where = str(data.storage.data_path)
        spec = data.env_spec
    except PmossError:
        raise
    except Exception as error:  # Minari answers damage with whatever it stumbles over
        raise DatasetError(f"{source}: cannot be opened by Minari: {error}") from error
    if spec is None or not spec.id.startswith("pmoss/"):
        name = None if spec is None else spec.id
        raise DatasetError(f"{where}: env_spec: is of {name}, not of an environment of pmoss/")
    env: Any = gymnasium.make(spec).unwrapped
    kwargs = dict(env.spec.kwargs)  # with those of a ready-made id
    reward = kwargs.pop("reward", None) or env.reward
    kwargs.pop("render_mode", None)
    recipe = Recipe(env=kwargs, tier="minari", reference_episodes=0, behaviours=_UNKNOWN)
    player = Player(recipe)
    try:
        played = [
            _play_again(player, stored, data, reward, f"{where}: episode {stored.id}")
            for stored in data.iterate_episodes()
        ]
    finally:
        player.close()
        env.close()
    if not played:
        raise DatasetError(f"{where}: total_episodes: is 0")
    metadata = Metadata(
        id=recipe.id,
        env_kwargs=recipe.kwargs,
        recipe={},
        seed=0,
        code_version=__version__,
        episodes=len(played),
        slices=played[0].episode.slices,
        counter_names=COUNTER_NAMES,
        offcore_names=played[0].offcore_names,
        policy_names=(str(data.storage.metadata.get("algorithm_name", "unknown")),),
        machine=machine_facts(load_machine(recipe.kwargs["machine"])),
        reference_scores={},
        provenance={**played[0].provenance, "imported_from": "minari"},
        checksums={},
    )
    return write_dataset(path, [p.episode for p in played], metadata, overwrite=overwrite)


#: What the recipe of an imported dataset plays: never asked, as the actions are known.
_UNKNOWN = (Behaviour("random"),)


def _play_again(player: Player, stored: Any, data: Any, reward: Reward, where: str) -> Played:
    seed = next(iter(data.storage.get_episode_metadata([stored.id]))).get("seed")
    if seed is None:
        raise DatasetError(f"{where}: seed: is missing: the episode cannot be played again")
    actions = np.asarray(stored.actions)
    if not np.asarray(stored.terminations)[-1:].any():
        raise DatasetError(f"{where}: terminations: the episode was not played to its end")

    def see(t: int, observation: Any) -> None:
        for key, value in observation.items():
            if not np.array_equal(np.asarray(stored.observations[key])[t], value):
                raise DatasetError(
                    f"observations/{key}: step {t} is not what the environment shows: another "
                    "version of it, or damage"
                )

    try:
        played = player.replay(int(seed), actions, int(stored.id), see)
        again = _paid(played, reward)
    except PmossError as error:
        raise DatasetError(f"{where}: {error}") from error
    if not np.array_equal(np.asarray(stored.rewards), again):
        wrong = int(np.argmax(np.asarray(stored.rewards) != again))
        raise DatasetError(
            f"{where}: rewards: step {wrong} is {stored.rewards[wrong]}: the environment pays "
            f"{again[wrong]}"
        )
    return played


def _paid(played: Played, reward: Reward) -> Float64Array:
    """What the live environment pays: shares are known in hindsight only."""
    return rewards(played.episode, "terminal" if reward == "slice" else reward)


def _env_kwargs(dataset: Dataset, reward: Reward) -> dict[str, Any]:
    return {**dataset.metadata.env_kwargs, "reward": reward}


def _minari_metadata(dataset: Dataset, reward: Reward, version: str) -> dict[str, Any]:
    metadata = dataset.metadata
    about: dict[str, Any] = {
        "dataset_id": metadata.id,
        "minari_version": version,
        "algorithm_name": ", ".join(metadata.policy_names),
        "author": {AUTHOR},
        "author_email": {CONTACT},
        "code_permalink": LINK,
        "requirements": [f"pmoss-env=={metadata.code_version}"],
        "description": card(dataset),
        "pmoss_reward": reward,
        "pmoss_checksum": dataset.checksum,
    }
    if metadata.reference_scores:
        low, high = dataset.reference_returns(reward)
        scores = metadata.reference_scores["search"]
        about |= {
            "ref_min_score": low,
            "ref_max_score": high,
            "num_episodes_average_score": int(scores["n"]),
        }
    return about


def _buffers(
    dataset: Dataset, expander: Expander, reward: Reward, buffer_class: Any
) -> Iterator[Any]:
    for number, episode in enumerate(dataset):
        seen = expander.observations(episode, last=True)
        ended = np.zeros(episode.slices, dtype=np.bool_)
        ended[-1] = True
        tiles = dataset.machine.tiles
        yield buffer_class(
            id=number,
            seed=episode.seed,
            observations={key: seen[key] for key in expander.space.spaces},
            actions=episode.actions.astype(np.int64),
            rewards=rewards(episode, reward),
            terminations=ended,
            truncations=np.zeros_like(ended),
            infos={"action_mask": seen["position_mask"].reshape(-1, tiles)},
        )


def _compress(path: Path) -> int:
    """Rewrites a file of Minari with one compressed chunk per array; returns its size in bytes."""
    h5py = import_h5py()
    packed = path.with_suffix(".packed")
    with h5py.File(path, "r") as old, h5py.File(packed, "w", libver="latest") as new:
        new.attrs.update(old.attrs)

        def copy(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                options = {"chunks": item.shape, "compression": "gzip", "shuffle": True}
                plain = item.ndim == 0 or item.size == 0
                written = new.create_dataset(name, data=item[()], **({} if plain else options))
            else:
                written = new.require_group(name)
            written.attrs.update(item.attrs)

        old.visititems(copy)
    packed.replace(path)
    return path.stat().st_size


def _minari() -> tuple[Any, Any, Any]:
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise MissingExtraError("minari", "minari") from error
    return minari, MinariStorage, EpisodeBuffer

"""A dataset as D4RL's dictionary of flat arrays, and the file that holds it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from pmoss_datasets.folder import check_target, import_h5py, nothing_left
from pmoss_datasets.formats.episodes import Chosen, numbers_of, worth
from pmoss_datasets.schema import Array
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError
from pmoss_env.files import write_atomically
from pmoss_env.types import Float64Array

Progress = Callable[[int, int], None]


class D4RLView:
    """The forms of D4RL: one dictionary, one with next observations, one dictionary per episode.

    The keys, N steps of all episodes in a row, D entries of a flattened observation, A actions:

    | key | shape, dtype | meaning |
    |---|---|---|
    | `observations` | (N, D) float32 | as ``gymnasium.spaces.flatten``; see ``columns`` |
    | `actions` | (N,) int64 | as chosen; D4RL's own tools cast actions to float32 |
    | `rewards` | (N,) float32 | of the mode asked for |
    | `terminals` | (N,) bool | the last step of each episode |
    | `timeouts` | (N,) bool | never: D4RL drops the last reward of an episode that times out |
    | `infos/action_mask` | (N, A) int8 | 1 = an action that might have been chosen |
    | `infos/episode`, `infos/seed` | (N,) int64 | number in the recipe, seed of the reset |
    | `infos/policy` | (N,) int64 | index into the metadata's ``policy_names`` |
    | `infos/behavior_probability` | (N,) float32 | of the action; NaN where not known |
    | `metadata/ends` | | how the environment ends them: "terminated" or "truncated" |
    | `metadata/...` | | id, environment, reward mode and reference scores |

    An observation takes 16 kB and more on large machines, so ask for some episodes at a time: by
    their numbers, or by a mask with true or false for each episode.

    Attributes:
        columns: the part of a flattened observation that each key of the environment's has.
    """

    def __init__(self, dataset: Dataset, reward: str | None = None) -> None:
        """Expands nothing yet.

        Args:
            reward: its mode; the first of the dataset's domain if None.

        Raises:
            UnknownNameError: another mode.
        """
        self._dataset = dataset
        self._reward = dataset.reward(reward)
        self._expander = dataset.expander()
        self.columns: dict[str, slice] = {}
        end = 0
        for key, space in self._expander.space.spaces.items():
            assert space.shape is not None
            begin, end = end, end + int(np.prod(space.shape))
            self.columns[key] = slice(begin, end)
        self._width = end

    def __reduce__(self) -> tuple[type[D4RLView], tuple[Dataset, str]]:
        """Copies, as the workers of a loader get, are made from the same dataset."""
        return type(self), (self._dataset, self._reward)

    def dictionary(self, episodes: Chosen | None = None) -> dict[str, Array]:
        """What ``env.get_dataset()`` gives in D4RL; of all episodes by default."""
        return self._expand(episodes, following=False)

    def qlearning(self, episodes: Chosen | None = None) -> dict[str, Array]:
        """The same with ``next_observations`` (N, D) and ``infos/next_action_mask``.

        Those of an episode's last step are of the state after it, in which no action follows.
        """
        return self._expand(episodes, following=True)

    def sequences(self, episodes: Chosen | None = None) -> Iterator[dict[str, Array]]:
        """One dictionary per episode, as ``d4rl.sequence_dataset``."""
        for episode in numbers_of(self._dataset, episodes):
            yield self._expand([episode], following=False)

    def get_normalized_score(self, returns: Float64Array | float) -> Float64Array:
        """D4RL's score: 0 = random, 1 = good; ``Dataset.normalized_score()`` is in percent."""
        low, high = self._dataset.reference_returns(self._reward)
        return (np.asarray(returns, dtype=np.float64) - low) / (high - low)

    def _expand(self, episodes: Chosen | None, *, following: bool) -> dict[str, Array]:
        dataset = self._dataset
        chosen = numbers_of(dataset, episodes)
        steps = dataset.lengths[chosen]
        ends = np.cumsum(steps)
        total = int(steps.sum())
        observations = np.empty((total, self._width), dtype=np.float32)
        masks = np.empty((total, self._expander.actions), dtype=np.int8)
        result: dict[str, Array] = {
            "observations": observations,
            "actions": np.empty(total, dtype=np.int64),
            "rewards": np.empty(total, dtype=np.float32),
            "terminals": np.zeros(total, dtype=np.bool_),
            "timeouts": np.zeros(total, dtype=np.bool_),
            "infos/action_mask": masks,
            "infos/episode": np.empty(total, dtype=np.int64),
            "infos/seed": np.empty(total, dtype=np.int64),
            "infos/policy": np.empty(total, dtype=np.int64),
            "infos/behavior_probability": np.empty(total, dtype=np.float32),
        }
        if following:
            result["next_observations"] = np.empty_like(observations)
            result["infos/next_action_mask"] = np.empty_like(masks)
        for i, number in enumerate(chosen):
            episode = dataset[number]
            rows = slice(int(ends[i] - steps[i]), int(ends[i]))
            flat, legal = self._flat(number, last=following)
            observations[rows], masks[rows] = flat[: steps[i]], legal[: steps[i]]
            if following:
                result["next_observations"][rows] = flat[1:]
                result["infos/next_action_mask"][rows] = legal[1:]
            result["actions"][rows] = episode.actions
            result["rewards"][rows] = worth(dataset, number, self._reward)
            result["terminals"][rows.stop - 1] = True
            result["infos/episode"][rows] = episode.episode
            result["infos/seed"][rows] = episode.seed
            result["infos/policy"][rows] = episode.policy
            result["infos/behavior_probability"][rows] = episode.propensity
        metadata = dataset.metadata
        result["metadata/id"] = np.array(metadata.id)
        result["metadata/reward"] = np.array(self._reward)
        result["metadata/ends"] = np.array(dataset.domain.ends)
        with suppress(DatasetError):  # data without a scale, as of one slice
            low, high = dataset.reference_returns(self._reward)
            result["metadata/ref_min_score"] = np.array(low)
            result["metadata/ref_max_score"] = np.array(high)
        return result

    def _flat(self, number: int, *, last: bool) -> tuple[Array, Array]:
        episode = self._dataset[number]
        observations = self._expander.observations(episode, last=last, copies=False)
        rows = episode.steps + last
        flat = np.empty((rows, self._width), dtype=np.float32)
        for key, part in self.columns.items():
            flat[:, part] = observations[key].reshape(rows, -1)
        return flat, self._expander.masks(episode, last=last)


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

"""What learners take from a dataset: episodes, scales of inputs, batches of whole episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array
from pmoss_agents.devices import moved
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_agents.spatial.planning.foresight import beginning, fit_expectile, foresee
from pmoss_datasets import Dataset
from pmoss_datasets.formats.episodes import worth
from pmoss_datasets.several import Several
from pmoss_datasets.spatial.expansion import Expander
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.errors import DatasetError
from pmoss_env.machines import Machine

#: Episodes that statistics are taken from, and every how many steps of them.
SAMPLE, STRIDE = 64, 8
#: Share of a GPU's free memory that episodes may take up, so that several learn on one.
_SHARE = 0.25


def check_learnable(dataset: Dataset, reward: Reward) -> None:
    """Refuses, before training, a dataset that would only teach nonsense.

    Raises:
        DatasetError: all actions are the same; a value is impossible (a tile that is forbidden, a
            counter or throughput that is not finite); a step has no mask; a reward is unknown.
            Names the episode.
    """
    actions = dataset.column("actions")
    if (actions == actions.flat[0]).all():
        raise DatasetError(
            f"{dataset.path}: actions: tile {actions.flat[0]} is the only one in all "
            f"{len(dataset)} episodes: there is nothing to learn"
        )
    expander = Expander(dataset)
    for number, episode in enumerate(dataset):
        masks = expander.masks(episode)
        if not masks.any(axis=1).all():
            step = int(np.flatnonzero(~masks.any(axis=1))[0])
            where = f"{dataset.path}: episode {number}: position_mask"
            raise DatasetError(f"{where}: no tile is allowed at step {step}")
        worth(dataset, number, reward)  # refuses rewards that the episode lacks


def best_episodes(dataset: Dataset | Several, share: float, reward: Reward = "terminal") -> Array:
    """Numbers, ascending, of the episodes with the highest returns; at least one.

    Args:
        share: how many of them, in (0, 1].
        reward: "improvement" ranks by the gain over the incumbent, the others by the final
            throughput.
    """
    returns = _column(dataset, "final_throughput")
    if reward == "improvement":
        returns = returns - _column(dataset, "incumbent_throughput")
    keep = max(1, round(share * returns.size))
    return np.sort(np.argsort(-returns, kind="stable")[:keep])


def parts_of(dataset: Dataset | Several) -> tuple[Dataset, ...]:
    """The datasets to learn from, one or several."""
    return dataset.parts if isinstance(dataset, Several) else (dataset,)


def _column(dataset: Dataset | Several, name: str) -> Array:
    """(episodes,) of all datasets, one after the other."""
    return np.concatenate([part.column(name) for part in parts_of(dataset)])


def spread(returns: npt.ArrayLike) -> float:
    """Standard deviation of returns in Mq/s, to divide rewards by; 1 where they are all alike."""
    values = np.asarray(returns)
    deviation = float(np.std(values))
    return deviation if deviation > 1e-6 * float(np.abs(values).max()) else 1.0


def input_samples(
    view: FullSequenceView | Joined, episodes: Array
) -> dict[str, npt.NDArray[np.float32]]:
    """Samples to standardise a network's inputs with.

    Args:
        episodes: numbers of those to sample from; SAMPLE of them, evenly spaced, are taken.

    Returns:
        (n, tiles, H) of ``machine_view`` and ``incumbent_view``, (n, features) of ``slice_view``
        and ``meta``, and (n,) ``returns``.
    """
    keys = ("machine_view", "incumbent_view", "slice_view", "meta", "returns")
    samples: dict[str, list[npt.NDArray[np.float32]]] = {key: [] for key in keys}
    picks = np.linspace(0, episodes.size - 1, min(SAMPLE, episodes.size)).astype(int)
    for i in episodes[picks]:
        episode = view[int(i)]
        for key in keys:
            values = episode[key].numpy()
            if values.ndim == 3:
                values = values[::STRIDE]
            samples[key].append(values[None] if key == "meta" else values)
    return {key: np.concatenate(parts) for key, parts in samples.items()}


def alike_tiles(machine: Machine) -> list[Array]:
    """Tiles of workers that may trade places: of one domain, no sibling's time to share."""
    workers = machine.workers
    alone = np.bincount(machine.physical_of_core[workers])[machine.physical_of_core[workers]] == 1
    workers = workers[alone]
    domain = machine.domain_of_core[workers]
    groups = [machine.tile_of_core[workers[domain == each]] for each in np.unique(domain)]
    return [tiles for tiles in groups if tiles.size > 1]


class Laps:
    """Goes through rows again and again, each lap in an order of the seed and the lap alone."""

    def __init__(self, rows: Array, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._lap, self._order = -1, rows

    def batch(self, number: int, size: int) -> list[int]:
        """The rows of a batch, by its number from 0."""
        batch = []
        for position in range(number * size, (number + 1) * size):
            lap, place = divmod(position, self._rows.size)
            if lap != self._lap:
                order = np.random.default_rng([self._seed, lap]).permutation(self._rows)
                self._lap, self._order = lap, order
            batch.append(int(self._order[place]))
        return batch


class Joined:
    """Episodes of several datasets as one row of them; see FullSequenceView."""

    def __init__(self, parts: Sequence[Dataset], reward: Reward) -> None:
        self._views = [FullSequenceView(part, reward) for part in parts]
        self._ends = np.cumsum([len(part) for part in parts])

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        part = int(np.searchsorted(self._ends, row, side="right"))
        return self._views[part][row - int(self._ends[part]) + len(self._views[part])]


class Episodes:
    """Batches of whole episodes in an order that depends on the seed and the update alone.

    Attributes:
        size: how many episodes there are.
        held: numbers of the episodes that are held out, ascending.
        meta_size: of an observation's ``meta``.
        device: where batches are. On a GPU that has room for all episodes each is expanded and
            moved once; on the CPU, where memory is dearer, again for every batch.
    """

    def __init__(
        self, dataset: Dataset | Several, config: Any, device: torch.device | None = None
    ) -> None:
        """Reads the episodes; ``config`` is a Decision Transformer's.

        Several datasets count as one, and are of the same machine.
        """
        parts = parts_of(dataset)
        finals = _column(dataset, "final_throughput")
        kept = best_episodes(dataset, config.keep_best)
        # Every so many of them, by final throughput: the good and the bad alike.
        count = min(round(config.held_out * kept.size), kept.size - 1)
        ranked = kept[np.argsort(-finals[kept], kind="stable")]
        self.held = np.sort(ranked[np.linspace(0, kept.size - 1, count).astype(int)])
        self._kept = np.setdiff1d(kept, self.held)
        self._laps = Laps(self._kept, config.seed)
        self._finals, self.size = finals, finals.size
        self._alike = alike_tiles(parts[0].machine) if config.shuffle_cores else []
        self._config = config
        self._machine = parts[0].machine
        self._view = Joined(parts, config.reward)
        self.device = torch.device("cpu") if device is None else device
        first = self._view[0]
        self.meta_size = int(first["meta"].numel())
        size = finals.size * sum(value.nbytes for value in first.values())
        self._held_there: dict[int, dict[str, Tensor]] | None = None
        if self.device.type != "cpu" and size < _SHARE * torch.cuda.mem_get_info(self.device)[0]:
            self._held_there = {}

    def foresight(self) -> Array:
        """Weights that predict the best to be expected at an episode's beginning, see foresee()."""
        finals = self._finals[self._kept]
        facts = np.stack([_beginning(self._view[int(row)]) for row in self._kept])
        return fit_expectile(facts, np.log(finals.clip(min=1e-9)), self._config.expectile)

    def batch(self, update: int, foresight: Array | None = None) -> dict[str, Tensor]:
        """The training batch of an update; see whole()."""
        batch = self.whole(self.rows(update), foresight)
        if self._alike:
            rng = np.random.default_rng([self._config.seed, update, 1])
            for i in range(len(batch["actions"])):
                self._shuffle(batch, i, rng)
        return batch

    def rows(self, update: int) -> list[int]:
        """Numbers of the episodes in the batch of an update."""
        return self._laps.batch(update, self._config.batch_size)

    def whole(self, rows: list[int], foresight: Array | None = None) -> dict[str, Tensor]:
        """Whole episodes as they are, on ``device``.

        Args:
            foresight: of foresight(): returns are in units of what was to be expected; None: Mq/s.
        """
        episodes = [self._episode(row, foresight) for row in rows]
        batch = {key: torch.stack([episode[key] for episode in episodes]) for key in episodes[0]}
        return moved(batch, self.device)

    def _episode(self, row: int, foresight: Array | None) -> dict[str, Tensor]:
        """One episode, on the GPU if all are kept there."""
        if self._held_there is None or foresight is None:
            return _in_units(self._view[row], foresight)
        if row not in self._held_there:
            episode = _in_units(self._view[row], foresight)
            self._held_there[row] = moved(episode, self.device)
        return self._held_there[row]

    def _shuffle(self, batch: dict[str, Tensor], i: int, rng: np.random.Generator) -> None:
        """Gives the tiles that are alike other places in one episode of a batch."""
        source = np.arange(batch["position_mask"].shape[-1])
        for tiles in self._alike:
            source[tiles] = rng.permutation(tiles)
        target = torch.from_numpy(np.argsort(source)).to(self.device)
        order = torch.from_numpy(source).to(self.device)
        for key in ("view_mask", "position_mask", "machine_view", "incumbent_view"):
            batch[key][i] = batch[key][i][:, order]
        batch["actions"][i] = target[batch["actions"][i]]

    def samples(self) -> dict[str, Array]:
        """See input_samples()."""
        return input_samples(self._view, self._kept)

    def returns(self, foresight: Array) -> Tensor:
        """(n,) float64 returns of all steps of all episodes trained on, in the unit of whole()."""
        returns = [self._episode(int(row), foresight)["returns"] for row in self._kept]
        return torch.cat(returns).double().cpu()


def _in_units(episode: dict[str, Tensor], foresight: Array | None) -> dict[str, Tensor]:
    """An episode with returns in units of what was to be expected of it."""
    if foresight is not None:
        episode["returns"] /= float(foresee(_beginning(episode), foresight))
    return episode


def _beginning(episode: Mapping[str, Tensor]) -> Array:
    return beginning(episode["meta"].numpy(), episode["incumbent_view"].numpy())

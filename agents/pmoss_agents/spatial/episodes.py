"""What learners take from a dataset: episodes, scales of inputs, batches of whole episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array
from pmoss_agents.devices import moved
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.observations import FullSequenceView, Layout
from pmoss_agents.spatial.planning.foresight import beginning, fit_expectile, foresee
from pmoss_datasets import Dataset
from pmoss_datasets.formats.episodes import worth
from pmoss_datasets.several import Several
from pmoss_datasets.spatial.expansion import Expander
from pmoss_env.envs.spatial.env import Reward
from pmoss_env.envs.spatial.observation import meta_names
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
    return best_of(returns, share)


def best_of(returns: Array, share: float) -> Array:
    """Numbers, ascending, of the highest returns; at least one."""
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


def layouts_of(
    parts: Sequence[Dataset],
    grid: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> list[Layout]:
    """How the machine of each dataset lies in one grid; without one, in the least that holds all.

    Raises:
        CheckpointError: a machine does not fit into the grid.
    """
    machines = [part.machine for part in parts]
    if grid is None:
        grid = [max(each.rows for each in machines), max(each.cols for each in machines)]
    if names is None:
        names = list(dict.fromkeys(name for machine in machines for name in meta_names(machine)))
    return [Layout(machine, grid, names) for machine in machines]


class Joined:
    """Episodes of several datasets as one row of them, in one grid; see FullSequenceView."""

    def __init__(
        self,
        parts: Sequence[Dataset],
        reward: Reward,
        layouts: Sequence[Layout],
        snapshot: str = "incumbent",
    ) -> None:
        self._views = [FullSequenceView(part, reward, snapshot) for part in parts]
        self._ends = np.cumsum([len(part) for part in parts])
        self._layouts = layouts

    def part_of(self, row: int) -> int:
        """Which of the datasets an episode is of."""
        return int(np.searchsorted(self._ends, row, side="right"))

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        part = self.part_of(row)
        episode = self._views[part][row - int(self._ends[part]) + len(self._views[part])]
        layout = self._layouts[part]
        if layout.is_own:
            return episode
        arrays = {key: value.numpy() for key, value in episode.items()}
        for key in ("view_mask", "position_mask"):
            arrays[key] = layout.spread(arrays[key], -1)
        for key in ("machine_view", "incumbent_view"):
            arrays[key] = layout.spread(arrays[key], -2)
        for key in ("actions", "incumbent_tiles", "slice_tiles"):
            if key in arrays:
                arrays[key] = layout.tiles[arrays[key]]
        arrays["meta"] = layout.meta(arrays["meta"])
        return {key: torch.from_numpy(value) for key, value in arrays.items()}


class _OfMachine(NamedTuple):
    """The episodes of a machine: those that are kept, their order, and its tiles that are alike."""

    kept: Array
    laps: Laps
    layout: Layout
    alike: list[Array]


def _by_machine(parts: Sequence[Dataset]) -> list[Array]:
    """Of each machine the numbers of its episodes, ascending."""
    names = np.concatenate([np.full(len(part), part.machine.name) for part in parts])
    return [np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())]


def _shuffle(
    batch: dict[str, Tensor], i: int, alike: Sequence[Array], rng: np.random.Generator
) -> None:
    """Gives the tiles that are alike other places in one episode of a batch."""
    source = np.arange(batch["position_mask"].shape[-1])
    for tiles in alike:
        source[tiles] = rng.permutation(tiles)
    device = batch["position_mask"].device
    target = torch.from_numpy(np.argsort(source)).to(device)
    order = torch.from_numpy(source).to(device)
    for key in ("view_mask", "position_mask", "machine_view", "incumbent_view"):
        batch[key][i] = batch[key][i][:, order]
    batch["actions"][i] = target[batch["actions"][i]]


class Episodes:
    """Batches of whole episodes in an order that depends on the seed and the update alone.

    Attributes:
        size: how many episodes there are.
        held: numbers of the episodes that are held out, ascending. The best is
            among them where there are any.
        meta_size: of an observation's ``meta``.
        device: where batches are. On a GPU that has room for all episodes each is expanded and
            moved once; on the CPU, where memory is dearer, again for every batch.
    """

    def __init__(
        self,
        dataset: Dataset | Several,
        config: Any,
        device: torch.device | None = None,
        layouts: Sequence[Layout] | None = None,
    ) -> None:
        """Reads the episodes; ``config`` is a Decision Transformer's.

        Datasets of one machine count as one. ``layouts`` are of their machines; None: see
        layouts_of().
        """
        parts = parts_of(dataset)
        layouts = layouts_of(parts) if layouts is None else layouts
        finals = _column(dataset, "final_throughput")
        self._view = Joined(parts, config.reward, layouts, config.snapshot)
        held, self._of_machines = [], []
        for numbers in _by_machine(parts):
            kept = numbers[best_of(finals[numbers], config.keep_best)]
            # Evenly spaced by final throughput from the best to the worst; one alone is the best.
            count = min(round(config.held_out * kept.size), kept.size - 1)
            ranked = kept[np.argsort(-finals[kept], kind="stable")]
            held.append(np.sort(ranked[np.linspace(0, kept.size - 1, count).astype(int)]))
            mine = np.setdiff1d(kept, held[-1])
            layout = layouts[self._view.part_of(int(numbers[0]))]
            alike = alike_tiles(layout.machine) if config.shuffle_cores else []
            self._of_machines.append(
                _OfMachine(
                    mine, Laps(mine, config.seed), layout, [layout.tiles[each] for each in alike]
                )
            )
        self.held = np.concatenate(held)
        self._kept = np.concatenate([each.kept for each in self._of_machines])
        self._finals, self.size = finals, finals.size
        self._config, self._layouts = config, layouts
        self.device = torch.device("cpu") if device is None else device
        first = self._view[0]
        self.meta_size = int(first["meta"].numel())
        size = finals.size * sum(value.nbytes for value in first.values())
        self._held_there: dict[int, dict[str, Tensor]] | None = None
        if self.device.type != "cpu" and size < _SHARE * torch.cuda.mem_get_info(self.device)[0]:
            self._held_there = {}

    @property
    def machines(self) -> int:
        """How many machines the episodes are of."""
        return len(self._of_machines)

    def layout(self, row: int) -> Layout:
        """How the machine of an episode is laid out."""
        return self._layouts[self._view.part_of(row)]

    def foresight(self) -> Array:
        """Weights that predict the best to be expected at an episode's beginning, see foresee()."""
        finals = self._finals[self._kept]
        facts = np.stack([_beginning(self._view[int(row)]) for row in self._kept])
        return fit_expectile(facts, np.log(finals.clip(min=1e-9)), self._config.expectile)

    def batch(self, update: int, foresight: Array | None = None) -> dict[str, Tensor]:
        """The training batch of an update; see whole()."""
        batch = self.whole(self.rows(update), foresight)
        if alike := self._of_machines[update % self.machines].alike:
            rng = np.random.default_rng([self._config.seed, update, 1])
            for i in range(len(batch["actions"])):
                _shuffle(batch, i, alike, rng)
        return batch

    def rows(self, update: int) -> list[int]:
        """Numbers of the episodes in the batch of an update: of one machine, each in its turn."""
        lap, machine = divmod(update, self.machines)
        return self._of_machines[machine].laps.batch(lap, self._config.batch_size)

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

    def samples(self) -> list[tuple[dict[str, Array], Layout]]:
        """Of each machine what input_samples() gives, and how it is laid out."""
        return [(input_samples(self._view, each.kept), each.layout) for each in self._of_machines]

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

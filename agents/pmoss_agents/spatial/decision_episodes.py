"""What the Decision Transformer learns from: batches of whole episodes."""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.decision_config import Config
from pmoss_agents.spatial.decision_network import Model
from pmoss_agents.spatial.episodes import best_episodes, input_samples
from pmoss_agents.spatial.foresight import beginning, fit_expectile, foresee
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_datasets import Dataset
from pmoss_env.machines import Machine


def alike_tiles(machine: Machine) -> list[Array]:
    """Tiles of workers that may trade places: of one domain, no sibling's time to share."""
    workers = machine.workers
    alone = np.bincount(machine.physical_of_core[workers])[machine.physical_of_core[workers]] == 1
    workers = workers[alone]
    domain = machine.domain_of_core[workers]
    groups = [machine.tile_of_core[workers[domain == each]] for each in np.unique(domain)]
    return [tiles for tiles in groups if tiles.size > 1]


class Episodes:
    """Batches of whole episodes in an order that depends on the seed and the update alone."""

    def __init__(self, dataset: Dataset, config: Config) -> None:
        kept = best_episodes(dataset, config.keep_best)
        # Every so many of them, by final throughput: the good and the bad alike.
        count = min(round(config.held_out * kept.size), kept.size - 1)
        ranked = kept[np.argsort(-dataset.column("final_throughput")[kept], kind="stable")]
        self.held = np.sort(ranked[np.linspace(0, kept.size - 1, count).astype(int)])
        self._kept = np.setdiff1d(kept, self.held)
        self._dataset = dataset
        self._alike = alike_tiles(dataset.machine) if config.shuffle_cores else []
        self._config = config
        self._view = FullSequenceView(dataset, config.reward)
        self.meta_size = int(self._view[0]["meta"].numel())

    def foresight(self) -> Array:
        """What tells, of an episode's beginning, the best to be expected; see foresight.py."""
        finals = self._dataset.column("final_throughput")[self._kept]
        known = np.stack([self._facts(int(row)) for row in self._kept])
        return fit_expectile(known, np.log(finals.clip(min=1e-9)), self._config.expectile)

    def _facts(self, row: int) -> Array:
        episode = self._view[row]
        return beginning(episode["meta"].numpy(), episode["incumbent_view"].numpy())

    def batch(self, update: int, foresight: Array | None = None) -> dict[str, Tensor]:
        """The training batch of an update; see whole()."""
        batch = self.whole(self._rows(update), foresight)
        if self._alike:
            rng = np.random.default_rng([self._config.seed, update, 1])
            for i in range(len(batch["actions"])):
                self._shuffle(batch, i, rng)
        return batch

    def whole(self, rows: list[int], foresight: Array | None = None) -> dict[str, Tensor]:
        """Whole episodes as they are.

        Args:
            rows: numbers of the episodes.
            foresight: of foresight(): returns are in units of what was foreseen; None: Mq/s.
        """
        batch = self._view.batch(rows)
        if foresight is None:
            return batch
        for i, returns in enumerate(batch["returns"]):
            known = beginning(batch["meta"][i].numpy(), batch["incumbent_view"][i].numpy())
            returns /= float(foresee(known, foresight))
        return batch

    def _shuffle(self, batch: dict[str, Tensor], i: int, rng: np.random.Generator) -> None:
        """Gives the tiles that are alike other places in one episode of a batch."""
        source = np.arange(batch["position_mask"].shape[-1])
        for tiles in self._alike:
            source[tiles] = rng.permutation(tiles)
        target = torch.from_numpy(np.argsort(source))
        order = torch.from_numpy(source)
        for key in ("view_mask", "position_mask", "machine_view", "incumbent_view"):
            batch[key][i] = batch[key][i][:, order]
        batch["actions"][i] = target[batch["actions"][i]]

    def _rows(self, update: int) -> list[int]:
        """Goes through the episodes again and again, each time in another order."""
        size = self._config.batch_size
        rows = []
        for position in range(update * size, (update + 1) * size):
            lap, place = divmod(position, self._kept.size)
            order = np.random.default_rng([self._config.seed, lap]).permutation(self._kept)
            rows.append(int(order[place]))
        return rows

    def set_up(self, model: Model, foresight: Array) -> None:
        """Tells the model the machine, and statistics of its inputs from some episodes."""
        samples = input_samples(self._dataset, self._view, self._kept)
        model.states.inputs.set_up(samples, self._dataset.machine)
        model.meta_standard.set(samples["meta"])
        sampled = [self.whole([int(row)], foresight)["returns"] for row in self._kept]
        returns = torch.cat(sampled).double()
        model.returns_mean.copy_(returns.mean())
        # Where all episodes end alike there is no scale to standardise to.
        model.returns_std.copy_(returns.std(unbiased=False).clamp(min=0.01))

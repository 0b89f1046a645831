"""Pair policy: attention over slices and cores, one network for every machine and slice count.

Slices and cores are tokens. Each is read off raw counters: of the slice or the core, and summed
over caches, nodes and machine. Slices attend to cores and cores to slices; no token knows its
number, so there is nothing to pad. Every pair gets a time. The slices are then placed one by one,
those that take longest first. A core's logit depends on when it would end, and on what was already
placed on it, beside its cache and on its node.

The policy learns from itself: it draws schedules, a judge picks the best, and the policy is taught
to draw that one. Corsini et al. do so in Self-Labeling the Job Shop Scheduling Problem, NeurIPS
2024. The judge is a surrogate, learned from the same data first. Beside it the policy learns the
times of pairs, from the logged times of slices. So its first draws are sound already. What is drawn
teaches all but the times: they stay those of the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pmoss_agents.agent import Array, OfflineAgent
from pmoss_agents.configs import checker
from pmoss_agents.devices import seed_torch
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.base import task_of
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_agents.spatial.pair_network import PairNetwork, drawn, greedy, log_likelihood
from pmoss_agents.spatial.planning_agent import Measured, PlanningAgent
from pmoss_agents.spatial.surrogate import Pairs, Surrogate
from pmoss_agents.spatial.throughput_model import ELAPSED, QUERIES, Topology
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_datasets import Dataset

#: Says what each of (n, S) schedules is worth.
Judge = Callable[[Array], Array]


@dataclass(frozen=True)
class Config:
    """How the policy is made and trained.

    Attributes:
        updates: of all together.
        judge_updates: the first ones, of the judge and of the times of pairs.
        samples: schedules drawn per incumbent.
        batch_size: incumbents per update that draws.
        learning_rate: at its highest, of the times.
        draw_rate: at its highest, once it draws.
        weight_decay: of AdamW.
        width: of the hidden layers.
        hidden: width of the layer that is computed anew for every placed slice.
        features: of a slice and of a core; a multiple of ``heads``.
        heads: of the attention.
        blocks: of attention.
        demands: of a slice on the core, cache and node that it shares with others.
        save_every: updates between checkpoints.
        threads: of torch.
        device: where the judge learns, one of configs.DEVICES; the policy, which draws slice after
            slice, learns on the CPU.
        seed: of weights, batches and samples.
    """

    updates: int = 1100
    judge_updates: int = 1000
    samples: int = 32
    batch_size: int = 4
    learning_rate: float = 2e-3
    draw_rate: float = 5e-4
    weight_decay: float = 1e-3
    width: int = 96
    hidden: int = 32
    features: int = 48
    heads: int = 4
    blocks: int = 1
    demands: int = 24
    save_every: int = 200
    threads: int = 1
    device: str = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        check = checker("pair-policy", self)
        positive = ("updates", "judge_updates", "samples", "batch_size", "width", "hidden", "heads")
        for name in positive:
            check(name, getattr(self, name) >= 1, "be at least 1")
        rule = f"be a multiple of heads = {self.heads}"
        check("features", self.features % self.heads == 0, rule)


def _set_rate(optimiser: torch.optim.AdamW, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def _time_loss(
    network: PairNetwork, topology: Topology, pairs: Pairs, rng: np.random.Generator, size: int
) -> Tensor:
    """How far foretold times are from those of a batch, weighted by the time of each slice."""
    before, there, later, after, _ = pairs.batch(rng, size)
    elapsed, queries = after[..., ELAPSED], after[..., QUERIES]
    known = (elapsed > 0) & (queries > 0)
    truth = (elapsed / queries).where(known, torch.ones(())).log()
    weight = known * elapsed / elapsed.mean(1, keepdim=True).clamp(min=1e-9)
    foretold = network.times(topology, before, there, later)
    off = F.smooth_l1_loss(foretold, truth, beta=0.05, reduction="none")
    return (weight * off).mean()


class PairPolicy(PlanningAgent, OfflineAgent[Dataset]):
    """The agent; see the module's docstring. What may be measured it leaves alone."""

    name = "pair-policy"
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.config: Config
        self.network: PairNetwork | None = None
        self._optimiser: torch.optim.AdamW | None = None
        self.judge = Surrogate(
            updates=self.config.judge_updates,
            width=self.config.width,
            features=self.config.features,
            demands=self.config.demands,
            inputs=SUMS,
            threads=self.config.threads,
            device=self.config.device,
            seed=self.config.seed,
        )

    # ---- learning

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """Only the counters: any machine, number of slices and order will do."""
        return {"counters": task_of(dataset, plans=True)["counters"]}

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        """Updates of the judge and of the policy's times, then of the policy by its draws.

        Metrics are those of the judge, and ``times``: the loss of the times. Once it draws there is
        ``likelihood``, the mean chance of a label's cores. ``gain`` is by how much the label beats
        the schedule that the policy would choose.
        """
        config = self.config
        topology = Topology(dataset.machine)
        self.judge.updates = min(self.updates, config.judge_updates)
        with torch_threads(config.threads), ExitStack() as learning:
            judging = learning.enter_context(self.judge._course(dataset))
            pairs = Pairs(dataset, topology)
            self.judge.use(dataset.machine)
            if self.network is None:
                self.task = self.task_of(dataset)
                with torch.random.fork_rng(devices=[]):
                    seed_torch(config.seed)
                    self.network = self._new_network()
                self.network.set_up(pairs.counters[0][pairs.rows].flatten(0, 1))
                self._optimiser = self._new_optimiser()
            network, optimiser = self.network, self._optimiser
            assert optimiser is not None

            def step(update: int) -> Callable[[], dict[str, float]]:
                if update < config.judge_updates:
                    of_judge = judging.step(update)
                    of_times = self._time_step(update, pairs, topology, network, optimiser)
                    return lambda: {**of_judge(), **of_times()}
                learning.close()  # the judge goes back to the CPU
                return self._step(update, pairs, topology, network, optimiser)

            yield Course(step, config.updates, config.save_every)
        self.reset()

    def _time_step(
        self,
        update: int,
        pairs: Pairs,
        topology: Topology,
        network: PairNetwork,
        optimiser: torch.optim.AdamW,
    ) -> Callable[[], dict[str, float]]:
        """One gradient step towards the logged times."""
        config = self.config
        warm = min(1.0, (update + 1) / 50)
        turn = math.pi * update / config.judge_updates
        _set_rate(optimiser, config.learning_rate * warm * cosine(turn))
        optimiser.zero_grad(set_to_none=True)
        rng = np.random.default_rng([config.seed, 2000, update])
        loss = _time_loss(network, topology, pairs, rng, self.judge.config.batch_size)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        times = float(loss.detach())
        check_loss(self.name, update, times)

        def change() -> dict[str, float]:
            optimiser.step()
            return {"times": times}

        return change

    def _step(
        self,
        update: int,
        pairs: Pairs,
        topology: Topology,
        network: PairNetwork,
        optimiser: torch.optim.AdamW,
    ) -> Callable[[], dict[str, float]]:
        """One gradient step towards the best of the policy's own draws, and the logged times."""
        config = self.config
        own, total = update - config.judge_updates, config.updates - config.judge_updates
        warm = min(1.0, (own + 1) / 20)
        _set_rate(optimiser, config.draw_rate * warm * cosine(math.pi * own / total))
        optimiser.zero_grad(set_to_none=True)
        rng = np.random.default_rng([config.seed, 1000, update])
        before, there, *_ = pairs.batch(rng, config.batch_size)
        likelihood, gain, loss = 0.0, 0.0, 0.0
        for counters, columns in zip(before, there, strict=True):
            scores = network(topology, counters, columns)
            with torch.no_grad():
                shape = (len(counters), config.samples, len(topology.tiles))
                noise = rng.gumbel(size=shape).astype(np.float32)
                noise[:, 0] = 0  # the first one is what the policy would do
                plans = drawn(scores, topology, noise)
            worth = self.judge.planner(counters.numpy(), columns.numpy()).worths(plans)
            label = torch.from_numpy(plans[int(worth.argmax())])
            # A label says which core, not how long: it would bend the times of rare cores.
            known = replace(scores, times=scores.times.detach())
            of_label = log_likelihood(known, topology, label)
            one = -of_label / config.batch_size
            one.backward()  # type: ignore[no-untyped-call]
            likelihood += math.exp(float(of_label.detach())) / config.batch_size
            gain += float(worth.max() - worth[0]) / config.batch_size
            loss += float(one.detach())
        of_times = _time_loss(network, topology, pairs, rng, self.judge.config.batch_size)
        of_times.backward()  # type: ignore[no-untyped-call]
        times = float(of_times.detach())
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        check_loss(self.name, update, loss + times)

        def change() -> dict[str, float]:
            optimiser.step()
            return {"loss": loss, "times": times, "likelihood": likelihood, "gain": gain}

        return change

    def _new_network(self) -> PairNetwork:
        config = self.config
        return PairNetwork(
            len(self.task["counters"]),
            width=config.width,
            hidden=config.hidden,
            features=config.features,
            heads=config.heads,
            blocks=config.blocks,
            demands=config.demands,
        )

    def _new_optimiser(self) -> torch.optim.AdamW:
        assert self.network is not None
        rate, decay = self.config.learning_rate, self.config.weight_decay
        return torch.optim.AdamW(self.network.parameters(), lr=rate, weight_decay=decay)

    # ---- acting

    def _planned(
        self, counters: Array, columns: Array, most: int | None, measured: Measured | None
    ) -> Array:
        assert self.network is not None
        known = torch.from_numpy(np.nan_to_num(counters, posinf=0.0).astype(np.float32))
        with torch.inference_mode():
            there = torch.from_numpy(columns).long()
            return greedy(self.network(self.topology, known, there), self.topology, most)

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.network is not None and self._optimiser is not None
        arrays = weights_of(self.network, "network/")
        arrays |= moments_of(self._optimiser, "optimiser/")
        of_judge, _ = self.judge._state()
        arrays |= {f"judge/{name}": array for name, array in of_judge.items()}
        return arrays, {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.updates = int(values["updates"])
        with torch.random.fork_rng(devices=[]):
            self.network = self._new_network()
        load_weights(self.network, arrays, "network/")
        self._optimiser = self._new_optimiser()
        load_moments(self._optimiser, arrays, "optimiser/")
        of_judge = {
            name.removeprefix("judge/"): array
            for name, array in arrays.items()
            if name.startswith("judge/")
        }
        self.judge.task = self.task
        self.judge._restore(of_judge, {"updates": min(self.updates, self.config.judge_updates)})

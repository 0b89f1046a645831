"""Pair policy: attention over slices and cores, one network for every machine and slice count.

Slices and cores are tokens. Each is read off raw counters: of the slice or the core, and summed
over caches, nodes and machine. Slices attend to cores and cores to slices; no token has a number of
its own, so there is nothing to pad. Every pair gets a time. The slices are then placed one by one,
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.configs import Settings
from pmoss_agents.devices import seed_torch
from pmoss_agents.pytorch import F, Tensor, nn, torch
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_agents.spatial.episodes import parts_of
from pmoss_agents.spatial.pair_network import PairNetwork, Scores, draw, greedy
from pmoss_agents.spatial.planning.agent import PlanningAgent, Trials
from pmoss_agents.spatial.planning.model import ELAPSED, QUERIES
from pmoss_agents.spatial.planning.pairs import PairBatch, Pairs
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import set_rate, torch_threads
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several


@dataclass(frozen=True)
class Config(Settings):
    """How the policy is made and trained."""

    agent: ClassVar[str] = "pair-policy"
    BOUNDS: ClassVar = dict.fromkeys(("learning_rate", "draw_rate", "weight_decay"), "[0, inf)")

    updates: int = 1100  # of all together
    judge_updates: int = 1000  # the first ones, of the judge and of the times of pairs
    samples: int = 32  # schedules drawn per incumbent
    batch_size: int = 4  # incumbents per update that draws
    learning_rate: float = 2e-3  # at its highest, of the times
    draw_rate: float = 5e-4  # at its highest, once it draws
    weight_decay: float = 1e-3  # of AdamW
    width: int = 96  # of the hidden layers
    hidden: int = 32  # width of the layer that is computed anew for every placed slice
    features: int = 48  # of a slice and of a core; a multiple of ``heads``
    heads: int = 4  # of the attention
    blocks: int = 1  # of attention
    demands: int = 24  # of a slice on the core, cache and node that it shares with others
    save_every: int = 200  # updates between checkpoints
    threads: int = 1  # of torch
    # Where the judge learns, one of configs.DEVICES; the policy, which draws slice after slice,
    # learns on the CPU.
    device: str = "cpu"
    seed: int = 0  # of weights, batches and samples

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = self.features % self.heads == 0
        self.check("features", whole, f"be a multiple of heads = {self.heads}")


def log_likelihood(scores: Scores, topology: Topology, chosen: Tensor) -> Tensor:
    """Mean logarithm of the chances by which the policy draws each core of a schedule.

    Args:
        chosen: (S,) the worker of each slice.
    """
    order = scores.order()
    placement = F.one_hot(chosen[order], len(topology.tiles)).float()
    own = placement * scores.times[order]
    ends = own.cumsum(0) - own + scores.times[order]
    places = (placement, placement @ topology.caches, placement @ topology.nodes)
    added = sum(
        shared.unsqueeze(-1) * demand[order].unsqueeze(1)
        for shared, demand in zip(places, scores.demands, strict=True)
    )
    assert isinstance(added, Tensor)
    hidden = scores.cores + added.cumsum(0) - added
    logits = scores.logits(order, hidden, ends)
    return F.log_softmax(logits, -1).gather(1, chosen[order].unsqueeze(1)).mean()


def time_loss(network: PairNetwork, topology: Topology, batch: PairBatch) -> Tensor:
    """How far predicted times are from those of a batch, weighted by the time of each slice."""
    elapsed, queries = batch.after[..., ELAPSED], batch.after[..., QUERIES]
    ran = (elapsed > 0) & (queries > 0)
    truth = (elapsed / queries).where(ran, torch.ones(())).log()
    weight = ran * elapsed / elapsed.mean(1, keepdim=True).clamp(min=1e-9)
    predicted = network.times(topology, batch.before, batch.incumbent, batch.columns)
    errors = F.smooth_l1_loss(predicted, truth, beta=0.05, reduction="none")
    return (weight * errors).mean()


class PairPolicy(PlanningAgent):
    """The agent; see the module's docstring. What may be measured it leaves alone."""

    name = "pair-policy"
    several = True
    Config = Config
    network: PairNetwork | None

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        shared = ("width", "features", "demands", "threads", "device", "seed")
        self.judge = Surrogate(
            updates=self.config.judge_updates,
            inputs=SUMS,
            **{name: getattr(self.config, name) for name in shared},
        )

    # ---- learning

    def task_of(self, dataset: Dataset | Several) -> dict[str, Any]:
        """See Surrogate.task_of."""
        return self.judge.task_of(dataset)

    @contextmanager
    def _course(self, dataset: Dataset | Several) -> Iterator[Course]:
        """Updates of the judge and of the policy's times, then of the policy by its draws.

        Metrics are those of the judge, and ``times``: the loss of the times. Once it draws there is
        ``likelihood``, the mean chance of a label's cores. ``gain`` is by how much the label beats
        the schedule that the policy would choose.
        """
        config = self.config
        self.judge.updates = min(self.updates, config.judge_updates)
        with torch_threads(config.threads), ExitStack() as learning:
            judging = learning.enter_context(self.judge.course(dataset))
            lessons = [Pairs(part) for part in parts_of(dataset)]
            if self.network is None:
                self.task = self.task_of(dataset)
                with torch.random.fork_rng(devices=[]):
                    seed_torch(config.seed)
                    self.network = self.new_network()
                self.network.set_up(torch.cat([pairs.samples() for pairs in lessons]))
                self.optimiser = self.new_optimiser(self.network)

            def step(update: int) -> Callable[[], dict[str, float]]:
                pairs = lessons[0]
                if len(lessons) > 1:
                    rng = np.random.default_rng([config.seed, 3000, update])
                    pairs = lessons[int(rng.integers(len(lessons)))]
                if update < config.judge_updates:
                    of_judge = judging.step(update)
                    of_times = self._time_step(update, pairs)
                    return lambda: {**of_judge(), **of_times()}
                learning.close()  # the judge goes back to the CPU
                return self._draw_step(update, pairs)

            yield Course(step, config.updates, config.save_every)
        self.reset()

    def _time_step(self, update: int, pairs: Pairs) -> Callable[[], dict[str, float]]:
        """One gradient step towards the logged times."""
        config = self.config
        warm = min(1.0, (update + 1) / 50)
        turn = math.pi * update / config.judge_updates
        loss = self._time_loss(pairs, np.random.default_rng([config.seed, 2000, update]))
        self.compute_gradients(update, config.learning_rate * warm * cosine(turn), loss)
        return self.stepping(times=loss.detach())

    def _time_loss(self, pairs: Pairs, rng: np.random.Generator) -> Tensor:
        assert self.network is not None
        batch = pairs.batch(rng, self.judge.config.batch_size)
        return time_loss(self.network, pairs.topology, batch)

    def _draw_step(self, update: int, pairs: Pairs) -> Callable[[], dict[str, float]]:
        """One gradient step towards the best of the policy's own draws, and the logged times."""
        config, network, topology = self.config, self.network, pairs.topology
        assert network is not None
        self.judge.use(pairs.machine)
        own, total = update - config.judge_updates, config.updates - config.judge_updates
        warm = min(1.0, (own + 1) / 20)
        set_rate(self.optimiser, config.draw_rate * warm * cosine(math.pi * own / total))
        self.optimiser.zero_grad(set_to_none=True)
        rng = np.random.default_rng([config.seed, 1000, update])
        batch = pairs.batch(rng, config.batch_size)
        likelihood, gain, loss = 0.0, 0.0, 0.0
        for counters, columns in zip(batch.before, batch.incumbent, strict=True):
            scores = network(topology, counters, columns)
            with torch.no_grad():
                shape = (len(counters), config.samples, len(topology.tiles))
                noise = rng.gumbel(size=shape).astype(np.float32)
                noise[:, 0] = 0  # the first one is what the policy would do
                plans = draw(scores, topology, noise)
            worth = self.judge.planner(counters.numpy(), columns.numpy()).worths(plans)
            label = torch.from_numpy(plans[int(worth.argmax())])
            # A label says which core, not how long: it would bend the times of rare cores.
            fixed = replace(scores, times=scores.times.detach())
            of_label = log_likelihood(fixed, topology, label)
            share = -of_label / config.batch_size
            share.backward()
            likelihood += math.exp(float(of_label.detach())) / config.batch_size
            gain += float(worth.max() - worth[0]) / config.batch_size
            loss += float(share.detach())
        of_times = self._time_loss(pairs, rng)
        of_times.backward()  # type: ignore[no-untyped-call]
        times = float(of_times.detach())
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        check_loss(self.name, update, loss + times)
        return self.stepping(loss=loss, times=times, likelihood=likelihood, gain=gain)

    # ---- acting

    def schedule(
        self, counters: Array, columns: Array, max_per_core: int | None, trials: Trials | None
    ) -> Array:
        """See PlanningAgent.schedule."""
        assert self.network is not None
        rows = torch.from_numpy(counters)
        with torch.inference_mode():
            scores = self.network(self.topology, rows, torch.from_numpy(columns).long())
            return greedy(scores, self.topology, max_per_core)

    # ---- keeping

    def new_network(self) -> PairNetwork:
        """See NetworkAgent.new_network."""
        sizes = ("width", "hidden", "features", "heads", "blocks", "demands")
        arguments = {name: getattr(self.config, name) for name in sizes}
        return PairNetwork(len(self.task["counters"]), **arguments)

    def held(self) -> dict[str, Surrogate]:
        """See NetworkAgent.held."""
        return {"judge/": self.judge}

"""Surrogate: a model of throughput learned from logged counters, and a planner inside it.

Every dataset logs the counters of all slices under two schedules, before an episode and after it.
The model learns from both directions what a query of each slice takes on each core. It sees the
counters of the slice, and those of the cores, caches and nodes under the incumbent. It sees them as
counts, and as what one event costs. It also sees which other slices would share core, cache and
node. It shares its weights over slices and cores, so their number and order do not matter: one
network serves any machine.

A query takes ``t[s, c]`` on core c, and a share ``q[s]`` of all queries goes to slice s. Core c is
busy for ``D[c] = sum(q[s] t[s, c])`` per query. The fullest core bounds the throughput; how sharply
it does is learned: ``log X = a - log(norm_p(D))``.

The planner knows no more than these times, see ``surrogate_planner``. An ensemble guards it against
errors of one model: it counts on times that are longer where the members differ. Where an episode
may be measured, each measured plan corrects the times for the next one.

Learned models of the environment with pessimism where an ensemble disagrees: Yu et al., MOPO:
Model-based Offline Policy Optimization, NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from pmoss_agents.agent import Array, OfflineAgent
from pmoss_agents.configs import LATER, checker
from pmoss_agents.devices import find_device, isolated_rng, learning_on, seed_torch
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.spatial.base import task_of
from pmoss_agents.spatial.encoders import GROUPS as SUMS
from pmoss_agents.spatial.encoders import check_groups
from pmoss_agents.spatial.planning_agent import Measured, PlanningAgent
from pmoss_agents.spatial.surrogate_planner import Planner
from pmoss_agents.spatial.throughput_model import (
    ELAPSED,
    GROUPS,
    MORE_GROUPS,
    Member,
    Topology,
    loss_of,
)
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import load_moments, load_weights, moments_of, torch_threads, weights_of
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several
from pmoss_env.errors import CheckpointError, DatasetError

#: Minutes for a plan.
MOST_TRIES = 10**6


@dataclass(frozen=True)
class Config:
    """How the model is made, trained and planned in.

    Attributes:
        members: of the ensemble.
        updates: gradient steps of every member.
        batch_size: schedules before and after, per member and update.
        learning_rate: at its highest.
        weight_decay: of AdamW.
        width: of the hidden layers.
        features: of a slice and of a core.
        demands: of a slice on the core, cache, node and machine that it shares with others.
        inputs: some of throughput_model.MORE_GROUPS: what it sees, and whether it begins with the
            times that were measured.
        pessimism: standard deviations of the members that the planner adds to each time.
        rounds: of asking the model and balancing.
        tries: exchanges by chance after each balancing of the first plan, see balancing.refine().
            With any, a plan for cores that are all alike is weighed, too.
        save_every: updates between checkpoints.
        threads: of torch.
        device: where it learns, one of configs.DEVICES; it plans on the CPU.
        seed: of weights and batches.
    """

    members: int = 3
    updates: int = 1000
    batch_size: int = 12
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    width: int = 96
    features: int = 48
    demands: int = 24
    inputs: tuple[str, ...] = GROUPS
    pessimism: float = 1.0
    rounds: int = 6
    save_every: int = 200
    threads: int = 1
    device: str = "cpu"
    seed: int = 0
    tries: int = field(default=0, metadata=LATER)

    def __post_init__(self) -> None:
        check = checker("surrogate", self)
        groups = check_groups(self.inputs, "surrogate: inputs", MORE_GROUPS)
        object.__setattr__(self, "inputs", groups)
        for name in ("members", "updates", "batch_size", "width", "features", "demands", "rounds"):
            check(name, getattr(self, name) >= 1, "be at least 1")
        check("tries", 0 <= self.tries <= MOST_TRIES, f"lie in [0, {MOST_TRIES}]")


class Pairs:
    """Schedules that ran, two by two: before an episode and after it, in both directions."""

    def __init__(self, dataset: Dataset, topology: Topology) -> None:
        machine = dataset.machine
        self.counters, self.columns, throughput = [], [], []
        for when in ("incumbent", "final"):
            read = dataset.column(f"{when}_counters").astype(np.float32)
            counters = np.nan_to_num(read, posinf=0.0, neginf=0.0)
            if not (counters[..., ELAPSED] > 0).any(axis=1).all():
                raise DatasetError(
                    f"{dataset.path}: {when}_counters: elapsed_us is 0 in a whole episode: a "
                    "surrogate learns from the counters before and after an episode"
                )
            self.counters.append(torch.from_numpy(counters))
            columns = topology.column[machine.tile_of_core[dataset.column(f"{when}_cores")]]
            self.columns.append(torch.from_numpy(columns).long())
            throughput.append(torch.tensor(dataset.column(f"{when}_throughput")).float())
        self.throughput = throughput
        # A core that is no worker's has no column: such schedules of others teach nothing.
        usable = [(columns >= 0).all(1) for columns in self.columns]
        self.rows = torch.nonzero(usable[0] & usable[1]).squeeze(1).numpy()
        if not self.rows.size:
            raise DatasetError(f"{dataset.path}: no schedule keeps to the machine's workers")

    def batch(self, rng: np.random.Generator, size: int) -> tuple[Tensor, ...]:
        """Counters and columns before; columns, counters and throughput after."""
        rows = torch.from_numpy(rng.choice(self.rows, size))
        forward = torch.from_numpy(rng.random(size) < 0.5)

        def chosen(parts: list[Tensor], first: bool) -> Tensor:
            a, b = (parts[0][rows], parts[1][rows])
            mask = (forward if first else ~forward).reshape(-1, *[1] * (a.ndim - 1))
            return torch.where(mask, a, b)

        return (
            chosen(self.counters, True),
            chosen(self.columns, True),
            chosen(self.columns, False),
            chosen(self.counters, False),
            chosen(self.throughput, False),
        )


class Surrogate(PlanningAgent, OfflineAgent[Dataset | Several]):
    """The agent; see the module's docstring.

    It also learns from several datasets, of whatever machines: each batch is of one of them, drawn.
    """

    name = "surrogate"
    several = True
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.config: Config
        self.members: nn.ModuleList | None = None
        self._optimiser: torch.optim.AdamW | None = None

    # ---- learning

    def task_of(self, dataset: Dataset | Several) -> dict[str, Any]:
        """Only the counters: any machine, number of slices and order will do."""
        known = [(part, task_of(part, plans=True)["counters"]) for part in _parts(dataset)]
        for part, counters in known[1:]:
            if counters != known[0][1]:
                raise DatasetError(f"{part.path}: holds other counters than {known[0][0].path}")
        return {"counters": known[0][1]}

    def renewed(self, **config: Any) -> Self:
        """See OfflineAgent.renewed. How counters are scaled stays as it was, too."""
        if self.members is None:
            raise CheckpointError(f"{self.name}: nothing to begin with: call fit() first")
        found = type(self)(**{**asdict(self.config), **config})
        found.task = dict(self.task)
        with torch.random.fork_rng(devices=[]):
            found.members = found._new_members()
        load_weights(found.members, weights_of(self.members, "members/"), "members/")
        return found

    @contextmanager
    def _course(self, dataset: Dataset | Several) -> Iterator[Course]:
        """Updates of all members; metrics are ``loss`` and ``error`` of log throughput."""
        config = self.config
        task = self.task_of(dataset)
        parts, device = _parts(dataset), find_device(config.device)
        with torch_threads(config.threads), isolated_rng(device):
            topologies = [Topology(part.machine) for part in parts]
            pairs = [Pairs(part, one) for part, one in zip(parts, topologies, strict=True)]
            if self.members is None:
                seed_torch(config.seed, device)
                self.task = task
                self.members = self._new_members()
                seen = torch.cat([one.counters[0][one.rows].flatten(0, 1) for one in pairs])
                for member in _of(self.members):
                    member.set_up(seen)
            if self._optimiser is None:
                self._optimiser = self._new_optimiser()
            members, optimiser = self.members, self._optimiser
            there = [topology.to(device) for topology in topologies]
            lessons = list(zip(pairs, there, strict=True))
            with learning_on(device, members, optimiser):
                yield Course(
                    lambda update: self._step(update, lessons, members, optimiser),
                    config.updates,
                    config.save_every,
                )
        self.reset()

    def _step(
        self,
        update: int,
        lessons: Sequence[tuple[Pairs, Topology]],
        members: nn.ModuleList,
        optimiser: torch.optim.AdamW,
    ) -> Callable[[], dict[str, float]]:
        """One gradient step of every member, each on a batch of its own."""
        config = self.config
        warm = min(1.0, (update + 1) / 50)
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * warm * cosine(math.pi * update / config.updates)
        optimiser.zero_grad(set_to_none=True)
        loss, error = 0.0, 0.0
        for number, member in enumerate(_of(members)):
            rng = np.random.default_rng([config.seed, number, update])
            pairs, topology = lessons[0 if len(lessons) == 1 else int(rng.integers(len(lessons)))]
            batch = pairs.batch(rng, config.batch_size)
            there = tuple(part.to(topology.cache.device) for part in batch)
            of_member, off = loss_of(member, topology, there)
            of_member.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(member.parameters(), 1.0)
            loss += float(of_member.detach()) / config.members
            error += float(off.detach()) / config.members
        check_loss(self.name, update, loss)

        def change() -> dict[str, float]:
            optimiser.step()
            return {"loss": loss, "error": error}

        return change

    def _new_members(self) -> nn.ModuleList:
        counters = len(self.task["counters"])
        config = self.config
        return nn.ModuleList(
            Member(
                counters,
                width=config.width,
                features=config.features,
                demands=config.demands,
                inputs=config.inputs,
            )
            for _ in range(config.members)
        )

    def _new_optimiser(self) -> torch.optim.AdamW:
        assert self.members is not None
        rate, decay = self.config.learning_rate, self.config.weight_decay
        return torch.optim.AdamW(self.members.parameters(), lr=rate, weight_decay=decay)

    # ---- acting

    def planner(self, counters: Array, columns: Array, most: int | None = None) -> Planner:
        """A planner on the machine at hand.

        Args:
            counters: (slices, H) under the incumbent, million per second; NaN counts as 0.
            columns: (slices,) the worker of each slice in the incumbent.
            most: slices that a core may get; None: any number.
        """
        if self.members is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        config = self.config
        planner = Planner(
            _of(self.members),
            self.topology,
            pessimism=config.pessimism,
            rounds=config.rounds,
            most=most,
            tries=config.tries,
        )
        planner.saw(counters, columns)
        return planner

    def _planned(
        self, counters: Array, columns: Array, most: int | None, measured: Measured | None
    ) -> Array:
        planner = self.planner(counters, columns, most)
        return planner.best() if measured is None else planner.measured(*measured)

    # ---- keeping

    @classmethod
    def from_checkpoint(cls, path: Path, header: Mapping[str, Any], arrays: Any) -> Self:
        """See Agent.from_checkpoint. Earlier models knew no costs, and say nothing of inputs."""
        config = header.get("config")
        if isinstance(config, Mapping):
            header = {**header, "config": {"inputs": list(SUMS), **config}}
        return super().from_checkpoint(path, header, arrays)

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.members is not None
        arrays = weights_of(self.members, "members/")
        if self._optimiser is not None:
            arrays |= moments_of(self._optimiser, "optimiser/")
        return arrays, {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            self.members = self._new_members()
        load_weights(self.members, arrays, "members/")
        self.updates = int(values["updates"])
        self._optimiser = self._new_optimiser()
        load_moments(self._optimiser, arrays, "optimiser/")


def _parts(dataset: Dataset | Several) -> tuple[Dataset, ...]:
    return dataset.parts if isinstance(dataset, Several) else (dataset,)


def _of(members: nn.ModuleList) -> list[Member]:
    return cast(list[Member], list(members))

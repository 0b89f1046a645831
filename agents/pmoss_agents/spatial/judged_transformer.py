"""Judged Transformer: a Decision Transformer that samples whole schedules, and takes one of them.

What a sampled schedule serves scatters, for its fullest core decides it: one hot slice beside
another is enough. So a wanted return is met on average, and not in each episode. This agent samples
several schedules for the same wanted return before it acts. A surrogate, learned from the same
data, predicts what each of them serves. The agent takes the schedule whose predicted throughput is
nearest to what is wanted; without a wanted return, the one that is predicted to serve most.

No schedule is run, and no input is added. The proposals are those of the Decision Transformer, and
the judge reads the counters under the incumbent. Both learn by their own losses.

Samples of a model of behaviour among which a learned value chooses: Hansen-Estruch et al., IDQL:
Implicit Q-Learning as an Actor-Critic Method with Diffusion Policies, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial import decision_network
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.planning import beginning, foresee
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.trainer import Course
from pmoss_agents.weights import torch_threads
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several
from pmoss_env.context import Context
from pmoss_env.envs.spatial.observation import observed_counters, observed_meta
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.types import Int32Array


@dataclass(frozen=True)
class Config(decision_network.Config):
    """Settings of the Decision Transformer, and of what judges its proposals.

    A proposal is sampled from states alone, so ``context`` is 1. And ``meta_position`` is "first",
    which is in sight of every step.
    """

    agent: ClassVar[str] = "judged-transformer"
    BOUNDS: ClassVar = {"spread": "[0, 1)"}

    context: int = 1
    decoding: Literal["greedy", "sample"] = "sample"
    proposals: int = 32  # schedules that are sampled in an episode
    # The returns of the proposals lie between so much below the wanted one and so much above it, as
    # a share of it. They then differ by more than chance.
    spread: float = 0.3
    # Gradient steps of the judge, before those of the Decision Transformer.
    judge_updates: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = {"context": 1, "meta_position": "first", "decoding": "sample", "reward": "terminal"}
        for name, value in fixed.items():
            self.check(name, getattr(self, name) == value, f"be {value!r}")
        self.check("complete", not self.complete, "be false: it plans, and sees all slices at once")


class JudgedTransformer(DecisionTransformer):
    """The agent; see the module's docstring.

    Before plan() it acts as the Decision Transformer does.
    """

    name = "judged-transformer"
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        own = self.config
        # It judges, and does not plan: a doubt of its members is no reason to predict less.
        self.judge = Surrogate(
            updates=own.judge_updates,
            pessimism=0.0,
            threads=own.threads,
            device=own.device,
            seed=own.seed,
        )

    # ---- learning

    @contextmanager
    def _course(self, dataset: Dataset | Several) -> Iterator[Course]:
        """Updates of the judge, then of the Decision Transformer; metrics are those of each."""
        first = self.config.judge_updates
        self.judge.updates = min(self.updates, first)
        with ExitStack() as learning:
            judging = learning.enter_context(self.judge.course(dataset))
            course = learning.enter_context(super()._course(dataset))

            def step(update: int) -> Callable[[], dict[str, float]]:
                return judging.step(update) if update < first else course.step(update - first)

            total = first + course.total
            yield Course(step, total, course.save_every, judge=course.judge)

    # ---- acting

    def reset(self) -> None:
        """Begins an episode."""
        super().reset()
        self._tiles: Array | None = None
        self._placed = 0

    def plan(self, context: Context, order: Int32Array) -> None:
        """Samples schedules for an episode, and takes one of them; called after reset().

        Args:
            order: (T,) the slice placed at each step.

        Raises:
            DescriptionError: nothing runs whose counters could be read.
        """
        if self.network is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        if context.snapshot is None or context.incumbent is None:
            raise DescriptionError(f"{self.name}: needs an incumbent and its snapshot")
        machine = context.machine
        counters = observed_counters(context.snapshot)[:, : len(self.task["counters"])]
        meta = observed_meta(machine, context.snapshot)
        before = np.zeros((machine.tiles, counters.shape[1]), dtype=np.float32)
        tiles = machine.tile_of_core[context.incumbent.cores]
        np.add.at(before, tiles, counters)
        expected = float(foresee(beginning(meta, before), self._foresight()))
        wanted = self.config.target_return * expected if self._wanted is None else self._wanted
        limit = context.max_slices_per_core or order.size
        with torch_threads(1), torch.inference_mode():
            plans = self._proposals(
                torch.from_numpy(counters[order]),
                torch.from_numpy(before),
                torch.from_numpy(meta),
                torch.from_numpy(np.where(machine.worker_tiles, limit, 0)),
                wanted / expected,
            )
        by_slice = np.empty_like(plans)
        by_slice[:, order] = plans
        self.judge.use(machine)
        column = self.judge.topology.column
        # What ran where no worker is counts as if it had run on the first one.
        planner = self.judge.planner(counters, np.maximum(column[tiles], 0))
        worths = planner.worths(column[by_slice])
        far = -worths if self._wanted is None else abs(worths - math.log(max(wanted, 1e-9)))
        self._tiles = plans[int(far.argmin())]

    def _proposals(
        self, counters: Tensor, before: Tensor, meta: Tensor, room: Tensor, wanted: float
    ) -> Array:
        """(n, T) int64: tiles of sampled schedules, step by step.

        Args:
            counters: (T, H) of the slice of each step.
            before: (tiles, H) under the incumbent.
            meta: (M,) of the observation.
            room: (tiles,) slices that each may get.
            wanted: return, in units of what is to be expected.
        """
        model, config = self.network, self.config
        assert model is not None
        size, (steps, _), tiles = config.proposals, counters.shape, len(room)
        hidden = self.task.get("observation") == "paper"
        returns = wanted * torch.linspace(1 - config.spread, 1 + config.spread, size)
        if size == 1:
            returns = torch.full((1,), wanted)
        asked = model.wanted(returns.unsqueeze(1).float())
        first = model.meta(model.meta_standard(meta)).expand(size, 1, -1)
        placed = torch.zeros(size, tiles, dtype=torch.int64)
        view = torch.zeros(size, 1, tiles, counters.shape[1])
        plans = torch.zeros(size, steps, dtype=torch.int64)
        noise = self._rng.gumbel(size=(steps, size, tiles)).astype(np.float32)
        shown = torch.zeros_like(before) if hidden else before
        every = torch.arange(size)
        for step in range(steps):
            mask = (placed < room).float().unsqueeze(1)
            state = {
                "view_mask": (placed > 0).float().unsqueeze(1),
                "position_mask": mask,
                "machine_view": view,
                "incumbent_view": shown[None, None],
                "slice_view": (counters[step] * (not hidden)).expand(size, 1, -1),
            }
            features, token = model.states(state)
            place = model.places.weight[step]
            x = torch.cat([first, asked + place, token + place], dim=1)
            for block in model.blocks:
                x = block(x)
            scores = model.scores(model.norm(x[:, -1:]), asked, features, mask)[:, 0]
            drawn = (scores / config.temperature + torch.from_numpy(noise[step])).argmax(1)
            plans[:, step] = drawn
            placed[every, drawn] += 1
            view[every, 0, drawn] += counters[step]
        return plans.numpy()

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act."""
        if self._tiles is None:
            return super().act(observation, action_mask)
        if self._placed >= self._tiles.size:
            raise CheckpointError(
                f"{self.name}: all {self._tiles.size} slices are placed: call reset() before the "
                "next episode"
            )
        tile = int(self._tiles[self._placed])
        self._placed += 1
        mask = observation["position_mask"] if action_mask is None else action_mask
        allowed = np.asarray(mask).reshape(-1) > 0
        return tile if allowed[tile] else int(allowed.argmax())

    # ---- keeping

    def held(self) -> dict[str, Surrogate]:
        """See NetworkAgent.held."""
        return {"judge/": self.judge}

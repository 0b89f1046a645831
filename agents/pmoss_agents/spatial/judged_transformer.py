"""Judged Transformer: a Decision Transformer that samples whole schedules, and takes one of them.

What a sampled schedule serves scatters, for its fullest core decides it: one hot slice beside
another is enough. So a wanted return is met on average, and not in each episode. This agent samples
several schedules under the same wish before it acts. A surrogate, learned from the same data,
foretells what each of them serves. The agent takes the schedule whose throughput is foretold
nearest to what is wanted; without a wish, the one of which most is foretold.

No schedule is run, and no input is added. The proposals are those of the Decision Transformer, and
the judge reads the counters under the incumbent.

Samples of a model of behaviour among which a learned value chooses: Hansen-Estruch et al., IDQL:
Implicit Q-Learning as an Actor-Critic Method with Diffusion Policies, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.configs import checker
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial import decision_config
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.foresight import beginning, foresee
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_agents.trainer import Course
from pmoss_agents.weights import torch_threads
from pmoss_datasets import Dataset
from pmoss_env.context import Context
from pmoss_env.envs.spatial.observation import observed_counters, observed_meta
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.types import Int32Array


@dataclass(frozen=True)
class Config(decision_config.Config):
    """Settings of the Decision Transformer, and of what judges its proposals.

    Attributes:
        context: 1, for a proposal is sampled from states alone.
        meta_position: "first", which is in sight of every step.
        decoding: "sample".
        proposals: schedules that are sampled in an episode.
        spread: the proposals are told returns from so much below the wanted one to so much above
            it, as a share of it. They then differ by more than chance.
        judge_updates: gradient steps of the judge, before those of the Decision Transformer.
    """

    context: int = 1
    decoding: Literal["greedy", "sample"] = "sample"
    proposals: int = 32
    spread: float = 0.3
    judge_updates: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        check = checker("judged-transformer", self)
        check("context", self.context == 1, "be 1")
        check("meta_position", self.meta_position == "first", "be 'first'")
        check("decoding", self.decoding == "sample", "be 'sample'")
        check("reward", self.reward == "terminal", "be 'terminal'")
        check("proposals", self.proposals >= 1, "be at least 1")
        check("spread", 0 <= self.spread < 1, "lie in [0, 1)")
        check("judge_updates", self.judge_updates >= 1, "be at least 1")


class JudgedTransformer(DecisionTransformer):
    """The agent; see the module's docstring.

    Where nobody calls plan() it acts as the Decision Transformer does.

    Attributes:
        judge: foretells what schedules serve.
    """

    name = "judged-transformer"
    Config = Config

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.config: Config
        own = self.config
        # It judges, and does not plan: a doubt of its members is no reason to foretell less.
        self.judge = Surrogate(
            updates=own.judge_updates,
            pessimism=0.0,
            threads=own.threads,
            device=own.device,
            seed=own.seed,
        )

    # ---- learning

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        """Updates of the judge, then of the Decision Transformer; metrics are those of each."""
        first = self.config.judge_updates
        self.judge.updates = min(self.updates, first)
        with ExitStack() as learning:
            judging = learning.enter_context(self.judge._course(dataset))
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
            context: of the episode.
            order: (T,) the slice placed at each step.

        Raises:
            CheckpointError: nothing was learned yet.
            DescriptionError: nothing runs whose counters could be read.
        """
        if self.model is None:
            raise CheckpointError(f"{self.name}: call fit() or load a checkpoint first")
        if context.snapshot is None or context.incumbent is None:
            raise DescriptionError(f"{self.name}: needs an incumbent and its snapshot")
        machine = context.machine
        counters = observed_counters(context.snapshot)[:, : len(self.task["counters"])]
        meta = observed_meta(machine, context.snapshot)
        before = np.zeros((machine.tiles, counters.shape[1]), dtype=np.float32)
        tiles = machine.tile_of_core[context.incumbent.cores]
        np.add.at(before, tiles, counters)
        foreseen = float(foresee(beginning(meta, before), self._foresight()))
        wanted = self.config.target_return * foreseen if self._wanted is None else self._wanted
        most = context.max_slices_per_core or order.size
        with torch_threads(1), torch.inference_mode():
            plans = self._proposals(
                torch.from_numpy(counters[order]),
                torch.from_numpy(before),
                torch.from_numpy(meta),
                torch.from_numpy(np.where(machine.worker_tiles, most, 0)),
                wanted / foreseen,
            )
        by_slice = np.empty_like(plans)
        by_slice[:, order] = plans
        self.judge.use(machine)
        column = self.judge.topology.column
        # What ran where no worker is counts as if it had run on the first one.
        planner = self.judge.planner(counters, np.maximum(column[tiles], 0))
        foretold = planner.worths(column[by_slice])
        far = -foretold if self._wanted is None else abs(foretold - math.log(max(wanted, 1e-9)))
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
            wanted: return, in units of what is foreseen.
        """
        model, config = self.model, self.config
        assert model is not None
        size, (steps, _), tiles = config.proposals, counters.shape, len(room)
        hidden = self.task.get("observation") == "paper"
        told = wanted * torch.linspace(1 - config.spread, 1 + config.spread, size)
        if size == 1:
            told = torch.full((1,), wanted)
        asked = model.wanted(told.unsqueeze(1).float())
        first = model.meta(model.meta_standard(meta)).expand(size, 1, -1)
        placed = torch.zeros(size, tiles, dtype=torch.int64)
        view = torch.zeros(size, 1, tiles, counters.shape[1])
        plans = torch.zeros(size, steps, dtype=torch.int64)
        noise = self._chance.gumbel(size=(steps, size, tiles)).astype(np.float32)
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

    def forget_moments(self) -> None:
        """Leaves out of the checkpoint what only learning needs."""
        super().forget_moments()
        self.judge._optimiser = None

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, values = super()._state()
        of_judge, _ = self.judge._state()
        return arrays | {f"judge/{name}": array for name, array in of_judge.items()}, values

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        super()._restore(arrays, values)
        of_judge = {
            name.removeprefix("judge/"): array
            for name, array in arrays.items()
            if name.startswith("judge/")
        }
        self.judge.task = {"counters": self.task["counters"]}
        self.judge._restore(of_judge, {"updates": min(self.updates, self.config.judge_updates)})

"""What all agents that learn through d3rlpy share: settings, networks, training, checkpoints.

``bc``, ``cql`` and ``bcq`` are d3rlpy's updates; ``iql``, ``xql``, ``rebrac`` and ``cdqac`` have
their own. Networks, batches, order, checkpoints and use are ours. d3rlpy's own files are
pickles and its ``fit`` keeps neither order nor place, so neither is used. A fitted agent is a few
networks of plain PyTorch: to load one and to act, d3rlpy need not be installed.

d3rlpy has no masks. Here they are a part of the observation, and the networks give every forbidden
tile the score FORBIDDEN. Maxima, soft maxima and samples over all tiles are then those over the
allowed ones, of this state and of the next.

All learners of values use returns of ``n_steps`` steps: r is the sum of their rewards, and s' the
state after them. The actions in between are the data's, without a correction for the policy. An
episode of at most as many steps is one transition from each of its states: r is then all of the
return, and no value is asked for.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from pmoss_agents.agent import Array, OfflineAgent
from pmoss_agents.devices import find_device, isolated_rng, learning_on, seed_torch, take_to
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.spatial.base import task_of
from pmoss_agents.spatial.encoders import TileEncoder, TileScores
from pmoss_agents.spatial.episodes import best_episodes, check_learnable, input_samples, spread
from pmoss_agents.spatial.observations import FullSequenceView
from pmoss_agents.spatial.tile_agent import TileAgent, TileConfig, set_up
from pmoss_agents.spatial.transitions import Batch, Transitions
from pmoss_agents.trainer import Course, check_loss, cosine
from pmoss_agents.weights import Parts, arrays_of, load_arrays, set_rate, torch_threads
from pmoss_datasets import Dataset
from pmoss_datasets.formats.d3rlpy import find_d3rlpy, import_d3rlpy
from pmoss_datasets.spatial.expansion import rewards
from pmoss_env.envs.spatial.env import Reward


@dataclass(frozen=True)
class ImitationConfig(TileConfig):
    """Settings that every agent which learns through d3rlpy has, beside those of TileConfig.

    Its learning rate falls as a cosine to a tenth.
    """

    # Share of the episodes trained on, highest return first; 1 keeps all. Value learners learn from
    # this return, too. "improvement" needs a throughput after every step; "terminal" and "slice" do
    # not.
    keep_best: float = 1.0
    updates: int = 3000  # gradient steps
    save_every: int = 100  # updates between checkpoints, if fit() is given a place for them
    # Whether the network sees a summary of all slices at each step, and not the next one alone. Any
    # data hold their counters; it plays where observation="complete".
    complete: bool = False

    BOUNDS: ClassVar = {"keep_best": "(0, 1]"}


@dataclass(frozen=True)
class ValueConfig(ImitationConfig):
    """Settings of agents that learn values; rewards are scaled so that returns spread by 1."""

    reward: Reward = "improvement"
    # Steps of a transition: rewards are summed over them before a value is asked for.
    n_steps: int = 16
    gamma: float = 1.0  # discount per step; 1 for episodes that always end after as many steps

    BOUNDS: ClassVar = {"gamma": "(0, 1]"}


class _Values(NamedTuple):
    """What d3rlpy reads off a Q-function."""

    q_value: Tensor


class QFunction(nn.Module):
    """Values of all tiles, FORBIDDEN where the mask is 0."""

    def __init__(self, encoder: TileEncoder) -> None:
        super().__init__()
        self.scores = TileScores(encoder, level=True)

    def forward(self, observation: Sequence[Tensor]) -> _Values:
        """(B, tiles) values of B observations."""
        return _Values(self.scores(observation))


class Policy(nn.Module):
    """Scores of all tiles, FORBIDDEN where the mask is 0, whose softmax is a policy."""

    def __init__(self, encoder: TileEncoder) -> None:
        super().__init__()
        self.scores = TileScores(encoder, level=False)


class Builder:
    """Makes networks and optimisers as d3rlpy wants them; it is d3rlpy's factory of both networks.

    Attributes:
        common: arguments that all of d3rlpy's algorithms take.
        share_encoder: whether Q-functions share an encoder: each has its own.
    """

    share_encoder = False

    def __init__(self, config: Any, shapes: Sequence[tuple[int, ...]], device: str) -> None:
        self._config, self._shapes, self._device = config, shapes, device
        self._tiles = math.prod(shapes[0][:2])
        self.common = {
            "observation_shape": shapes,
            "action_size": self._tiles,
            "compiled": False,
            "device": device,
        }

    def q_functions(self, number: int = 1) -> tuple[nn.ModuleList, Any]:
        """New Q-functions, and d3rlpy's forwarder, which has their losses and values."""
        from d3rlpy.models.builders import create_discrete_q_function

        networks, forwarder = create_discrete_q_function(
            self._shapes,
            self._tiles,
            *(self, self),
            device=self._device,
            enable_ddp=False,
            n_ensembles=number,
        )
        return networks, forwarder

    def value_function(self) -> nn.Module:
        """A new network whose output is the (B, 1) values of B observations."""
        from d3rlpy.models.builders import create_value_function

        network: nn.Module = create_value_function(
            self._shapes, self, device=self._device, enable_ddp=False
        )
        return network

    def policy(self, encoder: TileEncoder | None = None) -> Policy:
        """A new policy, with an encoder of its own unless one is given."""
        return Policy(encoder or self.create(self._shapes)).to(self._device)

    def optimiser(self, *networks: nn.Module) -> Any:
        """Adam for networks, with the gradient's norm limited."""
        from d3rlpy.optimizers import AdamFactory

        factory = AdamFactory(clip_grad_norm=self._config.clip)
        named = [module for network in networks for module in network.named_modules()]
        optimiser = factory.create(named, lr=self._config.learning_rate, compiled=False)
        for group in optimiser.optim.param_groups:
            group["foreach"] = True  # the same bits; one by one they take as long as the gradient
        return optimiser

    def create(self, shapes: Sequence[Sequence[int]]) -> TileEncoder:
        """See d3rlpy's EncoderFactory."""
        encoder: TileEncoder = self._config.encoder(shapes)
        return encoder

    def create_discrete(self, encoder: TileEncoder, _: int, tiles: int) -> tuple[QFunction, Any]:
        """See d3rlpy's QFunctionFactory."""
        from d3rlpy.models.torch import DiscreteMeanQFunctionForwarder

        network = QFunction(encoder)
        return network, DiscreteMeanQFunctionForwarder(network, tiles)


class D3rlpyAgent(TileAgent, OfflineAgent[Dataset]):
    """An agent whose learner is d3rlpy's, or made of its parts.

    Update u of a run depends on the seed and u alone. Metrics are the learner's losses.
    """

    #: Networks needed to act: where d3rlpy's modules hold them, and whether they are values.
    NETWORKS: ClassVar[Mapping[str, tuple[str, bool]]]

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._learner: Any = None
        self._encoder: TileEncoder
        self._arrays: dict[str, Array] = {}

    # ---- learning

    @abstractmethod
    def _new_learner(self, build: Builder) -> Any:
        """d3rlpy's algorithm with new networks.

        It has ``modules``, a dataclass of networks and of ``optim``, and
        ``update(batch, number)``, which returns losses by name.
        """

    def check_extras(self) -> None:
        """Raises MissingExtraError if d3rlpy is not installed; to act it need not be."""
        find_d3rlpy()

    def task_of(self, dataset: Dataset) -> dict[str, Any]:
        """See OfflineAgent.task_of."""
        return task_of(dataset, complete=self.config.complete)

    @contextmanager
    def _course(self, dataset: Dataset) -> Iterator[Course]:
        config = self.config
        check_learnable(dataset, config.reward)
        episodes = best_episodes(dataset, config.keep_best, config.reward)
        # A resumed agent goes on with the scale that it began with.
        scale = self.task.get("reward_scale") or spread(
            [rewards(dataset[int(i)], config.reward).sum() for i in episodes]
        )
        source = self._source(dataset, episodes, scale)
        device = find_device(config.device)
        with torch_threads(config.threads), isolated_rng(device), ExitStack() as learning:
            if self._learner is None:
                import_d3rlpy()
                seed_torch(config.seed, device)
                # d3rlpy numbers GPUs.
                place = "cuda:0" if device.type == "cuda" else "cpu"
                learner = self._new_learner(Builder(config, source.shapes, place))
                take_to(torch.device("cpu"), *_parts_of(learner))
                if self._arrays:
                    load_arrays(_named_parts(learner), self._arrays)
                else:
                    view = FullSequenceView(dataset, config.reward)
                    samples = input_samples(view, episodes)
                    set_up(_parts_of(learner)[0], samples, dataset.machine)
                shapes = [list(shape) for shape in source.shapes]
                self.task = {**self.task_of(dataset), "reward_scale": scale, "shapes": shapes}
                self._use(learner)
            networks, optimiser = _parts_of(self._learner)

            def step(update: int) -> Callable[[], dict[str, float]]:
                batch = source.batch(update, config.batch_size)
                rate = config.learning_rate * cosine(math.pi * update / config.updates)
                set_rate(optimiser, rate)
                return lambda: self._update(batch, update, device)

            learning.enter_context(learning_on(device, networks, optimiser))
            yield Course(step, config.updates, config.save_every)

    def _source(self, dataset: Dataset, episodes: Array, scale: float) -> Transitions:
        config = self.config
        steps: dict[str, Any] = {"reward": None}
        if isinstance(config, ValueConfig):
            steps = {"reward": config.reward, "scale": scale}
            steps |= {"n_steps": config.n_steps, "gamma": config.gamma}
        return Transitions(dataset, episodes, seed=config.seed, complete=config.complete, **steps)

    def _use(self, learner: Any) -> None:
        """Acts from now on with the learner's own networks."""
        self._learner = learner
        self._encoder = next(
            part for part in _parts_of(learner)[0].modules() if isinstance(part, TileEncoder)
        )
        for name, (path, _) in self.NETWORKS.items():
            module, _, place = path.partition(".")
            self.networks[name] = getattr(learner.modules, module).get_submodule(place)

    def _update(self, batch: Batch, update: int, device: torch.device) -> dict[str, float]:
        from d3rlpy.torch_utility import TorchMiniBatch

        def moved(value: Any) -> Any:
            if isinstance(value, tuple):
                return [moved(array) for array in value]
            return torch.from_numpy(value).to(device)

        parts = {name: moved(value) for name, value in vars(batch).items()}
        # All encoders see through the same scales: they need not apply them one by one.
        looked_at = ["observations"]
        if isinstance(self.config, ValueConfig):
            looked_at.append("next_observations")
        for states in looked_at:
            parts[states] = self._encoder.shared(parts[states])
        unused = torch.zeros_like(parts["actions"])
        lesson = TorchMiniBatch(**parts, returns_to_go=unused, device=str(device))
        losses = {k: float(v) for k, v in self._learner.update(lesson, update).items()}
        # The weights have changed already, but no episode is played with them: fit() ends here.
        check_loss(self.name, update, sum(losses.values()))
        return losses

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        if self._learner is not None:
            self._arrays = arrays_of(_named_parts(self._learner))
        return self._arrays, {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            for name, (path, level) in self.NETWORKS.items():
                network = self.config.scores(self.task["shapes"], level=level)
                load_arrays({f"{path}.": network}, arrays)
                self.networks[name] = network
        self._arrays = dict(arrays)
        self.updates = int(values["updates"])


def _named_parts(learner: Any) -> Parts:
    """Networks, targets included, and optimiser, by what the names of their arrays begin with."""
    modules = {f"{name}.": part for name, part in vars(learner.modules).items() if name != "optim"}
    return {**modules, "optim/": learner.modules.optim.optim}


def _parts_of(learner: Any) -> tuple[nn.ModuleList, torch.optim.Optimizer]:
    parts = vars(learner.modules).values()
    networks = nn.ModuleList(part for part in parts if isinstance(part, nn.Module))
    return networks, learner.modules.optim.optim

"""Offline agents that are one network and its optimiser, perhaps with others that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar, Self

from pmoss_agents.agent import Array, DatasetT, OfflineAgent
from pmoss_agents.devices import find_device, isolated_rng, learning_on, seed_torch
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.trainer import check_loss
from pmoss_agents.weights import Parts, arrays_of, load_arrays, set_rate, torch_threads
from pmoss_env.errors import CheckpointError


class NetworkAgent(OfflineAgent[DatasetT]):
    """An agent whose config has ``device``, ``threads`` and ``seed``, of its network.

    Attributes:
        network: None before the first fit().
        optimiser: of the network; None before it learns.
    """

    #: What the names of the network's arrays in a checkpoint begin with.
    NETWORK: ClassVar[str] = "network/"

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.network: Any = None
        self.optimiser: Any = None

    def new_network(self) -> nn.Module | None:
        """A new network for the task; None for an agent without one of its own."""
        return None

    def new_optimiser(self, network: Any) -> torch.optim.Optimizer | None:
        """A new optimiser for a network."""
        return None

    def held(self) -> Mapping[str, NetworkAgent[Any]]:
        """The agents that it holds, by what the names of their arrays begin with."""
        return {}

    # ---- learning

    @contextmanager
    def learning(
        self, task: Mapping[str, Any], set_up: Callable[[Any], None]
    ) -> Iterator[torch.device]:
        """Holds the network where it learns, with torch's generators and threads its own."""
        config = self.config
        device = find_device(config.device)
        with torch_threads(config.threads), isolated_rng(device):
            if self.network is None:
                self.task = dict(task)
                seed_torch(config.seed, device)
                self.network = self.new_network()
                set_up(self.network)
            if self.optimiser is None:
                self.optimiser = self.new_optimiser(self.network)
            with learning_on(device, self.network, self.optimiser):
                yield device
        self.reset()

    def compute_gradients(self, update: int, rate: float, loss: Tensor, clip: float = 1.0) -> None:
        """Prepares a gradient step, which ``optimiser.step()`` then makes.

        Args:
            loss: () with a gradient.

        Raises:
            CheckpointError: the loss is not finite.
        """
        check_loss(self.name, update, float(loss.detach()))
        set_rate(self.optimiser, rate)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), clip)

    def stepping(self, **metrics: Tensor | float) -> Callable[[], dict[str, float]]:
        """The second part of an update: a step of the optimiser, which returns the metrics.

        Args:
            **metrics: numbers, or tensors that are read after the step.
        """

        def change() -> dict[str, float]:
            self.optimiser.step()
            return {name: float(value) for name, value in metrics.items()}

        return change

    def renewed(self, **config: Any) -> Self:
        """See OfflineAgent.renewed: an agent of one network. Scales of inputs stay as they were."""
        if self.held() or set(self.parts()) - {self.NETWORK, "optimiser/"}:
            return super().renewed(**config)
        if self.network is None:
            raise CheckpointError(f"{self.name}: nothing to begin with: call fit() first")
        agent = type(self)(**{**asdict(self.config), **config})
        agent.task = dict(self.task)
        agent.training = {"mixed": True}  # it begins with the weights of another training
        with torch.random.fork_rng(devices=[]):
            agent.make_networks()
        load_arrays(agent.parts(), arrays_of({self.NETWORK: self.network}))
        return agent

    # ---- keeping

    def make_networks(self) -> None:
        """Makes new networks for the task, and their optimisers; those of agents it holds, too."""
        if (network := self.new_network()) is not None:
            self.network, self.optimiser = network, self.new_optimiser(network)
        for agent in self.held().values():
            agent.task = {key: self.task[key] for key in agent.TASK}
            agent.make_networks()

    def parts(self) -> Parts:
        """Networks and optimisers by what the names of their arrays begin with."""
        own = {self.NETWORK: self.network, "optimiser/": self.optimiser}
        parts = {name: part for name, part in own.items() if part is not None}
        for prefix, agent in self.held().items():
            parts |= {prefix + name: part for name, part in agent.parts().items()}
        return parts

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return arrays_of(self.parts()), {"updates": self.updates}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        with torch.random.fork_rng(devices=[]):
            self.make_networks()
        load_arrays(self.parts(), arrays)
        self.updates = int(values["updates"])

"""Agents on machines that they were not fitted for: smaller grids, padded and masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from pmoss_agents.agent import Array, Observation
from pmoss_agents.spatial.encoders import places_of
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.errors import CheckpointError, UnsupportedError

#: Observations with one value, or one row of counters, per tile.
_OF_TILES = ("view_mask", "position_mask", "machine_view", "incumbent_view")


class OnTiles(Protocol):
    """What there must be of an agent to be padded; see SpatialAgent."""

    name: ClassVar[str]
    task: dict[str, Any]

    def reset(self) -> None:
        """Begins an episode."""

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """Chooses a tile."""

    def observe(self, reward: float) -> None:
        """Tells the reward."""

    def check_task(self, other: Mapping[str, Any], what: str = "the environment") -> None:
        """Compares facts with the task that it was fitted for."""

    def encoders(self) -> list[Any]:
        """The state encoders that know the machine's topology."""


def refuse_nodes(who: str, actions: str) -> None:
    """Raises UnsupportedError where actions name the node of the data, too.

    Args:
        who: the agent, which chooses a tile.
        actions: of the environment.
    """
    if actions != "core":
        raise UnsupportedError(
            f"{who}: chooses a core tile, and with actions={actions!r} an action names the data's "
            "node, too: use actions='core', or an agent that plans, such as 'surrogate'"
        )


class PaddedAgent:
    """Lets an agent place slices on another machine (P-MOSS, section 7.5).

    The other machine's grid of core tiles lies in the upper left corner of the one that the agent
    knows, and the rest is masked. Entries of ``meta`` go by their names: nodes and links that the
    other machine lacks carry no traffic, those that the agent never saw are not shown to it.

    Attributes:
        agent: who decides.
    """

    def __init__(self, agent: OnTiles) -> None:
        """Wraps a fitted agent.

        Raises:
            CheckpointError: it does not know the names of its inputs: it is not fitted, or was by
                an earlier version.
        """
        if "meta_names" not in agent.task:
            raise CheckpointError(
                f"{agent.name}: does not say what its inputs are called: fit it with this version"
            )
        self.agent = agent
        self._grid: tuple[int, int] = tuple(agent.task["grid"])
        self._column = {name: i for i, name in enumerate(agent.task["meta_names"])}
        self._pairs: tuple[list[int], list[int]] | None = None

    def check_env(self, env: Any) -> None:
        """Learns the environment's machine; to be called before the first episode.

        Args:
            env: a spatial scheduling environment.

        Raises:
            CheckpointError: its grid does not fit into the agent's, or it has another number of
                slices, placement order, observation or set of counters.
        """
        env = env.unwrapped
        machine = env.machine
        refuse_nodes(self.agent.name, env.actions_kind)
        if machine.rows > self._grid[0] or machine.cols > self._grid[1]:
            raise CheckpointError(
                f"{self.agent.name} was fitted for a grid of {list(self._grid)} core tiles: "
                f"{machine.name} has {[machine.rows, machine.cols]}, which does not fit into it"
            )
        self.agent.check_task(
            {
                "slices": env.slices,
                "order": env.order_kind,
                "observation": env.observation_mode,
                "readable": env.counters_kind,
            }
        )
        known = [
            (here, self._column[name])
            for here, name in enumerate(meta_names(machine))
            if name in self._column
        ]
        self._pairs = [here for here, _ in known], [there for _, there in known]
        here = places_of(machine)
        places = np.full((len(here), *self._grid), -1)
        places[:, : machine.rows, : machine.cols] = here.reshape(-1, machine.rows, machine.cols)
        self._places = places.reshape(len(here), -1)

    def reset(self) -> None:
        """Begins an episode."""
        self.agent.reset()

    def observe(self, reward: float) -> None:
        """See Agent.observe."""
        self.agent.observe(reward)

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act; the tile is one of the environment's."""
        if self._pairs is None:
            raise CheckpointError(f"{self.agent.name}: call check_env() before the first episode")
        rows, cols = np.shape(observation["position_mask"])
        padded = {key: np.asarray(value) for key, value in observation.items()}
        if action_mask is not None:
            padded["position_mask"] = np.asarray(action_mask).reshape(rows, cols)
        for key in _OF_TILES:
            if key in padded:
                whole = np.zeros((*self._grid, *padded[key].shape[2:]), dtype=padded[key].dtype)
                whole[:rows, :cols] = padded[key]
                padded[key] = whole
        meta = np.zeros(len(self._column), dtype=padded["meta"].dtype)
        here, there = self._pairs
        meta[there] = padded["meta"][here]
        padded["meta"] = meta
        encoders = self.agent.encoders()
        own = [encoder.inputs.places.tolist() for encoder in encoders]
        try:
            for encoder in encoders:
                encoder.inputs.set_places(self._places)
            row, col = divmod(self.agent.act(padded), self._grid[1])
        finally:
            for encoder, places in zip(encoders, own, strict=True):
                encoder.inputs.set_places(places)
        return int(row * cols + col)

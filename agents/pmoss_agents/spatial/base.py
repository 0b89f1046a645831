"""What the agents of spatial scheduling share: the task that they were fitted for, and padding."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.agent import Agent, Array, Observation
from pmoss_agents.checks import allowed_actions, check_keys, no_dataset
from pmoss_agents.spatial.observations import Layout
from pmoss_datasets import Dataset
from pmoss_datasets.policies import Policy
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError
from pmoss_env.machines import Machine
from pmoss_env.types import COUNTER_NAMES

#: Observations with one value, or one row of counters, per tile.
_OF_TILES = ("view_mask", "position_mask", "machine_view", "incumbent_view")


class SpatialAgent(Agent):
    """An agent that chooses a core tile for each slice, and keeps which machine it learned on."""

    domain = "spatial"
    #: Whether it acts on machines of any size; others are padded to that of their data.
    any_machine: ClassVar[bool] = False
    TASK: ClassVar[tuple[str, ...]] = (
        "grid",
        "slices",
        "counters",
        "order",
        "observation",
        "meta_names",
    )

    def check_env(self, env: Any) -> None:
        """Refuses an environment of another task than the agent was fitted for.

        Args:
            env: a spatial scheduling environment, wrapped or bare. Attributes that it lacks are not
                compared.

        Raises:
            CheckpointError: it has another grid, number of slices, placement order, observation,
                set of counters or entry of ``meta``; it is of another kind, a vector of
                environments, or in a wrapper that changes its observations.
            UnsupportedError: its actions name nodes, which this agent cannot choose.
        """
        env = bare_env(self.name, env)
        refuse_nodes(self.name, getattr(env, "actions_kind", "core"))
        self.check_task(_facts_of(env))

    def check_task(self, other: Mapping[str, Any], what: str = "the environment") -> None:
        """See Agent.check_task; of ``meta_names`` it names the first that differs."""
        super().check_task({**other, "meta_names": None}, what)
        own, theirs = self.task.get("meta_names"), other.get("meta_names")
        if own and theirs and own != theirs:
            first = next(pair for pair in zip_longest(own, theirs) if pair[0] != pair[1])
            raise CheckpointError(
                f"{self.name} was fitted for a machine with {first[0]} in meta, where {what} has "
                f"{first[1]}; padding (--pad) goes by these names"
            )

    def padded(self) -> Policy:
        """See PaddedAgent."""
        return self if self.any_machine else PaddedAgent(self)

    def encoders(self) -> list[Any]:
        """The state encoders of the networks that act, which hold the machine's topology."""
        return []


def task_of(dataset: Dataset, *, plans: bool = False, complete: bool = False) -> dict[str, Any]:
    """The task of an agent that is fitted to ``dataset``, as plain JSON values.

    Args:
        plans: whether it is a PlanningAgent, which acts where nodes are chosen, too.
        complete: whether it sees all slices at each step.

    Raises:
        DatasetError: it is no Dataset, its episodes are of another domain, or they do not show
            what the agent sees.
        UnsupportedError: its actions name nodes, which the agent cannot choose.
    """
    if not isinstance(dataset, Dataset):
        raise no_dataset(dataset)
    if dataset.domain.name != SpatialAgent.domain:
        raise DatasetError(
            f"{dataset.path}: holds episodes of the domain {dataset.domain.name!r}: agents of "
            "spatial scheduling cannot learn from them"
        )
    given = dataset.metadata.env_kwargs
    if not plans:
        refuse_nodes("an agent of tiles", str(given.get("actions", "core")))
    observation = str(given.get("observation", "full"))
    if not plans and observation == "compact":
        raise DatasetError(
            f"{dataset.path}: was collected with observation='compact', which lacks machine_view: "
            "agents of tiles need 'full', 'paper' or 'complete'; surrogate and pair-policy do not"
        )
    if complete and observation == "paper":
        raise DatasetError(
            f"{dataset.path}: was collected with observation='paper', which shows no counters of "
            "slices: an agent with complete = true needs 'full' or 'complete'"
        )
    return {
        "grid": [dataset.machine.rows, dataset.machine.cols],
        "slices": dataset.steps,
        "counters": list(COUNTER_NAMES),
        "order": str(given.get("order", "index")),
        "observation": "complete" if complete else observation,
        "readable": str(given.get("counters", "all")),
        "meta_names": list(meta_names(dataset.machine)),
    }


def bare_env(who: str, env: Any) -> Any:
    """An environment of spatial scheduling, or what is known of one, without its wrappers.

    Raises:
        CheckpointError: it is a vector of environments, of another kind, or a wrapper changes its
            observations.
    """
    if (count := getattr(env, "num_envs", None)) is not None:
        raise CheckpointError(
            f"{who}: plays one environment, and this is a vector of {count}: check_env() takes one "
            "of gymnasium.make(), and act() one row: {key: value[i] for each key} of row i"
        )
    bare = getattr(env, "unwrapped", env)
    for each, way_out in (
        (bare, "make pmoss/SpatialScheduling-v0"),
        (env, "leave out the wrapper that changes them"),
    ):
        space = getattr(each, "observation_space", None)
        if space is not None and "position_mask" not in getattr(space, "spaces", {}):
            raise CheckpointError(
                f"{who}: {type(each).__name__} is no environment of spatial scheduling: its "
                f"observations lack position_mask: {way_out}"
            )
    return bare


def task_of_env(env: Any) -> dict[str, Any]:
    """task_of() for a bare environment to play in."""
    return {**_facts_of(env), "counters": list(COUNTER_NAMES)}


def _facts_of(env: Any) -> dict[str, Any]:
    """The facts of a task that an environment has as attributes; None for the others."""
    machine = getattr(env, "machine", None)
    return {
        "grid": None if machine is None else [machine.rows, machine.cols],
        "meta_names": list(meta_names(machine)) if isinstance(machine, Machine) else None,
        "slices": getattr(env, "slices", None),
        "order": getattr(env, "order_kind", None),
        "observation": getattr(env, "observation_mode", None),
        "readable": getattr(env, "counters_kind", None),
    }


def refuse_nodes(who: str, actions: str) -> None:
    """Raises UnsupportedError where actions name the node of the data, too."""
    if actions != "core":
        raise UnsupportedError(
            f"{who}: chooses a core tile, and with actions={actions!r} an action names the data's "
            "node, too: use actions='core', or an agent that plans, such as 'surrogate'"
        )


class PaddedAgent:
    """Lets an agent place slices on a smaller machine, padded and masked (P-MOSS, section 7.5).

    The other machine's grid of core tiles lies in the upper left corner of the agent's, and the
    rest is masked. Entries of ``meta`` go by their names: nodes and links that the other machine
    lacks carry no traffic, those that the agent never had are not shown to it.
    """

    def __init__(self, agent: SpatialAgent) -> None:
        """Wraps a fitted agent.

        Raises:
            CheckpointError: it has no names of its inputs: it is not fitted, or was by an earlier
                version.
        """
        if "meta_names" not in agent.task:
            raise CheckpointError(
                f"{agent.name}: does not say what its inputs are called: fit it with this version"
            )
        self.agent = agent
        self._grid: tuple[int, int] = tuple(agent.task["grid"])
        self._layout: Layout | None = None

    def check_env(self, env: Any) -> None:
        """Takes the environment's machine; to be called before the first episode.

        Raises:
            CheckpointError: its grid does not fit into the agent's, or it has another number of
                slices, placement order, observation or set of counters; it is of another kind, or a
                vector of environments.
        """
        env = bare_env(self.agent.name, env)
        machine = env.machine
        refuse_nodes(self.agent.name, env.actions_kind)
        try:
            self._layout = Layout(machine, self._grid, self.agent.task["meta_names"])
        except CheckpointError as error:
            raise CheckpointError(f"{self.agent.name} was fitted for {error}") from error
        self.agent.check_task({**_facts_of(env), "grid": None, "meta_names": None})

    def reset(self) -> None:
        """Begins an episode."""
        self.agent.reset()

    def observe(self, reward: float) -> None:
        """See Agent.observe."""
        self.agent.observe(reward)

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """See Agent.act; the tile is one of the environment's."""
        layout = self._layout
        if layout is None:
            raise CheckpointError(f"{self.agent.name}: call check_env() before the first episode")
        mode = self.agent.task.get("observation", "full")
        check_keys(self.agent.name, observation, ("meta", "position_mask"), mode)
        rows, cols = np.shape(observation["position_mask"])
        padded = {key: np.asarray(value) for key, value in observation.items()}
        if action_mask is not None:
            allowed_actions(self.agent.name, action_mask, rows * cols)
            padded["position_mask"] = np.asarray(action_mask).reshape(rows, cols)
        for key in _OF_TILES:
            if key in padded:
                further = padded[key].shape[2:]
                whole = layout.spread(padded[key].reshape(rows * cols, *further), 0)
                padded[key] = whole.reshape(*self._grid, *further)
        padded["meta"] = layout.meta(padded["meta"])
        encoders = self.agent.encoders()
        own = [encoder.inputs.places.tolist() for encoder in encoders]
        try:
            for encoder in encoders:
                encoder.inputs.set_places(layout.places)
            row, col = divmod(self.agent.act(padded), self._grid[1])
        finally:
            for encoder, places in zip(encoders, own, strict=True):
                encoder.inputs.set_places(places)
        return int(row * cols + col)

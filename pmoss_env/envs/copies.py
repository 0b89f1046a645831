"""Copies and pickles of an environment: its arguments, and how its episode came to be."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.core import ActType, ObsType

from pmoss_env.errors import UnsupportedError

#: Why no copy is made of what others step.
OF_A_VECTOR = (
    "a sub-environment of a vector environment cannot be copied: others step it; copy one that "
    "gymnasium.make() made"
)


def measures(backend: str) -> str:
    """Why no copy is made of an environment that measures, and the way out.

    Args:
        backend: its name.
    """
    return (
        f"an episode on the backend {backend!r} cannot be copied: it measures, and never twice the "
        "same; make another environment, or copy one on a model, such as backend='analytic'"
    )


class Past:
    """How an episode came to be.

    Attributes:
        arguments: keyword arguments of the environment, as they were when it was made.
        generator: state of the bit generator before reset() drew from it; None before reset().
        options: of reset().
        actions: that the episode has taken; those that an error refused are not in it.

    Args:
        arguments: of the environment.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments: dict[str, Any] = _kept(arguments)
        self.generator: dict[str, Any] | None = None
        self.options: dict[str, Any] | None = None
        self.actions: list[Any] = []

    def begin(self, generator: Mapping[str, Any], options: dict[str, Any] | None) -> None:
        """Takes note of an episode that has begun.

        Args:
            generator: state of the bit generator before reset() drew from it.
            options: of reset().
        """
        self.generator, self.options = dict(generator), copy.deepcopy(options)
        self.actions = []


class RepeatableEnv(gymnasium.Env[ObsType, ActType]):
    """An environment whose copies and pickles repeat its episode, and go on with the same bits.

    A copy is made with the same arguments, and takes the same actions. An episode that is over is
    not repeated: the copy has to be reset. Copy and original draw the same from then on, each from
    a generator of its own.

    A subclass sets ``_past``, and tells it of every episode and every action.
    """

    _past: Past

    def _goes_on(self) -> bool:
        """Whether an episode runs."""
        raise NotImplementedError

    def _no_copy(self) -> str:
        """Why no copy can be made, with the way out; empty where one can."""
        return ""

    def __getstate__(self) -> dict[str, Any]:
        """What a copy needs, in this process or another, to repeat the episode so far.

        Raises:
            UnsupportedError: the episode would not be the same, or others step it.
        """
        if reason := self._no_copy():
            raise UnsupportedError(reason)
        past, running = self._past, self._goes_on()
        state = {
            "arguments": past.arguments,
            "generator": past.generator if running else None,
            "options": past.options,
            "actions": past.actions if running else [],
            "np_random": self.np_random,
            "np_random_seed": self.np_random_seed,
            "action_space": self.action_space,
            "spec": self.spec,
        }
        return copy.deepcopy(state)  # copy.copy() copies no more than the environment

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes the environment anew and repeats the episode; one that is over has to be reset."""
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.spec, self.action_space = state["spec"], state["action_space"]
        if (began := state["generator"]) is not None:
            bits = getattr(np.random, began["bit_generator"])()
            bits.state = began
            self.np_random = np.random.Generator(bits)
            self.reset(options=state["options"])
            for action in state["actions"]:
                self.step(action)
        self.np_random = state["np_random"]
        # The setter has forgotten what the generator was seeded with.
        self._np_random_seed = state["np_random_seed"]


def _kept(value: Any) -> Any:
    """Plain JSON, safe from later changes; what is something else stays what it is."""
    if isinstance(value, Mapping):
        return {key: _kept(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_kept, value))
    return value

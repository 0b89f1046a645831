"""Copies and pickles of environments, made from their arguments and actions."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.core import ActType, ObsType

from pmoss_env.errors import DescriptionError, UnsupportedError, unknown_key

#: The reason not to copy a sub-environment.
IN_VECTOR_ENV = (
    "a sub-environment of a vector environment cannot be copied: others step it; copy one that "
    "gymnasium.make() made"
)


def unrepeatable(backend: str) -> str:
    """The reason not to copy an episode on a backend that measures real time."""
    return (
        f"an episode on the backend {backend!r} cannot be copied: it measures, and never twice the "
        "same; make another environment, or copy one on a model, such as backend='analytic'"
    )


class EpisodeHistory:
    """The arguments, the seed and the actions of an episode.

    Attributes:
        generator: state of the bit generator before reset(); None before the first episode.
        options: of reset().
        actions: of step(); without those that raised an error.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments: dict[str, Any] = _copied(arguments)
        self.generator: dict[str, Any] | None = None
        self.options: dict[str, Any] | None = None
        self.actions: list[Any] = []

    def begin(self, generator: Mapping[str, Any], options: dict[str, Any] | None) -> None:
        """Starts the history of an episode.

        Args:
            generator: state of the bit generator before reset().
            options: of reset().
        """
        self.generator, self.options = dict(generator), copy.deepcopy(options)
        self.actions = []


class RepeatableEnv(gymnasium.Env[ObsType, ActType]):
    """An environment whose copies and pickles repeat its episode with the same bits.

    A copy has the same arguments and takes the same actions. After the end of an episode the copy
    must be reset. Copy and original then draw the same numbers from generators of their own.

    A subclass sets ``_history`` and adds every episode and action.
    """

    _history: EpisodeHistory

    def __new__(cls, *_: Any, **arguments: Any) -> Self:
        """Refuses arguments that the environment does not have, before anything is made.

        Raises:
            DescriptionError: it names the nearest one that it has.
        """
        parameters = inspect.signature(cls.__init__).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for name in arguments if not open_ended else ():
            if name not in parameters:
                names = [own for own in parameters if own != "self"]
                raise DescriptionError(unknown_key(f"environment argument {name!r}", name, names))
        return super().__new__(cls)

    def _is_running(self) -> bool:
        """Whether an episode is running."""
        raise NotImplementedError

    def _copy_refusal(self) -> str:
        """The reason not to copy it; empty if it can be copied."""
        return ""

    def __getstate__(self) -> dict[str, Any]:
        """The state for a copy that repeats the episode, in any process.

        Raises:
            UnsupportedError: the episode cannot be repeated, or is part of a vector environment.
        """
        if reason := self._copy_refusal():
            raise UnsupportedError(reason)
        history, running = self._history, self._is_running()
        state = {
            "arguments": history.arguments,
            "generator": history.generator if running else None,
            "options": history.options,
            "actions": history.actions if running else [],
            "np_random": self.np_random,
            "np_random_seed": self.np_random_seed,
            "action_space": self.action_space,
            "spec": self.spec,
        }
        return copy.deepcopy(state)  # copy.copy() is shallow

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes the environment again and repeats its running episode."""
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.spec, self.action_space = state["spec"], state["action_space"]
        if (generator := state["generator"]) is not None:
            bits = getattr(np.random, generator["bit_generator"])()
            bits.state = generator
            self.np_random = np.random.Generator(bits)
            self.reset(options=state["options"])
            for action in state["actions"]:
                self.step(action)
        self.np_random = state["np_random"]
        # The setter has forgotten the seed.
        self._np_random_seed = state["np_random_seed"]


def _copied(value: Any) -> Any:
    """A copy of plain JSON; other objects are not copied."""
    if isinstance(value, Mapping):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    return value

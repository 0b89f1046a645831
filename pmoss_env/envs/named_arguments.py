"""What all environments do with their arguments, before anything is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import gymnasium
from gymnasium.core import ActType, ObsType

from pmoss_env.errors import DescriptionError, unknown_key


class NamedArgumentsEnv(gymnasium.Env[ObsType, ActType]):
    """An environment that names the nearest argument where it does not have one.

    It is copied and pickled by its arguments, as those of MuJoCo and Atari are. A copy has no
    episode: reset it first.
    """

    _make_anew: Callable[[], Self]

    def __new__(cls, *positional: Any, **arguments: Any) -> Self:
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
        self = super().__new__(cls)
        self._make_anew = partial(cls, *positional, **arguments)
        return self

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()], dict[str, Any]]:
        """How it is copied and pickled."""
        return self._make_anew, (), {"spec": self.spec}

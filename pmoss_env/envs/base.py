"""What all environments have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import gymnasium
from gymnasium.core import ActType, ObsType

from pmoss_env.errors import DescriptionError, UnsupportedError, unknown_key

#: Values of the argument ``render_mode``, beside None.
RENDER_MODES = ("ansi", "rgb_array")
#: Values of ``on_illegal`` where an action is one number.
ON_ILLEGAL = ("remap", "terminate", "raise")
#: Upper bound of the seeds of an episode, so that JSON keeps them exactly.
SEEDS = 2**53


class BaseEnv(gymnasium.Env[ObsType, ActType]):
    """An environment of one decision a step.

    It names the nearest argument where it does not have one. It is copied and pickled by its
    arguments, as those of MuJoCo and Atari are. A copy has no episode: reset it first.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it per instance
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
    }
    #: None if it was made otherwise than by its arguments.
    _make_anew: Callable[[], Self] | None

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
        """How it is copied and pickled.

        Raises:
            UnsupportedError: it was not made by its arguments.
        """
        if self._make_anew is None:
            raise UnsupportedError(f"{type(self).__name__}: over a running server it has no copy")
        return self._make_anew, (), {"spec": self.spec}

    def render(self) -> Any:
        """The state, by ``render_mode``: text ("ansi"), or an (height, width, 3) uint8 image."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: give one to gymnasium.make()")
            return None
        return self._picture(self.render_mode)

    def _picture(self, mode: str) -> Any:
        """What render() returns in a mode."""
        raise NotImplementedError

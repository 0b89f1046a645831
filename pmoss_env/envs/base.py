"""What all environments have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
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


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    """An __init__() that takes note of the arguments, unless that of a subclass has done so."""

    @wraps(init)
    def recorded(self: BaseEnv[Any, Any], *positional: Any, **arguments: Any) -> None:
        if self._make_anew is None:
            self._make_anew = partial(type(self), *positional, **arguments)
        init(self, *positional, **arguments)

    return recorded


class BaseEnv(gymnasium.Env[ObsType, ActType]):
    """An environment of one decision a step.

    It names the nearest argument where it does not have one. It is copied and pickled by its
    arguments, as those of MuJoCo and Atari are. A copy has no episode: reset it first.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it per instance
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
    }
    #: None if it was not made by its arguments.
    _make_anew: Callable[[], Any] | None = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.metadata = dict(cls.metadata)  # vectors of Gymnasium 1.1 write into it
        if "__init__" in vars(cls):
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]

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

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from.

        Raises:
            UnsupportedError: it was not made by its arguments.
        """
        if self._make_anew is None:
            raise UnsupportedError(
                f"{type(self).__name__}: was not made by its arguments, so it cannot be copied: "
                "make another one"
            )
        return {"make": self._make_anew, "spec": self.spec}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Becomes an environment with the same arguments."""
        vars(self).update(vars(state["make"]()))
        self.spec = state["spec"]

    def render(self) -> Any:
        """The state, by ``render_mode``: text ("ansi"), or an (height, width, 3) uint8 image."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: give one to gymnasium.make()")
            return None
        return self._picture(self.render_mode)

    def _picture(self, mode: str) -> Any:
        """What render() returns in a mode."""
        raise NotImplementedError

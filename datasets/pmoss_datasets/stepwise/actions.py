"""Actions as whole numbers, of one part or of several.

An action of ``MultiDiscrete([a, b])`` is the number ``first * b + second``. Its mask has one column
per choice of each part, one part behind the other. An action is legal where all its parts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from pmoss_datasets.schema import Array
from pmoss_env.envs.actions import whole_action
from pmoss_env.errors import IllegalActionError, UnsupportedError
from pmoss_env.types import BoolArray, Int8Array


@dataclass(frozen=True)
class Actions:
    """The actions of an environment.

    Attributes:
        parts: how many choices each part has; of ``Discrete(n)`` it is (n,).
    """

    parts: tuple[int, ...]

    @classmethod
    def of(cls, space: spaces.Space[Any], name: str) -> Actions:
        """The actions of a space.

        Args:
            space: Discrete or MultiDiscrete, from 0.

        Raises:
            UnsupportedError: another space.
        """
        if isinstance(space, spaces.Discrete) and space.start == 0:
            return cls((int(space.n),))
        plain = isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1
        if plain and not np.any(space.start):  # type: ignore[attr-defined]
            return cls(tuple(int(n) for n in space.nvec))  # type: ignore[attr-defined]
        raise UnsupportedError(
            f"{name}: action space {space}: episodes are recorded of Discrete and flat "
            "MultiDiscrete spaces that start at 0"
        )

    @property
    def columns(self) -> int:
        """Number of columns of a mask."""
        return sum(self.parts)

    def number(self, action: Any) -> int:
        """The number of an action; IllegalActionError if there is none."""
        if len(self.parts) == 1:
            return whole_action(action, self.parts[0], "actions are")
        given = np.asarray(action)
        if given.shape != (len(self.parts),):
            raise IllegalActionError(f"action {action!r}: must have {len(self.parts)} parts")
        number = 0
        for part, count in zip(given.tolist(), self.parts, strict=True):
            number = number * count + whole_action(part, count, "this part is")
        return number

    def action(self, number: int) -> Any:
        """What the environment's step() takes; any number that no action has is left to it."""
        if len(self.parts) == 1:
            return number
        return self._split(np.array([number]))[0]

    def _split(self, numbers: Array) -> Array:
        """(n, parts) int64."""
        result = np.empty((numbers.size, len(self.parts)), dtype=np.int64)
        left = numbers.astype(np.int64)
        for i in range(len(self.parts) - 1, 0, -1):
            left, result[:, i] = np.divmod(left, self.parts[i])
        result[:, 0] = left
        return result

    def allowed(self, number: int, mask: Int8Array) -> bool:
        """Whether there is such an action and a mask allows it."""
        return bool(self.all_allowed(np.array([number]), mask[None])[0])

    def all_allowed(self, numbers: Array, masks: Array) -> BoolArray:
        """(n,) bool, allowed() of each.

        Args:
            numbers: (n,) of the actions.
            masks: (n, columns) int8.
        """
        parts = self._split(numbers)
        valid = (parts >= 0) & (parts < np.array(self.parts))
        first = np.cumsum([0, *self.parts[:-1]])
        inside = np.where(valid, parts, 0) + first
        chosen = np.take_along_axis(masks, inside, axis=1) > 0
        return np.asarray((valid & chosen).all(axis=1))

    def _choices(self, mask: Int8Array) -> list[Array]:
        ends = np.cumsum(self.parts)[:-1]
        return [np.flatnonzero(part) for part in np.split(mask, ends)]

    def draw(self, mask: Int8Array, rng: np.random.Generator) -> int:
        """Any legal action, all equally likely."""
        number = 0
        for legal, count in zip(self._choices(mask), self.parts, strict=True):
            number = number * count + int(rng.choice(legal))
        return number

    def chance(self, mask: Int8Array) -> float:
        """Probability of each action that draw() may give."""
        share = 1.0
        for legal in self._choices(mask):
            share /= legal.size
        return share

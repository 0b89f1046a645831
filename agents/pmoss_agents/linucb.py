"""LinUCB: a contextual bandit with one ridge regression per arm, for any environment.

Li, Chu, Langford and Schapire, A contextual-bandit approach to personalized news article
recommendation, WWW 2010, algorithm 1 (disjoint linear models).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_agents.ridge import RidgeArms
from pmoss_env.errors import DescriptionError

Floats = npt.NDArray[np.float64]


class LinUCB(RidgeArms):
    """The arm with the highest mean + alpha x width is chosen, of those that a mask allows.

    Arms are added as they are met, so that the set of actions may grow.

    Attributes:
        alpha: exploration, in widths.
    """

    def __init__(self, features: int, *, alpha: float = 0.3, ridge: float = 1.0) -> None:
        """Makes a bandit that has met no arm.

        Args:
            features: length d of a context.
            alpha: exploration, in widths, not negative.
            ridge: strength of the regularisation, above 0.

        Raises:
            DescriptionError: an impossible number.
        """
        super().__init__(0, features, ridge)
        if not alpha >= 0.0:
            raise DescriptionError(f"alpha = {alpha}: must not be negative")
        self.alpha = float(alpha)

    @property
    def trainings(self) -> int:
        """Updates so far, over all arms."""
        return int(self.count.sum())

    def estimate(self, x: Floats, arms: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Mean and width of some arms; the confidence bound is mean +- alpha x width.

        Args:
            x: (d,) context.
            arms: (k,) numbers of arms, ascending; new ones know nothing.

        Returns:
            Two (k,) arrays.
        """
        if arms.size:
            self.grow(int(arms.max()) + 1)
        return super().estimate(x, arms)

    def choose(self, context: Floats, action_mask: npt.NDArray[Any]) -> int:
        """The allowed arm with the highest upper confidence bound; the lowest of equal ones.

        Raises:
            DescriptionError: the mask allows nothing, or the context has another length.
        """
        self._check(context)
        arms = np.flatnonzero(action_mask)
        if not arms.size:
            raise DescriptionError("the action mask allows no arm")
        mean, width = self.estimate(context, arms)
        return int(arms[np.argmax(mean + self.alpha * width)])

    def update(self, arm: int, x: Floats, y: float) -> None:
        """Learns the reward of an arm in a context; DescriptionError if it is not finite."""
        self._check(x)
        if not np.isfinite(y):
            raise DescriptionError(f"reward = {y}: must be finite")
        self.grow(arm + 1)
        super().update(arm, x, y)

    def _check(self, context: Floats) -> None:
        if context.shape != (self.features,):
            raise DescriptionError(f"context of shape {context.shape}: must be ({self.features},)")

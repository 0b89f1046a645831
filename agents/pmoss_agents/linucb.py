"""LinUCB: a contextual bandit with one ridge regression per arm, for any environment.

Li, Chu, Langford and Schapire, A contextual-bandit approach to personalized news article
recommendation, WWW 2010, algorithm 1 (disjoint linear models).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import CheckpointError, DescriptionError

Floats = npt.NDArray[np.float64]


class LinUCB:
    """Ridge regression per arm; the arm with the highest mean + alpha x width is chosen.

    For arm a with contexts X_a and rewards r_a so far, A_a = ridge x I + X_a' X_a and
    theta_a = A_a^-1 X_a' r_a. A context x has the mean x' theta_a and the width
    sqrt(x' A_a^-1 x). Arms are added as they are met, so that the set of actions may grow.

    Attributes:
        features: length d of a context.
        alpha: exploration, in widths.
        ridge: strength of the regularisation.
        trainings: updates so far, over all arms.
    """

    def __init__(self, features: int, *, alpha: float = 0.3, ridge: float = 1.0) -> None:
        if features < 1:
            raise DescriptionError(f"features = {features}: must be at least 1")
        if not alpha >= 0.0:
            raise DescriptionError(f"alpha = {alpha}: must not be negative")
        if not ridge > 0.0:
            raise DescriptionError(f"ridge = {ridge}: must be positive")
        self.features = features
        self.alpha = float(alpha)
        self.ridge = float(ridge)
        self.trainings = 0
        self._gram = np.zeros((0, features, features))
        self._inverse = np.zeros((0, features, features))
        self._moment = np.zeros((0, features))
        self._theta = np.zeros((0, features))
        self._counts = np.zeros(0, dtype=np.int64)

    @property
    def arms(self) -> int:
        """Number of arms met so far."""
        return int(self._counts.size)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """(arms,) int64, updates of each arm."""
        return self._counts.copy()

    @property
    def theta(self) -> Floats:
        """(arms, d) float64, the coefficients."""
        return self._theta.copy()

    def grow(self, arms: int) -> None:
        """Makes sure that arms 0 to ``arms`` - 1 exist; new ones know nothing."""
        more = arms - self.arms
        if more <= 0:
            return
        unit = np.broadcast_to(np.eye(self.features), (more, self.features, self.features))
        zeros = np.zeros((more, self.features))
        self._gram = np.concatenate([self._gram, self.ridge * unit])
        self._inverse = np.concatenate([self._inverse, unit / self.ridge])
        self._moment = np.concatenate([self._moment, zeros])
        self._theta = np.concatenate([self._theta, zeros])
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])

    def estimate(self, context: Floats, arms: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Mean and width of some arms; the confidence bound is mean +- alpha x width.

        Args:
            context: (d,).
            arms: (k,) numbers of arms, ascending.

        Returns:
            Two (k,) arrays.
        """
        if arms.size:
            self.grow(int(arms.max()) + 1)
        chosen: slice | npt.NDArray[np.int64] = arms
        if arms.size and arms[-1] - arms[0] + 1 == arms.size:
            chosen = slice(int(arms[0]), int(arms[-1]) + 1)  # ascending and whole: no copy
        mean = self._theta[chosen] @ context
        width = np.sqrt(np.maximum((self._inverse[chosen] @ context) @ context, 0.0))
        return mean, width

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

    def update(self, arm: int, context: Floats, reward: float) -> None:
        """Learns the reward of an arm in a context; DescriptionError if it is not finite."""
        self._check(context)
        if not np.isfinite(reward):
            raise DescriptionError(f"reward = {reward}: must be finite")
        self.grow(arm + 1)
        self._gram[arm] += np.outer(context, context)
        self._moment[arm] += reward * context
        # A direct inverse: rank-one updates of it would drift over a long run.
        self._inverse[arm] = np.linalg.inv(self._gram[arm])
        self._theta[arm] = self._inverse[arm] @ self._moment[arm]
        self._counts[arm] += 1
        self.trainings += 1

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Arrays and plain values that restore it."""
        arrays = {"gram": self._gram, "moment": self._moment, "counts": self._counts}
        return arrays, {"features": self.features, "trainings": self.trainings}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Takes what state() gave; alpha and ridge stay as they are.

        Raises:
            CheckpointError: it does not fit, or is not what state() gives.
        """
        try:
            gram = np.asarray(arrays["gram"], dtype=np.float64)
            moment = np.asarray(arrays["moment"], dtype=np.float64)
            counts = np.asarray(arrays["counts"], dtype=np.int64)
            trainings = int(values["trainings"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"LinUCB: {error} is missing or no number") from error
        d, arms = self.features, counts.size
        shapes = (gram.shape, moment.shape, counts.shape)
        if shapes != ((arms, d, d), (arms, d), (arms,)):
            raise CheckpointError(
                f"LinUCB: shapes {shapes} do not fit {arms} arms with {d} features each"
            )
        if not (np.isfinite(gram).all() and np.isfinite(moment).all()):
            raise CheckpointError("LinUCB: holds values that are not finite")
        try:
            inverse = np.array([np.linalg.inv(a) for a in gram]).reshape(arms, d, d)
        except np.linalg.LinAlgError as error:
            raise CheckpointError("LinUCB: an arm's matrix cannot be inverted") from error
        self._gram, self._moment, self._counts = gram.copy(), moment.copy(), counts.copy()
        self._inverse = inverse
        # One by one, as update() does: the same bits.
        theta = [a @ b for a, b in zip(inverse, moment, strict=True)]
        self._theta = np.array(theta).reshape(arms, d)
        self.trainings = trainings

    def _check(self, context: Floats) -> None:
        if context.shape != (self.features,):
            raise DescriptionError(f"context of shape {context.shape}: must be ({self.features},)")

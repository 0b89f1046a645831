"""Ridge regressions, one per arm, that learn from one observation at a time: the core of LinUCB.

Nothing here depends on what an arm is; arms can be added while it learns (Li et al., A
Contextual-Bandit Approach to Personalized News Article Recommendation, WWW 2010, algorithm 1,
disjoint models).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import CheckpointError, DescriptionError

Array = npt.NDArray[np.float64]
_LEARNED = ("gram", "inverse", "moment", "theta", "count")


class RidgeArms:
    """K ridge regressions over d features.

    Attributes:
        gram: (K, d, d) ridge * I + the sum of x x' over an arm's observations.
        moment: (K, d) sum of y x.
        inverse: (K, d, d) inverse of gram.
        theta: (K, d) coefficients, inverse @ moment.
        count: (K,) int64, observations of each arm.
    """

    def __init__(self, arms: int, features: int, ridge: float = 1.0) -> None:
        """Makes arms without observations.

        Args:
            arms: K; may be 0, to grow later.
            features: d.
            ridge: what is added to the diagonal, above 0.

        Raises:
            DescriptionError: an impossible number.
        """
        if arms < 0:
            raise DescriptionError(f"arms = {arms}: must not be negative")
        if features < 1:
            raise DescriptionError(f"features = {features}: must be at least 1")
        if not 0 < ridge < float("inf"):
            raise DescriptionError(f"ridge = {ridge!r}: must be a finite number above 0")
        self.ridge = float(ridge)
        self.gram: Array = np.tile(self.ridge * np.eye(features), (arms, 1, 1))
        self.inverse: Array = np.tile(np.eye(features) / self.ridge, (arms, 1, 1))
        self.moment: Array = np.zeros((arms, features))
        self.theta: Array = np.zeros((arms, features))
        self.count = np.zeros(arms, dtype=np.int64)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.theta.shape[0])

    @property
    def features(self) -> int:
        """Number of features of a context, d."""
        return int(self.theta.shape[1])

    def grow(self, arms: int) -> None:
        """Adds arms without observations, up to ``arms`` in all; the others are kept."""
        if arms <= self.arms:
            return
        more = RidgeArms(arms - self.arms, self.features, self.ridge)
        for name in _LEARNED:
            setattr(self, name, np.concatenate([getattr(self, name), getattr(more, name)]))

    def update(self, arm: int, x: Array, y: float) -> None:
        """Takes one observation: (d,) features and the arm's pay-off; a new arm is added.

        Raises:
            DescriptionError: the pay-off is not finite.
        """
        if not np.isfinite(y):
            raise DescriptionError(f"reward = {y}: must be finite")
        self.grow(arm + 1)
        self.gram[arm] += np.outer(x, x)
        self.moment[arm] += y * x
        self.count[arm] += 1
        self._solve(arm)

    def absorb(self, arm: int, x: Array, y: Array) -> None:
        """Takes (n, d) observations with (n,) pay-offs at once."""
        self.gram[arm] += x.T @ x
        self.moment[arm] += x.T @ y
        self.count[arm] += len(y)
        self._solve(arm)

    def mean(self, x: Array) -> Array:
        """(..., K) expected pay-off of each arm for (..., d) features."""
        mean: Array = x @ self.theta.T
        return mean

    def width(self, x: Array) -> Array:
        """(..., K) standard width of the confidence interval, sqrt(x' inverse x)."""
        variance = np.stack([((x @ inverse) * x).sum(axis=-1) for inverse in self.inverse], axis=-1)
        width: Array = np.sqrt(np.maximum(variance, 0.0))
        return width

    def upper_bound(self, x: Array, alpha: float) -> Array:
        """(..., K) mean + alpha * width."""
        return self.mean(x) + alpha * self.width(x)

    def estimate(self, x: Array, arms: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """(k,) mean and (k,) width of some arms for (d,) features; new arms are added.

        Args:
            x: (d,) features.
            arms: (k,) numbers of the arms, ascending.
        """
        chosen: slice | npt.NDArray[np.int64] = arms
        if arms.size:
            self.grow(int(arms[-1]) + 1)
            if arms[-1] - arms[0] + 1 == arms.size:
                chosen = slice(int(arms[0]), int(arms[-1]) + 1)  # ascending and whole: no copy
        variance = (self.inverse[chosen] @ x) @ x
        return self.theta[chosen] @ x, np.sqrt(np.maximum(variance, 0.0))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The learned arrays, by name."""
        return {
            "gram": self.gram,
            "moment": self.moment,
            "theta": self.theta,
            "count": self.count,
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes what arrays() gave, of any number of arms; the same bits from then on.

        Raises:
            CheckpointError: it does not fit, or is not what arrays() gives.
        """
        try:
            gram = np.array(arrays["gram"], dtype=np.float64)
            moment = np.array(arrays["moment"], dtype=np.float64)
            theta = np.array(arrays["theta"], dtype=np.float64)
            count = np.array(arrays["count"], dtype=np.int64)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"ridge regressions: {error} is missing or no number") from error
        d, arms = self.features, count.size
        shapes = (gram.shape, moment.shape, theta.shape, count.shape)
        if shapes != ((arms, d, d), (arms, d), (arms, d), (arms,)):
            raise CheckpointError(
                f"ridge regressions: shapes {shapes} do not fit {arms} arms of {d} features each"
            )
        if not all(np.isfinite(values).all() for values in (gram, moment, theta)):
            raise CheckpointError("ridge regressions: hold values that are not finite")
        restored = RidgeArms(arms, d, self.ridge)
        restored.gram, restored.moment, restored.count = gram, moment, count
        try:
            for arm in range(arms):
                restored._solve(arm)
        except np.linalg.LinAlgError as error:
            raise CheckpointError(
                "ridge regressions: an arm's matrix cannot be inverted"
            ) from error
        restored.theta = theta
        for name in _LEARNED:
            setattr(self, name, getattr(restored, name))

    def _solve(self, arm: int) -> None:
        # A direct inverse: rank-one updates of it would drift over a long run.
        inverse = np.linalg.inv(self.gram[arm])
        self.inverse[arm] = (inverse + inverse.T) / 2
        self.theta[arm] = np.linalg.solve(self.gram[arm], self.moment[arm])

"""Ridge regressions, one per arm, that learn from one observation at a time: the core of LinUCB.

Nothing here knows what an arm is; arms can be added while it learns (Li et al., A Contextual-Bandit
Approach to Personalized News Article Recommendation, algorithm 1, disjoint models).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.errors import DescriptionError

Array = npt.NDArray[np.float64]


class RidgeArms:
    """K ridge regressions over d features.

    Attributes:
        inverse: (K, d, d) inverse of ridge * I + the sum of x x' over an arm's observations.
        moment: (K, d) sum of y x.
        theta: (K, d) coefficients, inverse @ moment.
        count: (K,) int64, observations of each arm.
    """

    def __init__(self, arms: int, features: int, ridge: float = 1.0) -> None:
        """Arms that have seen nothing.

        Args:
            arms: K.
            features: d.
            ridge: what is added to the diagonal, above 0.

        Raises:
            DescriptionError: an impossible number.
        """
        if arms < 1 or features < 1:
            raise DescriptionError(f"{arms} arms and {features} features: must be at least 1 each")
        if not 0 < ridge < float("inf"):
            raise DescriptionError(f"ridge = {ridge!r}: must be a finite number above 0")
        self.ridge = float(ridge)
        self.inverse: Array = np.tile(np.eye(features) / ridge, (arms, 1, 1))
        self.moment: Array = np.zeros((arms, features))
        self.theta: Array = np.zeros((arms, features))
        self.count = np.zeros(arms, dtype=np.int64)

    @property
    def arms(self) -> int:
        """How many arms there are, K."""
        return int(self.theta.shape[0])

    @property
    def features(self) -> int:
        """How many features there are, d."""
        return int(self.theta.shape[1])

    def grow(self, arms: int) -> None:
        """Adds arms that have seen nothing, up to ``arms`` in all; those there are kept."""
        if arms <= self.arms:
            return
        more = RidgeArms(arms - self.arms, self.features, self.ridge)
        self.inverse = np.concatenate([self.inverse, more.inverse])
        self.moment = np.concatenate([self.moment, more.moment])
        self.theta = np.concatenate([self.theta, more.theta])
        self.count = np.concatenate([self.count, more.count])

    def update(self, arm: int, x: Array, y: float) -> None:
        """Takes one observation: (d,) features and what the arm paid (Sherman and Morrison)."""
        projected = self.inverse[arm] @ x
        self.inverse[arm] -= np.outer(projected, projected) / (1.0 + x @ projected)
        self.moment[arm] += y * x
        self.theta[arm] = self.inverse[arm] @ self.moment[arm]
        self.count[arm] += 1

    def absorb(self, arm: int, x: Array, y: Array) -> None:
        """Takes (n, d) observations with (n,) pay-offs at once."""
        gram = np.linalg.inv(self.inverse[arm]) + x.T @ x
        inverse = np.linalg.inv(gram)
        self.inverse[arm] = (inverse + inverse.T) / 2
        self.moment[arm] += x.T @ y
        self.theta[arm] = np.linalg.solve(gram, self.moment[arm])
        self.count[arm] += len(y)

    def mean(self, x: Array) -> Array:
        """(..., K) expected pay-off of each arm for (..., d) features."""
        result: Array = x @ self.theta.T
        return result

    def width(self, x: Array) -> Array:
        """(..., K) standard width of the confidence interval, sqrt(x' inverse x)."""
        variance = np.stack([((x @ inverse) * x).sum(axis=-1) for inverse in self.inverse], axis=-1)
        result: Array = np.sqrt(np.maximum(variance, 0.0))
        return result

    def upper_bound(self, x: Array, alpha: float) -> Array:
        """(..., K) mean + alpha * width."""
        return self.mean(x) + alpha * self.width(x)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All it has learned, by name."""
        return {
            "inverse": self.inverse,
            "moment": self.moment,
            "theta": self.theta,
            "count": self.count,
        }

    def restore(self, arrays: Any) -> None:
        """Takes what arrays() gave; raises DescriptionError if it is of another shape."""
        mine = self.arrays()
        for name, own in mine.items():
            if name not in arrays or arrays[name].shape[1:] != own.shape[1:]:
                raise DescriptionError(f"{name}: is missing or of another number of features")
            if len(arrays[name]) != len(arrays["theta"]):
                raise DescriptionError(f"{name}: is of another number of arms")
        for name in mine:
            setattr(self, name, np.array(arrays[name]))

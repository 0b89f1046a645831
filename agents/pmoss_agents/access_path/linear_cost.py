"""The paper's choice: a linear regression of the run time per path; the smaller prediction wins.

Fitted with scikit-learn, refined while it acts (section 5.3). With
``features="paper"`` these are the paper's five features (table 1); "products" adds the size times
latency and traffic, because what a scan waits per byte depends on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pmoss_agents.access_path.base import EXPANSIONS, AccessPathAgent, Floats, expected_ms, tried
from pmoss_agents.agent import Array
from pmoss_agents.configs import Settings
from pmoss_agents.ridge import RidgeArms
from pmoss_env.errors import CheckpointError
from pmoss_env.extras import require

#: Far below any real second moment, so that the statistics can be inverted at any time.
_TINY_RIDGE = 1e-9


@dataclass(frozen=True)
class LinearCostConfig(Settings):
    """Settings of the regressions."""

    agent: ClassVar[str] = "linear-cost"

    features: Literal["paper", "products"] = "paper"  # "paper" or "products"
    # Errors count relative to the expected run time; else in milliseconds, as in the paper.
    weighted: bool = False
    refine: bool = True  # go on learning from what is observed while acting


class LinearCost(AccessPathAgent):
    """A pair of linear regressions on the run time.

    Attributes:
        scale: (d,) what each expanded feature is divided by: its largest value in the data.
        models: coefficients of the scaled features per path, in milliseconds.
    """

    name = "linear-cost"
    Config = LinearCostConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.scale: Floats = np.ones(1)
        self.models = RidgeArms(1, 1, _TINY_RIDGE)

    def _learn(self, features: Floats, times_us: Floats) -> None:
        require("sklearn")
        from sklearn.linear_model import LinearRegression

        expanded = EXPANSIONS[self.config.features](features)
        self.scale = np.maximum(np.abs(expanded).max(axis=0), 1e-12)
        x = expanded / self.scale
        weight = self._weight(features)
        self.models = RidgeArms(times_us.shape[1], x.shape[1], _TINY_RIDGE)
        for path in range(times_us.shape[1]):
            ran = tried(times_us, path)
            rows, y, heed = x[ran], times_us[ran, path] * 1e-3, weight[ran]
            fitted = LinearRegression(fit_intercept=False).fit(rows, y, sample_weight=heed**2)
            self.models.absorb(path, rows * heed[:, None], y * heed)
            self.models.theta[path] = fitted.coef_

    def _weight(self, features: Floats) -> Floats:
        return 1.0 / expected_ms(features) if self.config.weighted else np.ones(len(features))

    def predict_us(self, features: Floats) -> Floats:
        """(n, P) predicted microseconds of each path."""
        if not self.task:
            raise CheckpointError(f"{self.name}: call fit() or learn() first")
        return self.models.mean(EXPANSIONS[self.config.features](features) / self.scale) * 1e3

    def choose(self, features: Floats) -> npt.NDArray[np.intp]:
        """(n,) the path with the smaller prediction."""
        return np.asarray(self.predict_us(features).argmin(axis=1))

    @property
    def learns_from_times(self) -> bool:
        """See AccessPathAgent."""
        return bool(self.config.refine)

    def observe(self, reward: float) -> None:
        """Learns from minus the milliseconds that the last choice took."""
        if self._last is None or not self.config.refine:
            return
        features, path = self._last
        if path >= self.models.arms:
            return
        weight = self._weight(features)
        x = EXPANSIONS[self.config.features](features) / self.scale * weight[:, None]
        self.models.update(path, x[0], -reward * float(weight[0]))

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {"scale": self.scale, **self.models.arrays()}, {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.scale = np.array(arrays["scale"])
        self.models = RidgeArms(0, self.scale.size, _TINY_RIDGE)
        self.models.restore(arrays)

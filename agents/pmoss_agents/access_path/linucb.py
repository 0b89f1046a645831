"""LinUCB on access paths: learns from its own choices, and explores where it is unsure.

Li et al., A Contextual-Bandit Approach to Personalized News Article Recommendation. The pay-off is
minus the run time relative to what the size alone lets expect, so that small scans count as large
ones do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pmoss_agents.access_path.base import EXPANSIONS, AccessPathAgent, Floats, expected_ms
from pmoss_agents.agent import Array
from pmoss_agents.checks import allowed_actions
from pmoss_agents.configs import Settings
from pmoss_agents.ridge import RidgeArms
from pmoss_env.envs.access_path import FEATURES

#: About the largest value of each feature, so that one ridge suits all.
_SCALE = np.array([500.0, 300.0, 10.0, 12.0, 6.0])
#: And how many milliseconds each may stand for at most: what comes with the size much, what a scan
#: of any size pays little.
_SETUP_MS, _LARGE_MS, _RESULTS_MS = 0.1, 100.0, 10.0
_PAPER_MS = (_SETUP_MS, _LARGE_MS, _SETUP_MS, _RESULTS_MS, _SETUP_MS, _SETUP_MS)


@dataclass(frozen=True)
class LinUCBConfig(Settings):
    """Settings of the exploration."""

    agent: ClassVar[str] = "linucb"
    BOUNDS: ClassVar = {"alpha": "[0, inf)", "ridge": "(0, inf)", "paths": "[2, 3]"}

    alpha: float = 0.3  # widths of the confidence interval that are added to the mean
    ridge: float = 0.01  # regularisation
    features: Literal["paper", "products"] = "products"  # "paper" or "products"
    paths: int = 2  # how many it chooses between


class LinUCB(AccessPathAgent):
    """A ridge regression and a confidence width per path.

    It needs no data to begin with; fit() is a warm start, observe() after each action teaches it.
    """

    name = "linucb"
    learns_while_acting = True
    adds_up = True
    Config = LinUCBConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        width = EXPANSIONS[self.config.features](np.ones((1, len(FEATURES)))).shape[1]
        self._unit_ms = np.full(width, _LARGE_MS)
        self._unit_ms[: len(_PAPER_MS)] = _PAPER_MS
        self.models = RidgeArms(self.config.paths, width, self.config.ridge)

    def _context(self, features: Floats) -> Floats:
        """(n, d): the expanded features relative to the expected run time."""
        expanded = EXPANSIONS[self.config.features](features / _SCALE)
        return np.asarray(expanded * self._unit_ms / expected_ms(features)[:, None])

    def _learn(self, features: Floats, times_us: Floats) -> None:
        context, expected = self._context(features), expected_ms(features)
        for path in range(min(times_us.shape[1], self.models.arms)):
            ran = ~np.isnan(times_us[:, path])
            pays = -times_us[ran, path] * 1e-3 / expected[ran]
            self.models.absorb(path, context[ran], pays)

    def choose(self, features: Floats) -> npt.NDArray[np.intp]:
        """(n,) the path with the greatest upper bound."""
        bound = self.models.upper_bound(self._context(features), self.config.alpha)
        return np.asarray(bound.argmax(axis=1))

    def act(self, observation: Any, action_mask: Array | None = None) -> int:
        """The allowed path with the greatest upper bound."""
        features = np.asarray(observation["features"], dtype=np.float64)[None]
        mask = np.asarray(observation["action_mask"] if action_mask is None else action_mask)
        bound = self.models.upper_bound(self._context(features), self.config.alpha)[0]
        allowed = allowed_actions(self.name, mask.reshape(-1)[: bound.size], bound.size)
        path = int(np.where(allowed, bound, -np.inf).argmax())
        self._last = (features, path)
        self.task = self.task or {"features": list(FEATURES), "paths": int(bound.size)}
        return path

    @property
    def paths(self) -> int:
        """See AccessPathAgent."""
        return self.models.arms

    @property
    def learns_from_times(self) -> bool:
        """See AccessPathAgent."""
        return True

    def observe(self, reward: float) -> None:
        """Learns from minus the milliseconds that the last choice took."""
        if self._last is None:
            return
        features, path = self._last
        expected = float(expected_ms(features)[0])
        self.models.update(path, self._context(features)[0], reward / expected)

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return self.models.arrays(), {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self.models.restore(arrays)

"""A decision tree over the five features: the paper's alternative (section 5.2).

Grown with scikit-learn; kept and walked as plain arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pmoss_agents.access_path.base import AccessPathAgent, Floats
from pmoss_agents.agent import Array
from pmoss_agents.configs import Settings
from pmoss_env.errors import CheckpointError, DatasetError
from pmoss_env.extras import require

_ARRAYS = ("left", "right", "feature", "threshold", "path")


@dataclass(frozen=True)
class DecisionTreeConfig(Settings):
    """Settings of the tree."""

    agent: ClassVar[str] = "decision-tree"

    depth: int = 10  # the most questions on the way to a leaf
    least_leaf: int = 20  # observations in a leaf, at least
    # A wrong choice weighs the microseconds that it costs; else all weigh the same.
    cost_sensitive: bool = False
    seed: int = 0  # breaks ties between splits


class DecisionTree(AccessPathAgent):
    """A tree whose inner nodes compare one feature with a threshold each."""

    name = "decision-tree"
    Config = DecisionTreeConfig

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._tree: dict[str, Array] = {}

    def _learn(self, features: Floats, times_us: Floats) -> None:
        require("sklearn")
        from sklearn.tree import DecisionTreeClassifier

        if np.isnan(times_us).any():
            raise DatasetError(
                f"{self.name}: needs what every path of a scan costs: recorded episodes hold one "
                "only; collect_scans() makes data that hold all"
            )
        best = times_us.argmin(axis=1)
        cost = times_us.max(axis=1) - times_us.min(axis=1) if self.config.cost_sensitive else None
        tree = DecisionTreeClassifier(
            max_depth=self.config.depth,
            min_samples_leaf=self.config.least_leaf,
            random_state=self.config.seed,
        )
        tree.fit(features.astype(np.float32), best, sample_weight=cost)
        grown = tree.tree_
        self._tree = {
            "left": np.asarray(grown.children_left, dtype=np.int64),
            "right": np.asarray(grown.children_right, dtype=np.int64),
            "feature": np.asarray(grown.feature, dtype=np.int64),
            "threshold": np.asarray(grown.threshold, dtype=np.float64),
            "path": np.asarray(tree.classes_[grown.value[:, 0].argmax(axis=1)], dtype=np.int64),
        }

    def choose(self, features: Floats) -> npt.NDArray[np.intp]:
        """(n,) the path at each scan's leaf.

        Raises:
            CheckpointError: it was not grown.
        """
        if not self._tree:
            raise CheckpointError(f"{self.name}: call fit() or learn() first")
        left, right, feature, threshold, path = (self._tree[name] for name in _ARRAYS)
        rows = np.arange(len(features))
        # Compared as they were when the tree was grown.
        values = features.astype(np.float32)
        node = np.zeros(len(features), dtype=np.int64)
        inner = left[node] >= 0
        while inner.any():
            below = values[rows, feature[node]] <= threshold[node]
            node = np.where(inner, np.where(below, left[node], right[node]), node)
            inner = left[node] >= 0
        return path[node].astype(np.intp)

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return dict(self._tree), {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        self._tree = {name: np.array(arrays[name]) for name in _ARRAYS}
        sizes = {len(array) for array in self._tree.values()}
        children = np.concatenate([self._tree["left"], self._tree["right"]])
        # A child behind its parent: no walk goes round in a circle.
        parents = np.tile(np.arange(max(sizes)), 2)
        inner = children >= 0
        if len(sizes) != 1 or (children >= max(sizes)).any() or (children <= parents)[inner].any():
            raise CheckpointError(f"{self.name}: its arrays are no tree")

"""How well the models predict run times and choose between two paths (the paper's table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt

import pmoss_agents
from pmoss_agents.access_path.base import AccessPathAgent
from pmoss_agents.access_path.linear_cost import LinearCost
from pmoss_env.envs.access_path import PATHS

Floats = npt.NDArray[np.float64]

#: The models that are compared, with their agents' configs. The first two are the paper's.
MODELS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "linear pair": ("linear-cost", {}),
    "decision tree": ("decision-tree", {}),
    "linear pair, products": ("linear-cost", {"features": "products", "weighted": True}),
    "decision tree, by cost": ("decision-tree", {"cost_sensitive": True}),
    "LinUCB, warm": ("linucb", {}),
    "always CPU": ("always-cpu", {}),
    "always offload": ("always-offload", {}),
}


@dataclass(frozen=True)
class ModelScores:
    """A model on data that it was not trained on.

    Attributes:
        model: its name.
        r2: coefficient of determination of the run time per path; empty for a classifier.
        precision: of the scans given to the engine, the share that it was faster for.
        recall: of the scans that the engine was faster for, the share given to it.
        f1: harmonic mean of the two.
        above_best: time of the chosen paths over that of the better ones, minus 1.
        mean_regret: mean over scans of (chosen - better) / better: small scans count as large.
        us_per_decision: CPU time of one decision of a batch.
    """

    model: str
    r2: dict[str, float]
    precision: float
    recall: float
    f1: float
    above_best: float
    mean_regret: float
    us_per_decision: float

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file: numbers that are not defined are null."""
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in asdict(self).items()
        }


def train(model: str, features: Floats, times_us: Floats) -> AccessPathAgent:
    """One of MODELS, fitted to (n, 5) features and (n, 2) microseconds."""
    name, config = MODELS[model]
    agent = pmoss_agents.make(name, **config)
    assert isinstance(agent, AccessPathAgent)
    agent.learn(features, times_us)
    return agent


def score(
    model: str, agent: AccessPathAgent, features: Floats, times_us: Floats, batch: int = 4096
) -> ModelScores:
    """A fitted model's scores on other data.

    Args:
        features: (n, 5).
        times_us: (n, 2) microseconds of the two paths.
        batch: decisions that are timed together.
    """
    from sklearn.metrics import precision_recall_fscore_support, r2_score

    chosen = agent.choose(features)
    best = times_us.argmin(axis=1)
    took = times_us[np.arange(len(times_us)), chosen]
    least = times_us.min(axis=1)
    r2 = {}
    if isinstance(agent, LinearCost):
        predicted = agent.predict_us(features)
        r2 = {PATHS[p]: float(r2_score(times_us[:, p], predicted[:, p])) for p in range(2)}
    precision, recall, f1, _ = precision_recall_fscore_support(
        best, chosen, average="binary", zero_division=np.nan
    )
    some = np.resize(features, (batch, features.shape[1]))
    seconds = []
    for _ in range(9):
        start = process_time()
        agent.choose(some)
        seconds.append(process_time() - start)
    return ModelScores(
        model,
        r2,
        float(precision),
        float(recall),
        float(f1),
        float(took.sum() / least.sum() - 1.0),
        float((took / least - 1.0).mean()),
        1e6 * float(np.median(seconds)) / batch,
    )


def compare(
    train_data: tuple[Floats, Floats], test_data: tuple[Floats, Floats]
) -> list[ModelScores]:
    """All MODELS, trained on one part of the data and scored on the other."""
    return [score(model, train(model, *train_data), *test_data) for model in MODELS]

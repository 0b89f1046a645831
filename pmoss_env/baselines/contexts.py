"""The context of baselines with the paper's Grouped as the incumbent."""

from __future__ import annotations

import numpy as np

from pmoss_env.backends import IncrementalBackend
from pmoss_env.baselines import Context, grouped


def grouped_context(
    model: IncrementalBackend, rng: np.random.Generator, *, seed: int = 0
) -> Context:
    """The context of a model's instance, with Grouped as the incumbent and the model as backend.

    Args:
        model: with the instance.
        rng: of the baseline.
        seed: of the measurement.
    """
    incumbent = grouped(Context(model.machine, model.slices))
    snapshot = model.measure(incumbent, seed=seed)
    return Context(model.machine, model.slices, incumbent, snapshot, rng, model)

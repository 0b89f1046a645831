"""What the best schedules of an instance may serve: the unit of a wanted return.

Instances differ: the same throughput is poor for one and out of reach for another. So returns are
told relative to what an episode's beginning lets expect at best. A high expectile of the final
throughput stands for that, linear in the logarithms of the counters under the incumbent.

Expectile regression: Newey and Powell, Asymmetric Least Squares Estimation and Testing,
Econometrica 1987.
"""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array

#: Rounds of reweighting; the weights settle within a few.
_ROUNDS = 50


def beginning(meta: Array, incumbent_view: Array) -> Array:
    """(M + H,) logarithms of what an episode's beginning tells of the whole machine.

    Args:
        meta: (M,) of the observation.
        incumbent_view: (..., H), likewise; tiles are summed over.
    """
    counters = incumbent_view.reshape(-1, incumbent_view.shape[-1]).sum(0)
    logs: Array = np.log1p(np.concatenate([meta, counters]).astype(np.float64))
    return logs


def fit_expectile(inputs: Array, values: Array, expectile: float, ridge: float = 10.0) -> Array:
    """Linear expectile regression with a ridge.

    Args:
        inputs: (n, d).
        values: (n,).
        expectile: in (0, 1); 0.5 is the mean.
        ridge: weight of the squared coefficients, of standardised inputs.

    Returns:
        (1 + d,) the constant and the coefficients.
    """
    mean, std = inputs.mean(0), inputs.std(0)
    std[std <= 1e-6 * np.abs(inputs).max(0)] = np.inf  # a constant says nothing
    design = np.column_stack([np.ones(len(inputs)), (inputs - mean) / std])
    penalty = np.diag([0.0, *[ridge] * inputs.shape[1]])
    found = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        weight = np.where(values > design @ found, expectile, 1 - expectile)[:, None]
        found = np.linalg.solve(
            design.T @ (weight * design) + penalty, design.T @ (weight[:, 0] * values)
        )
    slopes = found[1:] / std
    return np.concatenate([[found[0] - slopes @ mean], slopes])


def foresee(known: Array, weights: Array) -> Array:
    """(...) the throughput foreseen, Mq/s, from (..., d) facts and fit_expectile()'s weights."""
    result: Array = np.exp(known @ weights[1:] + weights[0])
    return result

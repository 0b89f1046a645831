"""What the best schedules of an instance may serve: the unit of a wanted return.

Instances differ: the same throughput is poor for one and out of reach for another. So returns are
relative to the best that can be expected at the beginning of an episode. A high expectile of the
final throughput stands for that, linear in the logarithms of the counters under the incumbent.

Expectile regression: Newey and Powell, Asymmetric Least Squares Estimation and Testing,
Econometrica 1987.
"""

from __future__ import annotations

import numpy as np

from pmoss_agents.agent import Array

#: Rounds of reweighting; the weights settle within a few.
_ROUNDS = 50
#: Weight of the squared coefficients, of standardised inputs.
_RIDGE = 10.0


def beginning(meta: Array, incumbent_view: Array) -> Array:
    """(M + H,) logarithms of what is measured of the whole machine at an episode's beginning.

    Args:
        meta: (M,) of the observation.
        incumbent_view: (..., H), likewise; tiles are summed over.
    """
    counters = incumbent_view.reshape(-1, incumbent_view.shape[-1]).sum(0)
    logs: Array = np.log1p(np.concatenate([meta, counters]).astype(np.float64))
    return logs


def fit_expectile(inputs: Array, values: Array, expectile: float) -> Array:
    """Linear expectile regression with a ridge.

    Args:
        inputs: (n, d).
        values: (n,).
        expectile: in (0, 1); 0.5 is the mean.

    Returns:
        (1 + d,) the constant and the coefficients.
    """
    mean, std = inputs.mean(0), inputs.std(0)
    std[std <= 1e-6 * np.abs(inputs).max(0)] = np.inf  # a constant says nothing
    design = np.column_stack([np.ones(len(inputs)), (inputs - mean) / std])
    penalty = np.diag([0.0, *[_RIDGE] * inputs.shape[1]])
    weights = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        importance = np.where(values > design @ weights, expectile, 1 - expectile)[:, None]
        weights = np.linalg.solve(
            design.T @ (importance * design) + penalty, design.T @ (importance[:, 0] * values)
        )
    slopes = weights[1:] / std
    return np.concatenate([[weights[0] - slopes @ mean], slopes])


def foresee(facts: Array, weights: Array) -> Array:
    """(...) the throughput to expect at best, Mq/s.

    Args:
        facts: (..., d) of beginning().
        weights: (1 + d,) of fit_expectile().
    """
    throughput: Array = np.exp(facts @ weights[1:] + weights[0])
    return throughput

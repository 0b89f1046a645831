"""`pmoss benchmark fidelity`: how far the analytic model is from the simulated server."""

from pmoss_benchmarks.spatial.fidelity.card import (
    GOALS,
    FidelityOptions,
    card,
    goals_reached,
    measure_cell,
    summary,
)

__all__ = ["GOALS", "FidelityOptions", "card", "goals_reached", "measure_cell", "summary"]

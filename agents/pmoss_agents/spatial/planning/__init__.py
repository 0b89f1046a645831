"""Models of throughput, and planners that use them: the parts of agents that plan ahead.

``ThroughputModel`` predicts what a query of each slice takes on each core, from the counters of one
schedule that ran; ``Topology`` says which workers of a machine share what, and ``Pairs`` is what a
model learns from. ``Planner`` looks for the schedule of which an ensemble of models expects most,
and corrects their times by measurements. ``longest_first``, ``balance`` and ``refine`` give slices
to cores for given times. ``PlanningAgent`` plays an episode by a schedule that it makes at the
beginning. ``beginning``, ``fit_expectile`` and ``foresee`` estimate what the best schedules serve.

A planner by hand::

    agent = pmoss_agents.load("pmoss/surrogate-busy-core-v0")
    agent.use(machine)
    planner = agent.planner(counters, columns)  # (slices, H) and (slices,) of the incumbent
    columns = planner.plan()                    # (slices,) the worker of each slice
"""

from pmoss_agents.spatial.planning.agent import PlanningAgent, Trials
from pmoss_agents.spatial.planning.balancing import balance, longest_first, refine
from pmoss_agents.spatial.planning.foresight import beginning, fit_expectile, foresee
from pmoss_agents.spatial.planning.mixing import MixingModel, Prediction
from pmoss_agents.spatial.planning.model import (
    COSTS,
    ELAPSED,
    GROUPS,
    MORE_GROUPS,
    QUERIES,
    Reader,
    Reading,
    ThroughputModel,
    at,
    layers,
    log,
    mean_log_time,
)
from pmoss_agents.spatial.planning.pairs import PairBatch, Pairs
from pmoss_agents.spatial.planning.planner import Correction, Planner, fit_correction
from pmoss_agents.spatial.planning.topology import Sharing, Topology

__all__ = [
    "COSTS",
    "ELAPSED",
    "GROUPS",
    "MORE_GROUPS",
    "QUERIES",
    "Correction",
    "MixingModel",
    "PairBatch",
    "Pairs",
    "Planner",
    "PlanningAgent",
    "Prediction",
    "Reader",
    "Reading",
    "Sharing",
    "ThroughputModel",
    "Topology",
    "Trials",
    "at",
    "balance",
    "beginning",
    "fit_correction",
    "fit_expectile",
    "foresee",
    "layers",
    "log",
    "longest_first",
    "mean_log_time",
    "refine",
]

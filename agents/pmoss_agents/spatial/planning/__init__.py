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

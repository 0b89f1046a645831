# %% [markdown]
# # Your own policy
#
# A policy is any class with `reset` and `act`. Change `act`, run all cells, and see what it is
# worth. The page `docs/tutorials/your-policy.md` hands one to every command.

# %%
import numpy as np

from pmoss_datasets.evaluation import aggregate, evaluate
from pmoss_datasets.policies import SchedulePolicy


class LeastQueries:
    """Gives each slice to the legal tile that serves the fewest queries so far."""

    def reset(self):
        pass

    def act(self, observation, action_mask):
        queries = observation["machine_view"][..., 0].ravel()
        return int(np.argmin(np.where(action_mask, queries, np.inf)))


# %% [markdown]
# A policy that plans gets the counters of all slices under the incumbent at once. This one puts the
# longest slices first, each on the worker that has the least to do.


# %%
class LongestFirst:
    """Balances the time that each slice took under the incumbent."""

    def reset(self):
        self.step = 0

    def plan(self, context, order):
        busy = context.snapshot.counter("elapsed_us")
        workers = context.machine.workers
        load = np.zeros(len(workers))
        cores = np.empty(len(busy), dtype=np.int32)
        for slice_ in np.argsort(-busy):
            worker = int(load.argmin())
            load[worker] += busy[slice_]
            cores[slice_] = workers[worker]
        self.tiles = context.machine.tile_of_core[cores[order]]

    def act(self, observation, action_mask):
        self.step += 1
        return int(self.tiles[self.step - 1])


# %% [markdown]
# Score 0 is the mean of random schedules. Score 100 is what a search finds.

# %%
task = {"machine": "toy", "workload": "ycsb-a", "slices": 16, "interference": "busy_core"}
policies = {
    "least queries": LeastQueries(),
    "longest first": LongestFirst(),
    "lpt": SchedulePolicy("lpt"),
    "lpt-capacity": SchedulePolicy("lpt-capacity"),
}
result = evaluate(task, policies, seeds=[101, 102], episodes_per_seed=2, search_budget=100)
for row in sorted(aggregate(result.rows), key=lambda row: row.throughput):
    print(f"{row.policy:14} {row.throughput:6.2f} Mq/s   score {row.score:6.1f}")

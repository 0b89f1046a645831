# %% [markdown]
# # A first episode, by hand
#
# An index is cut into slices, and you give each slice a core. Change the machine, the workload or
# the rule at the end, and run the cells again. The page `docs/start/first-episode.md` explains
# them.

# %%
import gymnasium
import numpy as np

import pmoss_env  # noqa: F401 (registers the environments)

env = gymnasium.make(
    "pmoss/SpatialScheduling-v0",
    machine="toy",  # also skylake-x-8n, milan-nps4, ...: `pmoss list machines`
    workload="ycsb-a",
    slices=16,
    interference="busy_core",  # other programs take time from some cores
    render_mode="rgb_array",
)
observation, info = env.reset(seed=0)
{name: value.shape for name, value in observation.items()}

# %% [markdown]
# Every step gives the next slice a core, named by its tile. The mask says which tiles are workers.
# Here each slice goes to the legal tile that serves the fewest queries so far.

# %%
served = []
terminated = False
while not terminated:
    queries = observation["machine_view"][..., 0].ravel()
    action = int(np.argmin(np.where(info["action_mask"], queries, np.inf)))
    observation, reward, terminated, truncated, info = env.step(action)
    served.append(info["throughput"])
print(f"{info['incumbent_throughput']:.2f} -> {served[-1]:.2f} million queries per second")

# %% [markdown]
# The picture shows the chip. The number of a tile is the number of its slices.

# %%
picture = env.render()
picture.shape

# %% [markdown]
# A rule sees the same counters, and gives a whole schedule at once. Which one is best here?

# %%
from pmoss_datasets.evaluation import aggregate, evaluate
from pmoss_datasets.policies import SchedulePolicy

task = {"machine": "toy", "workload": "ycsb-a", "slices": 16, "interference": "busy_core"}
rules = {name: SchedulePolicy(name) for name in ("random", "grouped", "lpt", "lpt-capacity")}
result = evaluate(task, rules, seeds=[101, 102], episodes_per_seed=2, search_budget=100)
for row in sorted(aggregate(result.rows), key=lambda row: row.throughput):
    print(f"{row.policy:14} {row.throughput:6.2f} Mq/s   score {row.score:6.1f}")

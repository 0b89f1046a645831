# %% [markdown]
# # Train an agent, and compare it
#
# A surrogate learns from logged counters what schedules serve, and plans in what it learned. Here
# it learns for some seconds from a dataset that ships. Beside it plays one that ships trained. The
# page `docs/tutorials/train-and-compare.md` does the same with commands.

# %%
import pmoss_agents
import pmoss_datasets
from pmoss_datasets.evaluation import aggregate, evaluate
from pmoss_datasets.policies import Measured, SchedulePolicy

dataset = pmoss_datasets.load("pmoss/toy-btree-ycsb-a-busy-core/mixed-v0")
print(len(dataset), "episodes of", dataset.metadata.env_kwargs)

# %% [markdown]
# More updates and members learn more, and take longer: 200 updates of 3 members are its own config.

# %%
own = pmoss_agents.make("surrogate", members=2, updates=25, width=24, features=8, demands=4)
metrics = own.fit(dataset)
print({name: round(value, 4) for name, value in metrics.items()})

# %% [markdown]
# This one learned on a server of 96 cores. It acts on any machine.

# %%
shipped = pmoss_agents.load("pmoss/surrogate-busy-core-v0")
card = pmoss_agents.pretrained.card("pmoss/surrogate-busy-core-v0")
print(card.env["machine"], card.dataset["id"], f"score there {card.score.value:.1f}")

# %% [markdown]
# All meet the same new episodes. `Measured` lets an agent try some schedules before it decides.

# %%
task = dict(dataset.metadata.env_kwargs)
policies = {
    "random": SchedulePolicy("random"),
    "lpt": SchedulePolicy("lpt"),
    "best-fit": SchedulePolicy("best-fit"),
    "own": own,
    "shipped": shipped,
    "shipped, 3 tries": Measured(shipped, 3),
}
result = evaluate(task, policies, seeds=[101, 102], episodes_per_seed=2, search_budget=100)
for row in sorted(aggregate(result.rows), key=lambda row: row.throughput):
    print(f"{row.policy:18} {row.throughput:6.2f} Mq/s   score {row.score:6.1f}")

# %% [markdown]
# # Why is one schedule faster?
#
# Two schedules run in the same episode. What they counted says why one of them is faster. The page
# `docs/tutorials/explain-a-schedule.md` does it with one command.

# %%
from pathlib import Path

from pmoss_agents.explaining import headline, reasons
from pmoss_agents.explaining.measuring import explain
from pmoss_agents.explaining.page import explain_page
from pmoss_env.baselines import make_baseline
from pmoss_env.envs.spatial import SpatialSchedulingEnv

env = SpatialSchedulingEnv(machine="skylake-x-8n", slices=64, interference="busy_core")

# %% [markdown]
# Take any two of `pmoss_env.baselines.baseline_names()`, or an agent: a choice is a rule, a policy
# or a schedule.

# %%
choices = {name: make_baseline(name) for name in ("grouped", "lpt-capacity")}
comparison = explain(env, 0, choices)
print(headline(comparison))
for reason in reasons(comparison):
    print("-", reason.text)

# %% [markdown]
# The tables hold every counter of every place. These nodes differ most.

# %%
nodes = comparison.tables["node"]
before, after = nodes.column("elapsed_us")
for place in nodes.ranked(["elapsed_us"])[:3]:
    print(f"{nodes.places[place]}: cores busy {before[place]:.2f} -> {after[place]:.2f}")

# %% [markdown]
# The page draws both on the chip.

# %%
page = Path("why.html")
page.write_text(explain_page(comparison, env.machine.description))
print(page, page.stat().st_size, "bytes")
env.close()

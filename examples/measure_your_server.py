# %% [markdown]
# # An index on your server, while it serves
#
# A real B+-tree serves queries on this host. You change its schedule meanwhile, and watch. The page
# `docs/tutorials/measure-your-server.md` says what this host needs for that.

# %%
import numpy as np

from pmoss_env.backends import make_backend
from pmoss_env.backends.live import LiveRuntime
from pmoss_env.baselines import Context, make_baseline

backend = make_backend(
    "hardware",
    machine="host",
    workload="ycsb-a",
    slices=16,
    records=50_000,  # more, and the index no longer fits the caches
    own_process=False,
)
print(backend.machine.description)

# %% [markdown]
# A round is a whole snapshot: throughput, latencies and all counters of every slice.


# %%
def watch(live, rounds):
    """Throughputs of some rounds, and the last one's snapshot."""
    snapshots = []
    while len(snapshots) < rounds:
        if (round_read := live.next_round(timeout=60)) is not None:
            snapshots.append(round_read.snapshot)
    return [round(snapshot.throughput, 3) for snapshot in snapshots], snapshots[-1]


context = Context(backend.machine, backend.slices)
grouped = make_baseline("grouped")(context)
with LiveRuntime(backend, sweep_seconds=0.1) as live:
    live.start(grouped)
    rounds, snapshot = watch(live, 5)
    print("grouped:", rounds)
    context = Context(backend.machine, backend.slices, grouped, snapshot, np.random.default_rng(0))
    live.switch(make_baseline("lpt", shared=True)(context))  # data follow while queries run
    rounds, snapshot = watch(live, 5)
    print("lpt:", rounds)
    ended = live.stop()
backend.close()
print(ended["executed"], "queries answered,", ended["issued"] - ended["executed"], "lost")

# %% [markdown]
# What this host cannot count is marked, and the rest works.

# %%
busiest = int(np.nan_to_num(snapshot.counter("elapsed_us")).argmax())
print(f"slice {busiest} took most time; 99th percentile {snapshot.latency_p99_us:.0f} us")

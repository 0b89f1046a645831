"""Rollouts of spatial scheduling: the row of one, and putting its incumbent back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_datasets.interfaces import Restored, Rollout
from pmoss_datasets.spatial.scoring import check_repeatable, rerun
from pmoss_env.backends import backend_options
from pmoss_env.backends.data_facts import misplaced
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.types import HardwareSnapshot

#: Share of the incumbent's pages at home that may be missing after it was put back: what the
#: kernel moves meanwhile.
_LOST_SHARE = 0.01
#: Of a rollout's index on hardware, in multiples of its records.
_GROWTH = 100.0


def arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the environment: the index that runs stays as it grows."""
    if "max_growth" not in backend_options(kwargs.get("backend", "analytic")):
        return dict(kwargs)
    # It is the one to be placed, and put back.
    options = {"max_growth": _GROWTH, **(kwargs.get("backend_options") or {})}
    return {**kwargs, "backend_options": options}


def row_of(env: SpatialSchedulingEnv, played: Rollout) -> dict[str, Any]:
    """What is kept of a rollout at whose end the environment is, as plain JSON."""
    before, final = env.incumbent_snapshot, env.final_snapshot()
    cores = env.schedule.cores
    return {
        "incumbent_mq_per_s": before.throughput,
        "final_mq_per_s": final.throughput,
        "incumbent_p99_us": before.latency_p99_us,
        "p99_us": final.latency_p99_us,
        "moved_slices": int((cores != env.incumbent.cores).sum()),
        "policy_seconds": played.seconds,
        "illegal_actions": played.illegal_actions,
        "incumbent_cores": env.incumbent.cores.tolist(),
        "cores": cores.tolist(),
        "provenance": dict(final.provenance),
    }


def row_again(
    env: SpatialSchedulingEnv, seed: int, row: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """What row_of() gives where the schedule of a row is placed again; see Domain.row_again."""
    check_repeatable(env)
    env.reset(seed=seed, options=dict(options) or None)
    schedule = env.machine.local_schedule(row.get("cores"))
    env.machine.check_schedule(schedule, env.slices)
    actions = env.machine.tile_of_core[schedule.cores[env.order]].tolist()
    again = row_of(env, rerun(env, seed, actions, options))
    # What was chosen in place of another tile, the schedule does not say.
    return {name: value for name, value in again.items() if name != "illegal_actions"}


def in_words(row: Mapping[str, Any]) -> str:
    """A row of row_of() in words, and what undoing found."""
    text = (
        f"{row['incumbent_mq_per_s']:8.3f} -> {row['final_mq_per_s']:8.3f} Mq/s"
        f"   p99 {row['incumbent_p99_us']:.0f} -> {row['p99_us']:.0f} us"
        f"   {row['moved_slices']} of {len(row['cores'])} slices moved"
    )
    if count := misplaced(row["provenance"]):
        text += f"\n           data of {count} slices are not where the schedule wants them"
    if restored := row["restored"]:
        text += f"\n           undone: {restored['mq_per_s']:.3f} Mq/s again, "
        differs = ", ".join(restored["differs"])
        text += "verified" if restored["verified"] else f"but not as before: {differs}"
    return text


def restore(env: SpatialSchedulingEnv) -> Restored:
    """Puts the incumbent of the environment's episode back and looks whether all is as it was."""
    before = env.incumbent_snapshot
    after = env.restore()
    if env.backend.measures_host:
        differs = _differs_on_hardware(before, after)
    else:
        differs = [
            name
            for name in ("throughput", "slice_counters", "offcore", "latency_p99_us")
            if not np.array_equal(getattr(before, name), getattr(after, name), equal_nan=True)
        ]
    return Restored(not differs, tuple(differs), after.throughput)


def _differs_on_hardware(before: HardwareSnapshot, after: HardwareSnapshot) -> list[str]:
    first, second = before.provenance, after.provenance
    differs = [name for name in ("worker_cpus", "router_cpus") if first[name] != second[name]]
    if first["records_after"] > second["records_before"]:
        differs.append("records (the index was loaded anew: allow a larger -o max_growth)")
    home, now = (facts["data"]["home_share"] for facts in (first, second))
    if home is not None and (now is None or now < home - _LOST_SHARE):
        differs.append("pages at home")
    return differs

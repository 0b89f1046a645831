"""Rollouts of spatial scheduling: the row of one, and putting its incumbent back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_datasets.interfaces import Restored, Rollout
from pmoss_env.backends.data_facts import misplaced
from pmoss_env.backends.frames import pack_schedule
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.measuring import (
    SAME,
    Comparison,
    busy_share,
    overload_in_words,
    ratio_in_words,
    round_error,
    tolerance,
)
from pmoss_env.types import HardwareSnapshot

#: Share of the incumbent's pages at home that may be missing after it was put back: what the
#: kernel moves meanwhile.
_LOST_SHARE = 0.01
#: Most measurements of an incumbent that was put back and serves another rate than before.
_ATTEMPTS = 3
#: A relative difference of throughputs that may be noise; with more noise nothing is verified.
_MOST_NOISE = 0.25
#: A rate that lies farther from later ones than so many of their spans is no noise.
_FAR = 2.0


def row_of(env: SpatialSchedulingEnv, played: Rollout) -> dict[str, Any]:
    """The row of the rollout that has just ended, as plain JSON."""
    before, final = env.incumbent_snapshot, env.final_snapshot()
    shared = played.schedule
    schedule = env.schedule if shared is None else shared
    moved = schedule.cores != env.incumbent.cores
    if shared is not None:
        moved = np.ones(env.slices, dtype=np.bool_)
    overload = overload_in_words(final)
    return {
        "incumbent_mq_per_s": before.throughput,
        "final_mq_per_s": final.throughput,
        "incumbent_p99_us": before.latency_p99_us,
        "p99_us": final.latency_p99_us,
        "moved_slices": int(moved.sum()),
        "policy_seconds": played.seconds,
        "illegal_actions": played.illegal_actions,
        "incumbent_cores": env.incumbent.cores.tolist(),
        "cores": schedule.cores.tolist(),
        # Where workers share slices, the cores say nothing.
        **({} if shared is None else {"schedule": pack_schedule(shared)}),
        **({"overload": overload} if overload else {}),
        "provenance": dict(final.provenance),
    }


def in_words(row: Mapping[str, Any]) -> str:
    """A row of row_of() in words, how it compares on a host, and what undoing found."""
    text = (
        f"{row['incumbent_mq_per_s']:8.3f} -> {row['final_mq_per_s']:8.3f} Mq/s"
        f"   p99 {row['incumbent_p99_us']:.0f} -> {row['p99_us']:.0f} us"
        f"   {_placed(row)}"
    )
    if compared := row.get("comparison"):
        ratio = ratio_in_words(*(compared[name] for name in ("ratio", "ratio_low", "ratio_high")))
        records = " / ".join(f"{count:,}" for count in dict.fromkeys(compared["records"]))
        again = f"{compared['again_mq_per_s']:.3f} Mq/s before it again"
        text += f"\n           {again}: ratio {ratio or '?'}, on {records} records"
    if "overload" in row:
        text += f"\n           {row['overload']}"
    if count := misplaced(row["provenance"]):
        text += f"\n           data of {count} slices are not where the schedule wants them"
    if restored := row["restored"]:
        text += f"\n           undone: {restored['mq_per_s']:.3f} Mq/s again, "
        differs = ", ".join(restored["differs"])
        if restored["verified"]:
            text += "verified"
        elif restored.get("noisy"):
            text += f"but this host is too noisy to tell whether as before: {differs}"
        else:
            text += f"but not as before: {differs}"
    return text


def _placed(row: Mapping[str, Any]) -> str:
    """What the policy changed, in words."""
    if shared := row.get("schedule"):
        return f"queries on {shared['routing']} worker, data {shared['data']}"
    return f"{row['moved_slices']} of {len(row['cores'])} slices moved"


def restore(env: SpatialSchedulingEnv) -> Restored:
    """Puts the incumbent of the environment's episode back and looks whether all is as it was."""
    before = env.incumbent_snapshot
    after = env.restore()
    if env.backend.measures_host:
        return _restored_on_host(env, before, after)
    differs = [
        name
        for name in ("throughput", "slice_counters", "offcore", "latency_p99_us")
        if not np.array_equal(getattr(before, name), getattr(after, name), equal_nan=True)
    ]
    return Restored(not differs, tuple(differs), after.throughput)


def _restored_on_host(
    env: SpatialSchedulingEnv, before: HardwareSnapshot, after: HardwareSnapshot
) -> Restored:
    """The verdict where no measurement repeats: another rate is measured again before it counts."""
    comparison = Comparison.of(before, env.final_snapshot(), after).plain()
    differs = _differs_on_hardware(before, after)
    measured = [after]
    while not differs and not _serves_as(before, measured) and len(measured) < _ATTEMPTS:
        measured.append(env.restore())
    rate, noisy = measured[-1].throughput, False
    if not differs and not (
        _serves_as(before, measured)
        and _rounds_are_enough(before, measured)
        and _margin(before, measured) <= _MOST_NOISE
    ):
        rate = float(np.median([snapshot.throughput for snapshot in measured]))
        noise = _noise(before, measured)
        noisy = bool(noise)
        ratio = rate / before.throughput if before.throughput else math.nan
        differs = [f"throughput, {ratio:.2f} of before{f' ({noise})' if noise else ''}"]
    return Restored(not differs, tuple(differs), rate, noisy, comparison)


def _serves_as(before: HardwareSnapshot, measured: Sequence[HardwareSnapshot]) -> bool:
    """Whether a later throughput of the same schedule is that of before, within their noise."""
    margin = 1 + _margin(before, measured)
    rates = [snapshot.throughput for snapshot in measured]
    return any(rate / margin <= before.throughput <= rate * margin for rate in rates)


def _rounds_are_enough(before: HardwareSnapshot, measured: Sequence[HardwareSnapshot]) -> bool:
    return all(round_error(snapshot) is not None for snapshot in (before, *measured))


def _margin(before: HardwareSnapshot, measured: Sequence[HardwareSnapshot]) -> float:
    return max(tolerance(before, snapshot) for snapshot in measured)


def _noise(before: HardwareSnapshot, measured: Sequence[HardwareSnapshot]) -> str:
    """Why this host cannot tell whether an incumbent serves as before; empty if it can."""
    rates = [snapshot.throughput for snapshot in measured]
    if min(rates) <= 0 or before.throughput <= 0:
        return "a measurement served nothing"
    if not _rounds_are_enough(before, measured):
        return "too few sweeping rounds: measure for longer, or sweep more often"
    if (margin := _margin(before, measured)) > _MOST_NOISE:
        return f"its sweeping rounds leave {margin:.0%} to noise"
    distance = min(abs(math.log(rate / before.throughput)) for rate in rates)
    if distance <= _FAR * _span(rates):
        return f"measured again, it serves from {min(rates):.3f} to {max(rates):.3f} Mq/s"
    shares = [busy_share(snapshot) for snapshot in (before, *measured)]
    counted = [share for share in shares if share is not None]
    if counted and distance <= _FAR * _span(counted):
        return f"its workers had from {min(counted):.0%} to {max(counted):.0%} of their CPUs"
    return ""


def _span(values: Sequence[float]) -> float:
    """Logarithm of the largest over the smallest; 0 where that is no more than SAME."""
    ratio = max(values) / min(values)
    return math.log(ratio) if ratio > 1 + SAME else 0.0


def _differs_on_hardware(before: HardwareSnapshot, after: HardwareSnapshot) -> list[str]:
    first, second = before.provenance, after.provenance
    differs = [name for name in ("worker_cpus", "router_cpus") if first[name] != second[name]]
    counts = [facts["records_before"] for facts in (first, second)]
    if counts[0] != counts[1]:
        differs.append(f"records ({counts[0]:,}, then {counts[1]:,}: give -o max_growth=0)")
    home, now = (facts["data"]["home_share"] for facts in (first, second))
    if home is not None and (now is None or now < home - _LOST_SHARE):
        differs.append("pages at home")
    return differs

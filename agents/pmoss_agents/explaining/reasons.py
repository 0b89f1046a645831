"""What changed between two schedules, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_agents.explaining.differences import SATURATED, Comparison, Kind, Run, per_core
from pmoss_env.machines import Machine
from pmoss_env.types import BoolArray, Float64Array

#: Throughputs that differ by less are called the same.
SAME = 0.01
#: A core takes this much longer than it works: something else runs there.
SLOWED = 1.1


@dataclass(frozen=True)
class Reason:
    """One thing that changed.

    Attributes:
        text: a clause that follows "because".
        helps: whether it speaks for more throughput under the second schedule.
        weight: how much it changed, 0 to 1, to choose what is said first.
    """

    text: str
    helps: bool
    weight: float


def headline(comparison: Comparison) -> str:
    """One sentence: what the second schedule reaches, and what changed most to make it so."""
    a, b = comparison.before, comparison.after
    first, second = a.snapshot.throughput, b.snapshot.throughput
    if a.schedule == b.schedule:
        same = f"{b.name} and {a.name} are the same schedule"
        if first == second:
            return f"{same}, at {second:.4g} Mq/s."
        return f"{same}; two runs of it served {first:.4g} and {second:.4g} Mq/s."
    found = reasons(comparison)
    numbers = f"{second:.4g} instead of {first:.4g} Mq/s"
    if abs(second - first) <= SAME * max(first, second, 1e-12):
        told = _join([reason.text for reason in found[:2]])
        tail = f", although {told}" if told else ""
        return f"{b.name} serves as much as {a.name} ({second:.4g} Mq/s){tail}."
    gains = second > first
    ratio = second / first if first > 0 else float("inf")
    if 0.5 < ratio < 2:
        what = f"{abs(ratio - 1):.0%} {'more' if gains else 'fewer'} queries than"
    elif gains:
        what = f"{ratio:.3g} times the queries of"
    else:
        what = f"{ratio:.0%} of the queries of"
    pro = [reason.text for reason in found if reason.helps == gains][:2]
    con = [reason.text for reason in found if reason.helps != gains and reason.weight > 0.1][:1]
    sentence = f"{b.name} serves {what} {a.name} ({numbers})"
    if pro:
        sentence += f": {_join(pro)}"
    if con:
        sentence += f", although {con[0]}"
    return sentence + "."


def reasons(comparison: Comparison) -> list[Reason]:
    """All that changed enough to be told, the greatest change first."""
    found = [
        *_balance(comparison),
        *_slowed_cores(comparison),
        *_remote(comparison),
        *_saturation(comparison, "node", "the memory of node", "the memories of nodes"),
        *_saturation(comparison, "link", "the link from", "the links from"),
        *_per_query(comparison, "task_clock_us", "the processor time per query falls", " us"),
        *_per_query(comparison, "llc_misses", "last-level misses per query fall", ""),
        *_per_query(comparison, "dtlb_misses", "TLB misses per query fall", ""),
    ]
    return sorted(found, key=lambda reason: -reason.weight)


def moved_slices(comparison: Comparison) -> tuple[int, int]:
    """How many slices have another core, and how many have their data on another node."""
    a, b = comparison.before.schedule, comparison.after.schedule
    return int((a.cores != b.cores).sum()), int((a.nodes != b.nodes).sum())


def busy(comparison: Comparison, run: Run) -> Float64Array:
    """(W,) share of its time that each worker is busy, what slows it included."""
    machine = comparison.machine
    return per_core(machine, run.schedule, run.snapshot.counter("elapsed_us"))[machine.workers]


def slowed_cores(machine: Machine, run: Run) -> BoolArray:
    """(C,) bool: where slices take longer than they work; none where workers share slices."""
    if run.schedule.routing != "core":
        return np.zeros(machine.cores, dtype=np.bool_)
    took = per_core(machine, run.schedule, run.snapshot.counter("elapsed_us"))
    worked = per_core(machine, run.schedule, run.snapshot.counter("task_clock_us"))
    return (worked > 0) & (took > SLOWED * worked)


def _both(comparison: Comparison) -> tuple[Run, Run]:
    return comparison.before, comparison.after


def _balance(comparison: Comparison) -> list[Reason]:
    """Workers wait for the busiest: how near to it the mean one comes."""
    shares = []
    for run in _both(comparison):
        values = busy(comparison, run)
        shares.append(float(values.mean() / values.max()) if values.max() > 0 else 1.0)
    first, second = shares
    if abs(second - first) < 0.02:
        return []
    word = "more" if second > first else "less"
    text = (
        f"the work is spread {word} evenly (the average worker is busy {second:.0%} instead of "
        f"{first:.0%} as long as the busiest)"
    )
    return [Reason(text, second > first, abs(second - first))]


def _slowed_cores(comparison: Comparison) -> list[Reason]:
    """How much of the work is done on cores that something else takes time from."""
    machine = comparison.machine
    slowed = np.zeros(machine.cores, dtype=np.bool_)
    work = []
    for run in _both(comparison):
        slowed |= slowed_cores(machine, run)
        work.append(per_core(machine, run.schedule, run.snapshot.counter("task_clock_us")))
    shares = [float(w[slowed].sum() / w.sum()) if w.sum() > 0 else 0.0 for w in work]
    first, second = shares
    if abs(second - first) < 0.01:
        return []
    where = "the cores that co-tenants slow down"
    text = f"{second:.0%} instead of {first:.0%} of the work is done on {where}"
    # Little work on a slow core is enough to make it the one that all wait for.
    return [Reason(text, second < first, min(1.0, 2 * abs(second - first)))]


def _remote(comparison: Comparison) -> list[Reason]:
    shares = []
    for run in _both(comparison):
        local = run.snapshot.counter("local_dram").sum()
        remote = run.snapshot.counter("remote_dram").sum()
        if local + remote <= 0:
            return []
        shares.append(float(remote / (local + remote)))
    first, second = shares
    if abs(second - first) < 0.01:
        return []
    word = "down" if second < first else "up"
    text = (
        f"remote accesses are {word} ({second:.0%} instead of {first:.0%} of the loads from memory)"
    )
    return [Reason(text, second < first, abs(second - first))]


def _saturation(comparison: Comparison, kind: Kind, one: str, many: str) -> list[Reason]:
    """Memories or links that became saturated, or are no longer."""
    table = comparison.tables[kind]
    first, second = table.column("use")
    found = []
    relieved = (first >= SATURATED) & (second < SATURATED)
    for places, helps in ((relieved, True), ((second >= SATURATED) & (first < SATURATED), False)):
        chosen = np.flatnonzero(places)
        if chosen.size == 0:
            continue
        names = [table.places[i].removeprefix("node ") for i in chosen]
        told = _join(names) if len(names) <= 4 else f"{_join(names[:3])} and {len(names) - 3} more"
        verb = "is" if chosen.size == 1 else "are"
        state = "no longer saturated" if helps else "saturated"
        worst = chosen[np.argmax(np.abs(second - first)[chosen])]
        found.append(
            Reason(
                f"{one if chosen.size == 1 else many} {told} {verb} {state} ({second[worst]:.0%} "
                f"instead of {first[worst]:.0%} of the bandwidth)",
                helps,
                float(min(1.0, np.abs(second - first)[worst])),
            )
        )
    return found


def _per_query(comparison: Comparison, counter: str, falls: str, unit: str) -> list[Reason]:
    """``falls`` is what is said when there are fewer per query."""
    table = comparison.tables["machine"]
    place = table.places.index(counter)
    first, second = (float(column[place]) for column in table.column("per_query"))
    if not (first > 0 and second > 0) or abs(second - first) < 0.05 * max(first, second):
        return []
    said = falls if second < first else falls.replace(" fall", " rise")
    # More an effect than a cause, so at most half a change: that for a factor of four.
    weight = 0.5 * min(1.0, abs(float(np.log(second / first))) / float(np.log(4)))
    return [Reason(f"{said} from {first:.3g} to {second:.3g}{unit}", second < first, weight)]


def _join(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"

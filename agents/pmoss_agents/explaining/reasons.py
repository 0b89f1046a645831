"""What changed between two schedules, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pmoss_agents.explaining.differences import SATURATED, Comparison, Kind, Run, per_core
from pmoss_env.machines import Machine
from pmoss_env.types import BoolArray

#: Throughputs that differ by less are called the same.
SAME = 0.01
#: A core takes this much longer than it works: something else runs there.
SLOWED = 1.1
#: The mean worker is busy for less of the time that the busiest one needs for a single slice.
IDLE = 0.75


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
    """What the second schedule reaches, and what changed most to make it so.

    A further sentence says where one slice is all that a core does, and the others wait.
    """
    return _change_in_words(comparison) + _full_core(comparison.machine, comparison.after)


def _change_in_words(comparison: Comparison) -> str:
    a, b = comparison.before, comparison.after
    first, second = a.snapshot.throughput, b.snapshot.throughput
    if (a.schedule, a.balancing) == (b.schedule, b.balancing):
        same = f"{b.name} and {a.name} are the same schedule"
        if first == second:
            return f"{same}, at {second:.4g} Mq/s."
        return f"{same}; two runs of it served {first:.4g} and {second:.4g} Mq/s."
    every = reasons(comparison)
    numbers = f"{second:.4g} instead of {first:.4g} Mq/s"
    if abs(second - first) <= SAME * max(first, second, 1e-12):
        although = _join([reason.text for reason in every[:2]])
        tail = f", although {although}" if although else ""
        return f"{b.name} serves as much as {a.name} ({second:.4g} Mq/s){tail}."
    gains = second > first
    ratio = second / first if first > 0 else float("inf")
    if 0.5 < ratio < 2:
        share = f"{abs(ratio - 1):.0%} {'more' if gains else 'fewer'} queries than"
    else:
        share = f"{ratio:.3g} times the queries of" if gains else f"{ratio:.0%} of the queries of"
    pro = [reason.text for reason in every if reason.helps == gains][:2]
    con = [reason.text for reason in every if reason.helps != gains and reason.weight > 0.1][:1]
    because = f": {_join(pro)}" if pro else ""
    although = f", although {con[0]}" if con else ""
    return f"{b.name} serves {share} {a.name} ({numbers}){because}{although}."


def _full_core(machine: Machine, run: Run) -> str:
    """Says which slice fills the busiest core alone while the others have time to spare."""
    if run.schedule.routing != "core":
        return ""
    busy = per_core(machine, run.schedule, run.snapshot.counter("elapsed_us"))
    worst = int(np.argmax(busy))
    slices = np.flatnonzero(run.schedule.cores == worst)
    used = float(busy[machine.workers].mean() / busy[worst]) if busy[worst] > 0 else 1.0
    if slices.size != 1 or used >= IDLE or slowed_cores(machine, run)[worst]:
        return ""
    work = run.snapshot.counter("task_clock_us")
    share = work[slices[0]] / work.sum()
    return (
        f" Slice {slices[0]} alone fills the busiest core: it does {share:.0%} of the work. No "
        f"placement can split a slice; more slices may (-e slices={4 * run.schedule.cores.size})."
    )


def reasons(comparison: Comparison) -> list[Reason]:
    """All changes above a threshold, the greatest first."""
    every = [
        *_balance(comparison),
        *_slowed_cores(comparison),
        *_remote(comparison),
        *_saturation(comparison, "node", "the memory of node", "the memories of nodes"),
        *_saturation(comparison, "link", "the link from", "the links from"),
        *_per_query(comparison, "task_clock_us", "the processor time per query falls", " us"),
        *_per_query(comparison, "llc_misses", "last-level misses per query fall", ""),
        *_per_query(comparison, "dtlb_misses", "TLB misses per query fall", ""),
    ]
    return sorted(every, key=lambda reason: -reason.weight)


def moved_slices(comparison: Comparison) -> tuple[int, int]:
    """Number of slices on another core, and of those with data on another node."""
    a, b = comparison.before.schedule, comparison.after.schedule
    return int((a.cores != b.cores).sum()), int((a.nodes != b.nodes).sum())


def slowed_cores(machine: Machine, run: Run) -> BoolArray:
    """(C,) bool: where slices take longer than they work; none where workers share slices."""
    if run.schedule.routing != "core":
        return np.zeros(machine.cores, dtype=np.bool_)
    took = per_core(machine, run.schedule, run.snapshot.counter("elapsed_us"))
    worked = per_core(machine, run.schedule, run.snapshot.counter("task_clock_us"))
    return (worked > 0) & (took > SLOWED * worked)


def _changed(first: float, second: float, least: float, text: str, helps: bool) -> list[Reason]:
    """A reason for a share that changed by as much as the least that is worth saying."""
    change = abs(second - first)
    return [] if change < least else [Reason(text, helps, min(1.0, change))]


def _balance(comparison: Comparison) -> list[Reason]:
    """Workers wait for the busiest: how near to it the mean one comes."""
    machine = comparison.machine
    shares = []
    for run in comparison.runs:
        busy = per_core(machine, run.schedule, run.snapshot.counter("elapsed_us"))[machine.workers]
        shares.append(float(busy.mean() / busy.max()) if busy.max() > 0 else 1.0)
    first, second = shares
    text = (
        f"the work is spread {'more' if second > first else 'less'} evenly (the average worker is "
        f"busy for {second:.0%} instead of {first:.0%} of the busiest worker's time)"
    )
    return _changed(first, second, 0.02, text, second > first)


def _slowed_cores(comparison: Comparison) -> list[Reason]:
    """The share of the work on cores that co-tenants slow down."""
    machine = comparison.machine
    slowed = slowed_cores(machine, comparison.before) | slowed_cores(machine, comparison.after)
    shares = []
    for run in comparison.runs:
        work = per_core(machine, run.schedule, run.snapshot.counter("task_clock_us"))
        shares.append(float(work[slowed].sum() / work.sum()) if work.sum() > 0 else 0.0)
    first, second = shares
    text = (
        f"{second:.0%} instead of {first:.0%} of the work is done on the cores that co-tenants "
        "slow down"
    )
    # Little work on a slow core is enough to make it the one that all wait for.
    return _changed(2 * first, 2 * second, 0.02, text, second < first)


def _remote(comparison: Comparison) -> list[Reason]:
    shares = []
    for run in comparison.runs:
        local = run.snapshot.counter("local_dram").sum()
        remote = run.snapshot.counter("remote_dram").sum()
        if local + remote <= 0:
            return []
        shares.append(float(remote / (local + remote)))
    first, second = shares
    text = (
        f"remote accesses are {'down' if second < first else 'up'} ({second:.0%} instead of "
        f"{first:.0%} of the loads from memory)"
    )
    return _changed(first, second, 0.01, text, second < first)


def _saturation(comparison: Comparison, kind: Kind, singular: str, plural: str) -> list[Reason]:
    """Memories or links that became saturated, or are no longer."""
    table = comparison.tables[kind]
    first, second = table.column("use")
    result = []
    for helps, state in ((True, "no longer saturated"), (False, "saturated")):
        full, free = (first, second) if helps else (second, first)
        places = np.flatnonzero((full >= SATURATED) & (free < SATURATED))
        if places.size == 0:
            continue
        names = [table.places[place].removeprefix("node ") for place in places]
        if len(names) > 4:
            names = [*names[:3], f"{len(names) - 3} more"]
        subject = f"{singular if places.size == 1 else plural} {_join(names)}"
        worst = places[np.argmax(np.abs(second - first)[places])]
        text = (
            f"{subject} {'is' if places.size == 1 else 'are'} {state} ({second[worst]:.0%} "
            f"instead of {first[worst]:.0%} of the bandwidth)"
        )
        result += _changed(first[worst], second[worst], 0.0, text, helps)
    return result


def _per_query(comparison: Comparison, counter: str, falls: str, unit: str) -> list[Reason]:
    """``falls`` is what is said when there are fewer per query."""
    table = comparison.tables["machine"]
    place = table.places.index(counter)
    first, second = (float(column[place]) for column in table.column("per_query"))
    if not (first > 0 and second > 0) or abs(second - first) < 0.05 * max(first, second):
        return []
    changes = falls if second < first else falls.replace(" fall", " rise")
    # More an effect than a cause, so at most half a change: that for a factor of four.
    weight = 0.5 * min(1.0, abs(float(np.log(second / first))) / float(np.log(4)))
    return [Reason(f"{changes} from {first:.3g} to {second:.3g}{unit}", second < first, weight)]


def _join(words: Sequence[str]) -> str:
    """The words as an enumeration."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))

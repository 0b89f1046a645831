"""Writes counters.md beside it, the reference of the counters, from their table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pmoss_env.counter_table import MODELS, TABLE, Counter, CounterTable, Encoding, read_table

PAGE = Path(__file__).parent / "concepts" / "counters.md"
_SOURCES = {
    "runtime": "the runtime, in its workers",
    "software": "the kernel",
    "hardware": "the PMU, through the kernel",
}

_WINDOWS = (
    "On hardware a worker reads its counters where a window ends. It divides the counts over the "
    "slices of the window's queries, by their times.",
    "",
    "- A window holds at least as many queries as the option `window` says.",
    "- A window lasts at least 256 times as long as reading and booking took of late. That bounds "
    "what counting costs a busy worker. Where queries are fast, a window holds more than `window`.",
    "- A window ends early when its worker has to wait. The next one begins `window` queries and "
    "64 such times after the beginning of the last, or later.",
    "- Time in which the worker had lost its core is taken off the query that took longest. Only "
    "the context switches and migrations themselves go by all of the time.",
    "- Queries between two windows are not counted. A slice's rate is that of its counted queries.",
    "- An event is counted only in windows in which it really ran. The running ratio says how "
    "often that was.",
)


def page(table: CounterTable) -> str:
    """The whole page, in Markdown."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: CounterTable) -> Iterator[str]:
    yield "# Counters"
    yield ""
    yield f"<!-- Generated from pmoss_env/{TABLE.name} by docs/{Path(__file__).name}. -->"
    yield ""
    yield (
        "A snapshot holds one column for each counter below, in this order. A value is a rate: "
        "million counts per second, so a time in microseconds reads as cores busy. A backend that "
        "does not have a counter marks it as not available and stores 0. The noise is the "
        "coefficient of variation between repeated runs of one schedule on real hardware. "
        "`pmoss doctor` says which counters this host has."
    )
    yield ""
    yield (
        "An observation holds 0 for what is not available. The snapshot behind it says which "
        "counters are available: `env.unwrapped.incumbent_snapshot.counters_available` in the "
        "spatial environment, `env.unwrapped.context(rng).snapshot.counters_available` in the "
        'continual one. With `counters="software"` no counter of the PMU is available, and no '
        'off-core value. In the spatial environment `counters="amd"` leaves out what AMD\'s '
        'processors do not count, and `counters="arm"` what Arm\'s do not: counters for which the '
        "table has no code of theirs."
    )
    yield ""
    yield "| | counter | unit | counted on hardware by | analytic | simulated | noise |"
    yield "|---:|---|---|---|---|---|---:|"
    for position, counter in enumerate(table.counters):
        models = (("yes" if model in counter.models else "no") for model in MODELS)
        yield (
            f"| {position} | [`{counter.name}`](#{counter.name}) | {counter.unit} "
            f"| {_SOURCES[counter.source]} | {' | '.join(models)} | {counter.noise:.2%} |"
        )
    for counter in table.counters:
        yield ""
        yield from _section(counter)
    yield ""
    yield "## Extra counters"
    yield ""
    yield (
        "Hardware alone counts these, and no observation holds them: only some makers have them, "
        "or theirs mean different things. A snapshot has those of this CPU in `extra_counters`; "
        "`pmoss measure` shows them."
    )
    for counter in table.extra:
        yield ""
        yield from _section(counter)
    yield ""
    yield "## Windows"
    yield ""
    yield from _WINDOWS
    yield ""
    yield "## Kinds of CPU"
    yield ""
    yield "Raw codes are used on the CPUs whose manual lists them, and nowhere else."
    yield ""
    yield "| kind | CPUs | vendor | families | models | list of events |"
    yield "|---|---|---|---|---|---|"
    for kind in table.cpus.values():
        families = ", ".join(f"{value:#x}" for value in kind.families) or "all"
        models = ", ".join(_range(*ends) for ends in kind.models) or "all"
        yield (
            f"| `{kind.name}` | {kind.meaning} | {kind.vendor} | {families} | {models} "
            f"| {kind.source} |"
        )


def _range(first: int, last: int) -> str:
    return f"{first:#x}" if first == last else f"{first:#x} to {last:#x}"


def _section(counter: Counter) -> Iterator[str]:
    yield f"## {counter.name}"
    yield ""
    yield counter.meaning
    yield f"Lost without it: {counter.lost}."
    yield ""
    for model, how in counter.models.items():
        yield f"- {model}: {how}"
    for code in counter.perf:
        yield f"- perf: {_told(code)}"
    if counter.kernel_only:
        yield "- It counts in the kernel's mode only: without that right it is not available."
    if counter.event and counter.event != counter.name:
        yield f"- The kernel's name is `{counter.event}`, in {counter.event_unit}."


def _told(code: Encoding) -> str:
    if code.kind == "name":
        return f"`{code.value}`, where libpfm4 knows it and no entry above fits"
    if code.kind == "raw":
        offcore = f" with off-core response `{code.offcore:#x}`" if code.offcore else ""
        note = f" ({code.note})" if code.note else ""
        on = ", ".join(f"`{name}`" for name in code.on)
        return f"raw `{code.value:#06x}`{offcore} on {on}: `{code.event}`{note}"
    words = code.value if isinstance(code.value, tuple) else (str(code.value),)
    on = f" on {', '.join(f'`{name}`' for name in code.on)}" if code.on else ""
    return f"{code.kind} `{' '.join(words)}`{on}"


if __name__ == "__main__":
    PAGE.write_text(page(read_table()), encoding="utf-8")

"""Raw codes of counters against the event lists that the makers of CPUs publish."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pmoss_env.counter_table import Counter, CounterTable, Encoding, read_table

LISTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("event_lists.toml").read_text()
)["list"]
TABLE = read_table()
#: The supplier's bits in Intel's register of off-core responses.
SUPPLIERS = 0x7FFF0000
#: Events that the kernel itself encodes, as its sources of 6.x do.
KERNEL = {
    "intel": {"cpu_cycles": 0x3C, "instructions": 0xC0, "branch_misses": 0xC5},
    "amd": {"cpu_cycles": 0x76, "instructions": 0xC0, "branch_misses": 0xC3},
    "arm": {"cpu_cycles": 0x11, "instructions": 0x08, "branch_misses": 0x10},
}
PAPER = [counter.name for counter in TABLE.counters if counter.source == "hardware"]


def chosen(counter: Counter, kind: str) -> Encoding | None:
    """The encoding that a kind of CPU uses; libpfm4's names come last and are not ours to check."""
    fitting = [code for code in counter.perf if not code.on or kind in code.on]
    return fitting[0] if fitting and fitting[0].kind != "name" else None


def listed_code(event: str, events: dict[str, list[int]], vendor: str) -> tuple[int, int]:
    """Code and off-core response of "A", "A + B", "A - B" or "A >= 1"."""
    name, *rest = re.split(r" (\+|-|>=) ", event)
    code, mask, counter_mask, offcore = (*events[name], 0, 0, 0)[:4]
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        if sign == ">=":
            counter_mask = int(operand)
            continue
        other = (*events[operand], 0, 0, 0)
        assert other[0] == code, "not of the same event"
        if sign == "+":
            mask |= other[1]
        else:
            offcore &= ~(other[3] & SUPPLIERS)
    if vendor == "arm":
        return code, 0
    high = (code >> 8) << 32 if vendor == "amd" else 0
    return high | counter_mask << 24 | mask << 8 | (code & 0xFF), offcore


@pytest.mark.parametrize("published", LISTS, ids=lambda one: str(one["source"]))
def test_every_raw_code_is_that_of_its_event_in_the_list(published: dict[str, Any]) -> None:
    kind, events = published["kind"], published["events"]
    vendor = TABLE.cpus[kind].vendor
    checked = 0
    for counter in (*TABLE.counters, *TABLE.extra):
        for code in counter.perf:
            if code.kind != "raw" or kind not in code.on:
                continue
            if vendor == "arm" and code.event not in events:
                continue  # The core itself says which of Arm's common events it has.
            assert (code.value, code.offcore) == listed_code(code.event, events, vendor), code
            checked += 1
    assert checked >= 5


@pytest.mark.parametrize("kind", TABLE.cpus)
def test_the_kernels_own_codes_are_in_the_lists(kind: str) -> None:
    codes = {
        listed_code(name, one["events"], "intel")[0]
        for one in LISTS
        if one["kind"] == kind
        for name in one["events"]
    }
    assert codes >= set(KERNEL[TABLE.cpus[kind].vendor].values())


def test_every_kind_of_cpu_has_a_list() -> None:
    assert {one["kind"] for one in LISTS} == set(TABLE.cpus)


@pytest.mark.parametrize(
    ("kind", "count", "own"),
    [
        ("skylake_sp", 15, {"remote_hitm", "page_walk_cycles"}),
        ("ice_lake_sp", 15, {"remote_hitm", "page_walk_cycles"}),
        ("sapphire_rapids", 15, {"remote_hitm", "page_walk_cycles"}),
        ("granite_rapids", 15, {"remote_hitm", "page_walk_cycles"}),
        ("zen2", 9, {"remote_cache_fills"}),
        ("zen3", 9, {"remote_cache_fills", "local_dram_fills", "remote_dram_fills"}),
        (
            "zen4",
            9,
            {"remote_cache_fills", "local_dram_fills", "remote_dram_fills", "load_wait_cycles"},
        ),
        ("zen5", 9, {"remote_cache_fills", "local_dram_fills", "remote_dram_fills"}),
        ("arm", 7, {"remote_chip_accesses", "outer_refills", "memory_stall_cycles"}),
    ],
)
def test_how_many_of_the_papers_counters_a_cpu_has(kind: str, count: int, own: set[str]) -> None:
    """Those of the same meaning; counters of the maker's own meaning have names of their own."""
    checked = [
        counter.name
        for counter in TABLE.counters
        if counter.name in PAPER
        and (code := chosen(counter, kind)) is not None
        and (code.kind == "raw" or code.value in KERNEL["intel"])
    ]
    assert len(checked) == count
    assert {counter.name for counter in TABLE.extra if chosen(counter, kind)} == own


def test_no_event_has_two_names_on_one_cpu(table: CounterTable = TABLE) -> None:
    for kind in table.cpus:
        codes = [
            (code.value, code.offcore)
            for counter in (*table.counters, *table.extra)
            if (code := chosen(counter, kind)) is not None and code.kind == "raw"
        ]
        assert len(codes) == len(set(codes)), kind

"""The table of counters, what is made of it, and its raw codes against the makers' lists."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.counter_table import (
    MODELS,
    TABLE,
    Counter,
    CounterTable,
    CounterTableError,
    Encoding,
    read_table,
)
from pmoss_env.types import COUNTER_NAMES, COUNTERS, EXTRA_COUNTERS, CoTenant, Instance, Schedule

REPOSITORY = Path(__file__).resolve().parents[1]


def changed(tmp_path: Path, old: str, new: str) -> Path:
    lines = TABLE.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("#"))
    assert old in text
    path = tmp_path / "counters.toml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_the_native_module_was_built_from_this_table() -> None:
    assert _native.COUNTERS == COUNTER_NAMES
    kernel = {
        c.name: (c.event, c.event_unit, c.event_scale)
        for c in (*COUNTERS, *EXTRA_COUNTERS)
        if c.event
    }
    events = _native.probe_events()
    assert {e["counter"]: (e["name"], e["unit"], e["scale"]) for e in events} == kernel


def test_no_counter_has_moved() -> None:
    """Trained agents and stored observations rely on these positions: rows are only added."""
    assert COUNTER_NAMES[:21] == (
        *("queries", "elapsed_us", "task_clock_us", "context_switches", "page_faults"),
        *("cpu_migrations", "cycles", "instructions", "l1d_misses", "l1i_misses", "llc_misses"),
        *("branch_misses", "memory_misses", "dtlb_misses", "memory_accesses"),
        *("llc_write_misses", "memory_write_misses", "local_dram", "remote_dram"),
        *("cycles_l3_miss", "cycles_mem_any"),
    )


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "elapsed_us"', 'name = "queries"', "'queries': name 'queries' is there twice"),
        ('unit = "query"\n', "", "counter 'queries': unit: is missing"),
        ('unit = "query"\n', "unit = 1\n", "unit = 1: must be one line of text"),
        ('name = "queries"\n', "", "counter 1: name: is missing"),
        ('name = "queries"\n', 'name = "Queries"\n', "must be lower case letters, digits and _"),
        ('source = "runtime"', 'source = "magic"', "source = 'magic': unknown; known are runtime"),
        ("noise = 0.0045", "noise = -1", r"noise = -1: must be a number in \[0, 1\)"),
        ("noise = 0.0045\n", "", "noise: is missing"),
        ('meaning = "Queries', 'meanign = "Queries', "key = 'meanign': unknown"),
        ('vendor = "amd"', 'vendor = "via"', "cpus.zen2: vendor = 'via': unknown; known are intel"),
        ("[0x17]", "[-1]", "families and models: must be whole numbers"),
        ("[[0x30, 0xff]]", "[[0xff, 0x30]]", "models = .*: must be .FIRST, LAST. each"),
        ('source = "Intel perfmon, SKL 59"\n', "", "cpus.skylake: source: is missing"),
        (' event = "L1D_CACHE_REFILL",', "", "perf 5: event: is missing"),
        ("offcore = 0x3fbc000001", "offcore = -1", "raw = .*: must be a code of the CPUs"),
        ('"cpu_cycles" }', '"cpu_cycles", note = "x" }', "key = 'note': unknown"),
        ('on = ["arm"]', 'on = ["vax"]', "perf 5: on = 'vax': unknown; known are skylake"),
        ('on = ["arm"]', 'on = [["arm"]]', r"perf 5: on = \['arm'\]: unknown"),
        ('vendor = "arm"', 'vendor = "arm"\nfamilies = [1]', "of cpuid: Arm has none"),
        (', on = ["arm"] }', " }", "perf 5: on: is missing"),
        ("raw = 0x0031,", "raw = 0,", "raw = 0: must be a code"),
        ('hardware = "cpu_cycles"', 'hardware = "cycles"', "hardware = 'cycles': unknown"),
        ('cache = "l1d"', 'cache = "l9"', "perf 6: cache = 'l9': unknown; known are l1d"),
        ('"l1i", operation', '"l1d", operation', "'l1i_misses': perf: .* of 'l1d_misses', too"),
        ("raw = 0x020002a3", "raw = 0x100010a3", "'cycles_mem_any': .* of 'cycles_l3_miss', too"),
        ('software = "page_faults"', 'hardware = "instructions"', "does not fit source"),
        ("scale = 1e-3", 'scale = "milli"', "event: scale = 'milli': must be a number"),
        ("scale = 1e-3", "scale = -1", "event: scale = -1: must be positive"),
        ("scale = 1e-3", "scale = nan", "event: scale = nan: must be positive"),
        ("kernel_only = true", "kernel_only = 1", "kernel_only = 1: must be true or false"),
        ('[{ software = "page_faults" }]', "7", "perf = 7: must be a list"),
        ("[[counter]]", "[[counters]]", "the file: key = 'counters': unknown"),
        ("[[counter]]", "[[counter]", "cannot be read"),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(tmp_path, old, new, complaint):
    path = changed(tmp_path, old, new)
    with pytest.raises(CounterTableError, match=complaint) as error:
        read_table(path)
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def test_the_build_says_what_is_wrong_with_the_table(tmp_path: Path) -> None:
    path = changed(tmp_path, 'unit = "query"\n', "")
    generator = REPOSITORY / "native" / "counters" / "generate.py"
    done = subprocess.run(
        [sys.executable, "-I", generator, path, tmp_path / "counters"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"{path}: counter 'queries': unit: is missing\n"
    assert not (tmp_path / "counters").exists()


@pytest.mark.parametrize("model", MODELS)
def test_the_table_says_what_each_model_computes(model: str) -> None:
    """A busy core, a large index and remote data make every such counter count somewhere."""
    small = {"records": 1_000_000, "queries": 20_000} if model == "simulated" else {}
    backend = make_backend(model, machine="skylake-x-8n", workload="ycsb-a", slices=16, **small)
    cores = backend.machine.workers[:16]
    backend.set_instance(Instance(0, (CoTenant("busy_core", int(cores[0]), 0.5),)))
    nodes = np.zeros(16, dtype=np.int32)
    nodes[::2] = 1
    snapshot = backend.measure(Schedule(cores, nodes), seed=0)
    computed = [model in counter.models for counter in COUNTERS]
    assert snapshot.counters_available.tolist() == computed
    assert (snapshot.slice_counters.sum(axis=0) > 0).tolist() == computed


LISTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("event_lists.toml").read_text()
)["list"]
COUNTER_TABLE = read_table()
#: The supplier's bits in Intel's register of off-core responses.
SUPPLIERS = 0x7FFF0000
#: Events that the kernel itself encodes, as its sources of 6.x do.
KERNEL = {
    "intel": {"cpu_cycles": 0x3C, "instructions": 0xC0, "branch_misses": 0xC5},
    "amd": {"cpu_cycles": 0x76, "instructions": 0xC0, "branch_misses": 0xC3},
    "arm": {"cpu_cycles": 0x11, "instructions": 0x08, "branch_misses": 0x10},
}
PAPER = [counter.name for counter in COUNTER_TABLE.counters if counter.source == "hardware"]


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
    vendor = COUNTER_TABLE.cpus[kind].vendor
    checked = 0
    for counter in (*COUNTER_TABLE.counters, *COUNTER_TABLE.extra):
        for code in counter.perf:
            if code.kind != "raw" or kind not in code.on:
                continue
            if vendor == "arm" and code.event not in events:
                continue  # The core itself says which of Arm's common events it has.
            assert (code.value, code.offcore) == listed_code(code.event, events, vendor), code
            checked += 1
    assert checked >= 5


@pytest.mark.parametrize("kind", COUNTER_TABLE.cpus)
def test_the_kernels_own_codes_are_in_the_lists(kind: str) -> None:
    codes = {
        listed_code(name, one["events"], "intel")[0]
        for one in LISTS
        if one["kind"] == kind
        for name in one["events"]
    }
    assert codes >= set(KERNEL[COUNTER_TABLE.cpus[kind].vendor].values())


def test_every_kind_of_cpu_has_a_list() -> None:
    assert {one["kind"] for one in LISTS} == set(COUNTER_TABLE.cpus)


FILLS = {"remote_cache_fills", "local_dram_fills", "remote_dram_fills"}


@pytest.mark.parametrize(
    ("kind", "count", "own"),
    [
        ("skylake_sp", 15, {"remote_hitm", "page_walk_cycles"}),
        ("ice_lake_sp", 15, {"remote_hitm", "page_walk_cycles"}),
        ("sapphire_rapids", 15, {"remote_hitm", "page_walk_cycles"}),
        ("granite_rapids", 15, {"remote_hitm", "page_walk_cycles"}),
        ("zen2", 9, {"remote_cache_fills"}),
        ("zen3", 9, FILLS),
        ("zen4", 9, {*FILLS, "load_wait_cycles"}),
        ("zen5", 9, {*FILLS, "load_wait_cycles"}),
        ("arm", 7, {"remote_chip_accesses", "outer_refills", "memory_stall_cycles"}),
    ],
)
def test_how_many_of_the_papers_counters_a_cpu_has(kind: str, count: int, own: set[str]) -> None:
    """Those of the same meaning; counters of the maker's own meaning have names of their own."""
    checked = [
        counter.name
        for counter in COUNTER_TABLE.counters
        if counter.name in PAPER
        and (code := chosen(counter, kind)) is not None
        and (code.kind == "raw" or code.value in KERNEL["intel"])
    ]
    assert len(checked) == count
    assert {counter.name for counter in COUNTER_TABLE.extra if chosen(counter, kind)} == own


def test_no_event_has_two_names_on_one_cpu(table: CounterTable = COUNTER_TABLE) -> None:
    for kind in table.cpus:
        codes = [
            (code.value, code.offcore)
            for counter in (*table.counters, *table.extra)
            if (code := chosen(counter, kind)) is not None and code.kind == "raw"
        ]
        assert len(codes) == len(set(codes)), kind

"""The table of counters: what is refused, and that all that is made of it is up to date."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.counter_table import MODELS, TABLE, CounterTableError, read_table
from pmoss_env.types import COUNTER_NAMES, COUNTERS, EXTRA_COUNTERS, CoTenant, Instance, Schedule
from tests.sources import module_of

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


def test_the_reference_page_is_up_to_date() -> None:
    docs = REPOSITORY / "docs"
    generator = module_of("docs/generate_counters.py")
    assert (docs / "concepts" / "counters.md").read_text() == generator.page(read_table()), (
        "run: python docs/generate_counters.py"
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
        (
            '{ hardware = "cpu_cycles" }',
            '{ hardware = "cpu_cycles", note = "x" }',
            "key = 'note': unknown",
        ),
        ('on = ["arm"]', 'on = ["vax"]', "perf 5: on = 'vax': unknown; known are skylake"),
        ('on = ["arm"]', 'on = [["arm"]]', r"perf 5: on = \['arm'\]: unknown"),
        ('vendor = "arm"', 'vendor = "arm"\nfamilies = [1]', "of cpuid: Arm has none"),
        (', on = ["arm"] }', " }", "perf 5: on: is missing"),
        ("raw = 0x0031,", "raw = 0,", "raw = 0: must be a code"),
        ('hardware = "cpu_cycles"', 'hardware = "cycles"', "hardware = 'cycles': unknown"),
        ('cache = "l1d"', 'cache = "l9"', "perf 6: cache = 'l9': unknown; known are l1d"),
        (
            '"l1i", operation',
            '"l1d", operation',
            "'l1i_misses': perf: .* that of 'l1d_misses', too",
        ),
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
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


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

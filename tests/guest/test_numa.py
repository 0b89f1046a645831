"""The NUMA tests on four nodes: placement, migration under load, locality, import and export."""

import dataclasses
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.baselines import Context, make_baseline
from pmoss_env.machines import Machine
from pmoss_env.machines.host import describe_host
from pmoss_env.placement_export import Unit, export_placement, ranges, units_of
from pmoss_env.types import Schedule
from tests.guest.virtual_machine import (
    X86,
    Member,
    Outcome,
    Shape,
    need_guest,
    run_in_guest,
    with_libraries,
)
from tests.native.builds import build_native

SKIPPED_HERE = "[  SKIPPED ]"


@pytest.fixture(scope="module")
def build() -> Path:
    need_guest()
    return build_native("plain", "pmoss_guest_tests", "guest_init") / "tests"


def run_tests(build: Path, chosen: str, shape: Shape) -> Outcome:
    return run_in_guest(
        build / "guest_init",
        ["/program", "--gtest_color=no", f"--gtest_filter={chosen}"],
        {"program": Member.of(build / "pmoss_guest_tests")},
        shape=shape,
        environment={"PMOSS_STRESS_SECONDS": "4"},
    )


#: What needs several nodes, or shows how they are used.
NODES = "Guest.*:Numa*:BTreeMigration*:RTreeMigration*:ChunkPool*:ValuesOfEightBytes*:RunnerRTree*"
#: Each has a guest of its own: what other tests leave in a process is room on a full node, and no
#: guest takes too long on a busy host.
ALONE = ("GuestFaults*", "RunnerPlacement*", "*/LargeValues*")


@pytest.fixture(scope="module")
def guest(build: Path) -> Outcome:
    return run_tests(build, NODES, Shape())


def passed(outcome: Outcome) -> None:
    assert outcome.status == 0, outcome.console[-6000:]
    assert "[  PASSED  ]" in outcome.console
    # What is skipped on one node must have run here.
    assert SKIPPED_HERE not in outcome.console, outcome.console[-6000:]


def test_the_numa_tests_pass_on_four_nodes(guest: Outcome) -> None:
    passed(guest)


@pytest.mark.parametrize("chosen", ALONE)
def test_placement_and_faults_pass_on_four_nodes(build: Path, chosen: str) -> None:
    passed(run_tests(build, chosen, Shape()))


def test_a_node_without_memory_is_known_for_one(build: Path) -> None:
    outcome = run_tests(build, "GuestWithoutMemory*", Shape(memoryless=2))
    assert outcome.status == 0, outcome.console[-6000:]
    assert "[  PASSED  ] 1 test" in outcome.console
    assert SKIPPED_HERE not in outcome.console


@pytest.fixture(scope="module")
def machine(guest: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """As the guest's files describe it."""
    folder = tmp_path_factory.mktemp("files")
    files = re.findall(r"^FILE (\S+) (.*)$", guest.console, re.MULTILINE)
    assert files
    for path, text in files:
        file = folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("\t", "\n") + "\n")
    return describe_host(str(folder))


def test_a_machine_is_described_from_the_guests_files(machine: Machine) -> None:
    assert machine.nodes == 4
    assert machine.cpu_of_core.tolist() == list(range(8))
    np.testing.assert_array_equal(machine.node_of_core, np.arange(8) // 2)
    assert machine.role_of_core == ("worker",) * 8


#: What applies an export in the guest.
PROGRAMS = ("sh", "mkdir", "numactl")
SLICES = 16


def schedules_of(machine: Machine) -> Iterator[tuple[str, Schedule]]:
    for rule in ("grouped", "os-default", "os-interleave"):
        yield rule, make_baseline(rule, shared=True)(Context(machine, SLICES))
    local = make_baseline("grouped")(Context(machine, SLICES))
    yield "away", Schedule(local.cores, (local.nodes + 1) % machine.nodes)


def applied(unit: Unit, memory: str, words: str) -> str:
    """A line of a shell that lets the guest's test judge what a command does in a unit."""
    environment = f"PMOSS_UNIT_CPUS={ranges(unit.cpus)} PMOSS_UNIT_NODES={ranges(unit.nodes)}"
    return f"{environment} PMOSS_UNIT_MEMORY={memory} {words}\n"


def test_exported_placements_hold_in_the_guest(
    build: Path, machine: Machine, tmp_path: Path
) -> None:
    paths = {name: shutil.which(name) for name in PROGRAMS}
    if None in paths.values():
        missing = f"{paths} must be there: apt-get install numactl"
        pytest.fail(missing) if os.environ.get(X86.required) == "1" else pytest.skip(missing)
    files = {"program": Member.of(build / "pmoss_guest_tests")}
    for path in map(Path, filter(None, paths.values())):
        files |= {
            **with_libraries(path),
            str(path).lstrip("/"): Member(path.read_bytes(), 0o100755),
        }
    # The numbers of CPUs and nodes are the guest's, not this host's.
    described = dataclasses.replace(machine, name="guest")
    program = "/program --gtest_color=no --gtest_brief=1 --gtest_filter=GuestUnit*"
    driver, count = "set -e\n", 0
    for rule, schedule in schedules_of(described):
        units = units_of(described, schedule)
        count += 2 * len(units)
        for mechanism in ("numactl", "cgroup"):
            (script,) = export_placement(mechanism, described, schedule, tmp_path, rule)
            name = f"{mechanism}/{script.name}"
            files[name] = Member(script.read_bytes())
            driver += f"sh /{name}\n" if mechanism == "cgroup" else ""
            for unit in units:
                if mechanism == "numactl":
                    driver += applied(unit, unit.memory, f"sh /{name} {unit.name} {program}")
                else:
                    enter = f"echo $$ >/sys/fs/cgroup/{rule}/{unit.name}/cgroup.procs"
                    inside = shlex.quote(f"{enter}; exec {program}")
                    driver += applied(unit, "cgroup", f"sh -c {inside}")
        (manifest,) = export_placement("kubernetes", described, schedule, tmp_path, rule)
        # What the containers run, which is all that places them.
        for unit, pod in zip(units, json.loads(manifest.read_text())["items"], strict=True):
            *words, _ = pod["spec"]["containers"][0]["command"]
            driver += applied(unit, unit.memory, f"{shlex.join(words)} {program}")
            count += 1
    files["driver"] = Member(driver.encode())
    outcome = run_in_guest(
        build / "guest_init",
        ["/bin/sh", "/driver"],
        {**files, "bin/sh": files[str(paths["sh"]).lstrip("/")]},
        environment={"PATH": ":".join({str(Path(path or "").parent) for path in paths.values()})},
    )
    passed(outcome)
    assert outcome.console.count("[  PASSED  ] 1 test.") == count, outcome.console[-6000:]

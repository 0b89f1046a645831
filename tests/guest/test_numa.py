"""The NUMA tests on four nodes: placement, interleaving, migration under load, locality, import."""

import re
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.machines.host import describe_host
from tests.guest.virtual_machine import Member, Outcome, Shape, need_guest, run_in_guest
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


#: Each has a guest of its own: what other tests leave in a process is room on a full node.
ALONE = ("GuestFaults*", "RunnerPlacement*")


@pytest.fixture(scope="module")
def guest(build: Path) -> Outcome:
    return run_tests(build, ":".join(["-GuestWithoutMemory*", "GuestCounting*", *ALONE]), Shape())


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


def test_a_machine_is_described_from_the_guests_files(guest: Outcome, tmp_path: Path) -> None:
    files = re.findall(r"^FILE (\S+) (.*)$", guest.console, re.MULTILINE)
    assert files
    for path, text in files:
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("\t", "\n") + "\n")
    machine = describe_host(str(tmp_path))
    assert machine.nodes == 4
    assert machine.cpu_of_core.tolist() == list(range(8))
    np.testing.assert_array_equal(machine.node_of_core, np.arange(8) // 2)
    assert machine.role_of_core == ("worker",) * 8

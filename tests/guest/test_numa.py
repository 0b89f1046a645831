"""The NUMA tests on four nodes: placement, interleaving, migration under load, locality, import."""

import re
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.machines.host import describe_host
from tests.guest.virtual_machine import Member, Outcome, need_guest, run_in_guest
from tests.native.builds import build_native

SKIPPED_HERE = "[  SKIPPED ]"


@pytest.fixture(scope="module")
def guest() -> Outcome:
    need_guest()
    build = build_native("plain", "pmoss_guest_tests", "guest_init") / "tests"
    return run_in_guest(
        build / "guest_init",
        ["/program", "--gtest_color=no"],
        {"program": Member.of(build / "pmoss_guest_tests")},
        environment={"PMOSS_STRESS_SECONDS": "4"},
    )


def test_the_numa_tests_pass_on_four_nodes(guest: Outcome) -> None:
    assert guest.status == 0, guest.console[-6000:]
    assert "[  PASSED  ]" in guest.console
    # What is skipped on one node must have run here.
    assert SKIPPED_HERE not in guest.console, guest.console[-6000:]


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

"""An Arm guest whose processor counts events: the counters, and the native code on four nodes.

The emulator lets one nanosecond pass with every instruction, so that counts are exact and nothing
depends on this host's time.
"""

import pytest

from tests.guest.test_numa import ALONE, NODES, SKIPPED_HERE
from tests.guest.virtual_machine import (
    ARM,
    ARM_16K,
    Architecture,
    Member,
    Outcome,
    Shape,
    need_guest,
    run_in_guest,
)
from tests.native.builds import build_arm, need_compiler

#: Tests that need no second node and know their processor.
ONE_NODE = (
    "*Zipf*:*Random*:Machine*:LinkRoutes*:CorePmus*:Counters*:Probe*:Offcore*:Scan*:*Copy*:Dsa*:"
    "Clock*:Window*:BTree.*:Topology*"
)


def run_tests(
    program: str, chosen: str, architecture: Architecture, shape: Shape, options: str
) -> Outcome:
    """Runs a test program in the Arm guest; all that were chosen must have run and passed."""
    need_guest(architecture)
    need_compiler("aarch64-linux-gnu-g++")
    build = build_arm(program, "guest_init") / "tests"
    outcome = run_in_guest(
        build / "guest_init",
        ["/program", "--gtest_color=no", f"--gtest_filter={chosen}"],
        {"program": Member.of(build / program)},
        architecture=architecture,
        shape=shape,
        environment={"PMOSS_GUEST_PMU": "1", "PMOSS_STRESS_SECONDS": "2"},
        kernel_options=options,
        timeout=3600,
    )
    assert outcome.status == 0, outcome.console[-6000:]
    assert "[  PASSED  ]" in outcome.console
    return outcome


def count_with(architecture: Architecture) -> None:
    # With one CPU online no other one's instructions are counted.
    outcome = run_tests("pmoss_pmu_guest_tests", "*", architecture, Shape(), "maxcpus=1")
    assert SKIPPED_HERE not in outcome.console, outcome.console[-6000:]


def test_counters_count_on_a_processor_that_has_them() -> None:
    count_with(ARM)


@pytest.mark.heavy
def test_counters_count_with_larger_pages() -> None:
    count_with(ARM_16K)


@pytest.mark.heavy
@pytest.mark.parametrize("architecture", [ARM, ARM_16K], ids=["4k", "16k"])
def test_index_migration_and_runtime_work_on_four_nodes(architecture: Architecture) -> None:
    chosen = ":".join([NODES, *ALONE, "GuestCounting*"])
    outcome = run_tests(
        "pmoss_guest_tests", chosen, architecture, Shape(), "numa_balancing=disable"
    )
    assert SKIPPED_HERE not in outcome.console, outcome.console[-6000:]


@pytest.mark.heavy
def test_native_tests_pass_on_arm() -> None:
    shape = Shape(mib_per_node=1024)
    run_tests("pmoss_tests", ONE_NODE, ARM, shape, "numa_balancing=disable")

"""The hardware environment on four nodes: an episode, rollouts, the autopilot and an export."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.guest.guest_python import guest_python
from tests.guest.virtual_machine import Member, Shape, need_guest, run_in_guest
from tests.native.builds import build_native

#: The guest runs Python for minutes.
pytestmark = pytest.mark.heavy

PROGRAM = Path(__file__).with_name("serve_index.py")
POLICIES = ("lpt", "random", "os-default")


def serve(init: Path) -> dict[str, dict[str, Any]]:
    """The results of the program in the guest, by name."""
    python = guest_python(
        "numpy.ma",
        "pmoss_agents.autopilot.loop",
        "pmoss_agents.autopilot.page",
        "pmoss_agents.cli.autopilot",
        "pmoss_agents.cli.rollout",
        "pmoss_agents.policies",
        "pmoss_agents.rollouts",
        "pmoss_datasets.continual.domain",
        "pmoss_datasets.spatial.domain",
        "pmoss_env.backends.hardware",
        "pmoss_env.backends.isolated",
        "pmoss_env.backends.isolated_live",
        "pmoss_env.placement_export",
    )
    outcome = run_in_guest(
        init,
        [python.interpreter, "/program.py"],
        {**python.files, "program.py": Member(PROGRAM.read_bytes())},
        # The files lie in its memory.
        shape=Shape(mib_per_node=768),
        environment=python.environment,
        timeout=1200,
    )
    assert outcome.status == 0, outcome.console[-6000:]
    lines = re.findall(r"^RESULT (.*)$", outcome.console, re.MULTILINE)
    return {entry.pop("name"): entry for entry in map(json.loads, lines)}


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    need_guest()
    return serve(build_native("plain", "guest_init") / "tests" / "guest_init")


def test_data_lie_on_the_nodes_of_the_schedule(results: Any) -> None:
    assert results["host"] == {"nodes": 4, "workers": 8}
    for turn in (0, 1):
        placed = results[f"placed-{turn}"]
        assert placed["nodes"] == [(slice_ + turn) % 4 for slice_ in range(8)]
        assert placed["throughput"] > 0.0
        assert placed["data"]["in_place"] and placed["data"]["home_share"] == 1.0
        assert placed["data"]["queues_home_share"] == 1.0


def test_an_episode_ends_with_a_measurement(results: Any) -> None:
    assert results["episode"]["steps"] == 8


@pytest.mark.parametrize("policy", POLICIES)
def test_a_rollout_is_undone(results: Any, policy: str) -> None:
    # How fast it serves again is the host's affair; that it serves the old schedule is not.
    assert results[f"rollout-{policy}"]["restored"]["mq_per_s"] > 0.0


def test_placements_are_exported(results: Any) -> None:
    switched = ("os-default-autonuma-off", "os-default-autonuma-on")
    assert results["export"]["files"] == sorted(f"{name}.sh" for name in (*POLICIES, *switched))


def test_the_autopilot_serves_three_epochs(results: Any) -> None:
    assert results["autopilot"]["rows"] == 1 + 3

"""The threads of a live process on four nodes: migrated to their data by affinity, and restored."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.guest.guest_python import guest_python
from tests.guest.virtual_machine import Member, Shape, need_guest, run_in_guest
from tests.native.builds import build_native

#: The guest runs Python for two minutes.
pytestmark = pytest.mark.heavy

PROGRAM = Path(__file__).with_name("migrate_threads.py")
PATTERNS = ("readrandom", "readseq", "fillrandom", "fillseq")
NEAR = [4, 5]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    need_guest()
    python = guest_python(
        "numpy.ma",
        "pmoss_agents.threads.bandits",
        "pmoss_agents.cli.threads",
        "pmoss_agents.registry",
        "pmoss_env.envs.threads.key_value_load",
        "pmoss_env.envs.threads.live.process",
        # The load imports it when it runs.
        "resource",
    )
    outcome = run_in_guest(
        build_native("plain", "guest_init") / "tests" / "guest_init",
        [python.interpreter, "/program.py"],
        {**python.files, "program.py": Member(PROGRAM.read_bytes())},
        # The files lie in its memory.
        shape=Shape(mib_per_node=512),
        environment=python.environment,
    )
    assert outcome.status == 0, outcome.console[-6000:]
    lines = re.findall(r"^RESULT (.*)$", outcome.console, re.MULTILINE)
    return {entry.pop("name"): entry for entry in map(json.loads, lines)}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_threads_go_to_the_node_of_their_data(results: Any, pattern: str) -> None:
    result = results[f"migrate-{pattern}"]
    # 100 values of 100 kB.
    assert result["pages"] == {"2": -(-100 * 100_000 // 4096)}
    assert result["near"] == NEAR
    assert result["processor_seconds"] > 0.0
    # The kernel had spread them.
    assert not set(result["first"]) <= set(NEAR)
    assert result["moves"] >= 1
    assert all(mask[0] in NEAR for mask in result["pinned"])
    assert results[f"restore-{pattern}"]["same"]


@pytest.mark.parametrize("pattern", ["readrandom", "readseq", "fillrandom"])
def test_the_rule_and_the_hybrid_leave_none_away_from_its_data(results: Any, pattern: str) -> None:
    result = results[f"migrate-{pattern}"]
    assert set(result["last"]) <= set(NEAR)
    assert result["unbalanced"] == 0


def test_a_dry_run_decides_and_changes_nothing(results: Any) -> None:
    assert results["dry-run"]["intended"] >= 1
    assert results["dry-run"]["moves"] == 0
    assert results["dry-run"]["same"]


def test_the_rate_limit_holds(results: Any) -> None:
    assert results["rate-limit"] == {
        "moved": [True, False, False],
        "refused": {"more moves than the rate limit allows": 2},
    }


def test_a_cpu_goes_offline_under_a_pinned_thread(results: Any) -> None:
    result = results["offline"]
    assert result["moved"] == [True, False, True]
    assert result["why"] == {"CPU 4 is offline": 1}
    # The kernel lets no thread starve: it breaks the pin itself.
    assert result["without"] == [0, 1, 2, 3, 5, 6, 7]
    assert result["same"]
    # Restored while it is offline: pinned no more.
    result = results["restored-offline"]
    assert result["moved"] == [True, True]
    assert all(mask == [0, 1, 2, 3, 5, 6, 7] for mask in result["masks"])


def test_a_cpu_that_was_offline_at_first_is_not_forbidden_later(results: Any) -> None:
    assert results["offline-at-first"] == {"moved": [True, True], "same": True}


def test_another_users_process_is_refused(results: Any) -> None:
    assert "must be yours, or run as root" in results["no-permission"]["error"]


def test_affinity_comes_back_when_the_tool_is_killed(results: Any) -> None:
    result = results["killed"]
    assert len(result["pinned"]) == result["threads"]
    assert result["same"]


def test_the_command_line_migrates_and_restores(results: Any) -> None:
    assert results["command-line"]["moved"] >= 1
    assert results["command-line"]["same"]

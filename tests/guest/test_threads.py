"""The threads of a live process on four nodes: migrated to their data by affinity, and restored."""

from typing import Any

import pytest

from tests.guest.guest_python import results_of

#: The guest runs Python for two minutes.
pytestmark = pytest.mark.heavy

PATTERNS = ("readseq", "fillrandom")
NEAR = [4, 5]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    modules = (
        *("numpy.ma", "pmoss_agents.threads.bandits", "pmoss_agents.registry"),
        *("pmoss_env.envs.threads.key_value_load", "pmoss_env.envs.threads.live.process"),
    )
    return results_of("migrate_threads.py", *modules, mib_per_node=512)


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
    assert set(result["last"]) <= set(NEAR) and result["unbalanced"] == 0
    assert all(mask[0] in NEAR for mask in result["pinned"])
    assert results[f"restore-{pattern}"]["same"]


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

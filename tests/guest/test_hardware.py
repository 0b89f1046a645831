"""The hardware environment on four nodes: placed data, and rollouts that are undone."""

from typing import Any

import pytest

from tests.guest.guest_python import results_of

#: Minutes of a guest.
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    modules = (
        *("numpy.ma", "pmoss_agents.cli.rollout", "pmoss_agents.policies"),
        *("pmoss_agents.rollouts", "pmoss_datasets.spatial.domain"),
        *("pmoss_env.backends.hardware", "pmoss_env.backends.isolated"),
    )
    return results_of("serve_index.py", *modules, mib_per_node=768)


def test_data_lie_on_the_nodes_of_the_schedule(results: Any) -> None:
    assert results["host"] == {"nodes": 4, "workers": 8}
    for turn in (0, 1):
        placed = results[f"placed-{turn}"]
        assert placed["nodes"] == [(slice_ + turn) % 4 for slice_ in range(8)]
        assert placed["throughput"] > 0.0
        assert placed["data"]["in_place"] and placed["data"]["home_share"] == 1.0
        assert placed["data"]["queues_home_share"] == 1.0


@pytest.mark.parametrize("policy", ("random", "os-default"))
def test_a_rollout_is_undone(results: Any, policy: str) -> None:
    # How fast it serves again is the host's affair; that it serves the old schedule is not.
    assert results[f"rollout-{policy}"]["restored"]["mq_per_s"] > 0.0

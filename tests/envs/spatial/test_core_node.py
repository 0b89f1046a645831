"""Actions that choose the node of the data, and memory that is full."""

import numpy as np
import pytest

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError
from pmoss_env.types import Schedule
from tests.envs.episodes import TOY

#: One node holds the data of one slice, the other of seven.
FULL = {"node_memory_gib": [0.1, 0.6]}


def test_an_action_puts_core_and_data_apart():
    env = SpatialSchedulingEnv(**TOY, actions="core_node", observation="complete")
    observation, info = env.reset(seed=3)
    nodes = env.machine.nodes
    assert env.action_space.n == env.machine.tiles * nodes
    assert observation["node_room"].tolist() == [1.0, 1.0]
    tile = int(env.machine.tile_of_core[env.machine.workers[0]])
    observation, _, _, _, info = env.step(tile * nodes + 1)
    assert (info["tile"], info["node"]) == (tile, 1)
    assert env.schedule.nodes[0] == 1 != env.machine.node_of_core[env.schedule.cores[0]]
    assert observation["slice_nodes"][0] == 1
    assert np.array_equal(observation["node_view"][1], observation["slice_counters"][0])
    assert not observation["node_view"][0].any()
    assert np.array_equal(observation["incumbent_nodes"], env.incumbent.nodes)


def test_schedules_that_overfill_are_refused():
    env = SpatialSchedulingEnv(**TOY, actions="core_node", constraints=FULL)
    cores = np.full(8, env.machine.workers[0])
    with pytest.raises(ScheduleError, match="8 slices on node 0 of toy, whose memory holds 1"):
        env.reset(seed=1, options={"incumbent": Schedule(cores, np.zeros(8, np.int32))})
    # Only cores were given: what has no room spills.
    env.reset(seed=1, options={"incumbent": cores})
    assert np.bincount(env.incumbent.nodes).tolist() == [1, 7]


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"actions": "node"}, UnknownNameError, "actions"),
        ({"constraints": {"node_memory_gib": 0.01}}, ScheduleError, "hold 0 of 8 slices"),
        ({"constraints": {"node_memory_gib": [1.0]}}, ScheduleError, "one for each of the 2"),
        ({"constraints": {"node_memory_gib": -1}}, ScheduleError, "a number of GiB"),
        ({"constraints": {"node_memory_gib": "much"}}, ScheduleError, "a number of GiB"),
        ({"constraints": {"memory": 1}}, UnknownNameError, "memory"),
        ({"constraints": 3}, DescriptionError, "constraints"),
    ],
)
def test_impossible_values(changed, error, text):
    with pytest.raises(error, match=text):
        SpatialSchedulingEnv(**{**TOY, "actions": "core_node", **changed})


def test_cores_of_nodes_without_room_are_no_use_without_a_choice():
    arguments = {"constraints": {"max_slices_per_core": 2, "node_memory_gib": [0.05, 1.0]}}
    with pytest.raises(ScheduleError, match="use actions='core_node'"):
        SpatialSchedulingEnv(**TOY, **arguments)
    SpatialSchedulingEnv(**TOY, **arguments, actions="core_node")

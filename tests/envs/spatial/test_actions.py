"""What is no legal tile, what an episode's end allows, and actions that choose a node."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, IllegalActionError, ScheduleError, UnknownNameError
from pmoss_env.types import Schedule
from tests.envs.episodes import TOY, play


@pytest.mark.parametrize("constraints", [None, {"max_slices_per_core": 2}])
def test_the_three_masks_agree_at_every_step(constraints):
    env = SpatialSchedulingEnv(**TOY, constraints=constraints)
    assert np.array_equal(env.action_masks(), env.machine.worker_tiles)
    env.reset(seed=0)
    counts = np.zeros(8, dtype=int)
    for step in play(env):
        if step.info["tile"] >= 0:
            counts[step.info["tile"]] += 1
        mask = step.info["action_mask"]
        assert mask.dtype == np.int8 and mask.shape == (8,)
        assert np.array_equal(step.observation["position_mask"].ravel(), mask)
        limit = np.inf if constraints is None else 2
        assert np.array_equal(mask, env.machine.worker_tiles & (counts < limit))
    assert env.action_masks().dtype == np.bool_
    assert counts.sum() == 8


def test_an_illegal_action_goes_to_the_nearest_legal_tile():
    env = SpatialSchedulingEnv(
        machine="skylake-x-8n", slices=56, constraints={"max_slices_per_core": 1}
    )
    env.reset(seed=0)
    # Node n is row n, tile 12 n + local; workers are locals 3 to 9; two nodes make a socket.
    expected = {0: 3, 11: 9, 1: 4, 10: 8, 2: 5, 12 * 3: 12 * 3 + 3}
    for action, tile in expected.items():
        _, _, _, _, info = env.step(action)
        assert info["tile"] == tile, action
    assert info["illegal_actions"] == len(expected)
    # With node 0 full, the other node of the socket is next; with both full, another socket.
    for tile in (6, 7):
        env.step(tile)
    _, _, _, _, info = env.step(5)
    assert info["tile"] == 12 + 5
    for tile in (3, 4, 6, 7, 8, 9):
        env.step(12 + tile)
    _, _, _, _, info = env.step(5)
    assert info["tile"] == 24 + 5
    assert env.schedule.cores[info["slice"] - 1] == 24 + 5
    # Rows 1 and 3 are as near to row 2, but row 3 is on its socket.
    env.reset(seed=0)
    for tile in range(3, 10):
        env.step(24 + tile)
    _, _, _, _, info = env.step(24 + 5)
    assert info["tile"] == 36 + 5
    # Two tiles away on its socket comes before one tile away on another.
    _, _, _, _, info = env.step(24 + 5)
    assert info["tile"] == 36 + 4


def test_terminate_ends_the_episode_where_it_stands():
    env = SpatialSchedulingEnv(**TOY, on_illegal="terminate", reward="terminal")
    env.reset(seed=0)
    _, reward, terminated, _, before = env.step(1)
    assert not terminated
    observation, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["illegal_actions"] == 1 and info["slice"] == before["slice"] == 1
    assert info["throughput"] == before["throughput"] == env.final_snapshot().throughput
    assert info["slice_throughput"].sum() == pytest.approx(info["throughput"])
    assert env.observation_space.contains(observation)
    with pytest.raises(ResetNeeded):
        env.step(1)


def test_raise_names_the_action_and_leaves_the_episode_as_it_was():
    env = SpatialSchedulingEnv(**TOY, on_illegal="raise")
    env.reset(seed=0)
    with pytest.raises(IllegalActionError, match="action 4"):
        env.step(4)
    assert [env.step(1)[2] for _ in range(8)] == [False] * 7 + [True]


@pytest.mark.parametrize("on_illegal", ["remap", "terminate", "raise"])
def test_what_is_no_tile_is_always_an_error(on_illegal):
    env = SpatialSchedulingEnv(**TOY, on_illegal=on_illegal)
    env.reset(seed=0)
    for action in (-1, 8, 1.5, None, "1", np.array([1, 2])):
        with pytest.raises(IllegalActionError):
            env.step(action)
    assert env.step(np.int64(1))[4]["tile"] == 1


def test_what_needs_an_episode_says_so():
    env = SpatialSchedulingEnv(**TOY, render_mode="ansi")
    for ask in (
        lambda: env.step(1),
        lambda: env.schedule,
        lambda: env.incumbent,
        lambda: env.incumbent_snapshot,
        lambda: env.instance,
        env.final_snapshot,
        env.render,
        env.session.new_backend,
    ):
        with pytest.raises(ResetNeeded):
            ask()
    env.reset(seed=0)
    with pytest.raises(ScheduleError, match="0 of 8"):
        env.final_snapshot()


def test_masked_actions_of_a_vector_are_said_once(recwarn):
    envs = gymnasium.make_vec("pmoss/toy-v0", num_envs=2)
    envs.reset(seed=0)
    for _ in range(3 * (envs.get_attr("slices")[0] + 1)):
        envs.step(np.zeros(2, dtype=np.int64))
    said = [str(one.message) for one in recwarn if "the mask forbids" in str(one.message)]
    assert len(said) == 1 and "sub-environment 0" in said[0]


def test_the_first_masked_action_of_an_environment_is_said_once(recwarn):
    env = SpatialSchedulingEnv(**TOY)
    _, info = env.reset(seed=0)
    masked = int(np.flatnonzero(info["action_mask"] == 0)[0])
    for _ in range(3):
        env.step(masked)
    said = [str(one.message) for one in recwarn if "the mask forbids" in str(one.message)]
    assert len(said) == 1
    assert f"action {masked}" in said[0]


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

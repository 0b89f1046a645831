"""How much memory slices take, and where they go when a node is full."""

import numpy as np
import pytest

from pmoss_env.context import Context
from pmoss_env.errors import DescriptionError, ScheduleError
from pmoss_env.files import read_toml
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.memory import memory_gib, nearest_nodes, relocated, slice_gib, slices_of_node
from pmoss_env.types import Schedule
from pmoss_env.workloads import load_workload

SKX = load_machine("skylake-x-8n")


def test_memory_is_the_parameter_or_derived_from_channels():
    data = read_toml(PRESETS / "toy.toml", dict)
    derived = load_machine("toy")
    assert set(derived.node_memory_gib) == {derived.memory_channels_per_node * 16.0 or np.inf}
    entry = {"value": [1.0, 2.0], "unit": "GiB", "source": "a test", "confidence": "high"}
    data["parameters"]["node_memory_gib"] = entry
    assert Machine.from_dict(data).node_memory_gib.tolist() == [1.0, 2.0]
    entry["value"] = [1.0]
    with pytest.raises(DescriptionError, match="node_memory_gib"):
        Machine.from_dict(data)


def test_the_constraint_stands_for_the_machines_memory():
    assert memory_gib(SKX, {"node_memory_gib": 2}) == [2.0] * 8
    assert memory_gib(SKX, None) == SKX.node_memory_gib.tolist()
    workload = load_workload("ycsb-a")
    assert slices_of_node(SKX, workload, 256, None) is None
    size = slice_gib(workload, 256)
    room = slices_of_node(SKX, workload, 256, {"node_memory_gib": [3 * size] + [40 * size] * 7})
    assert room.tolist() == [3] + [40] * 7
    with pytest.raises(ScheduleError, match="give at least"):
        slices_of_node(SKX, workload, 256, {"node_memory_gib": 31 * size})


def test_the_nearest_node_is_ones_own_then_that_of_the_socket():
    near = nearest_nodes(SKX)
    assert near[:, 0].tolist() == list(range(8))
    assert near[:, 1].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_slices_move_where_their_data_must_be_local():
    cores = SKX.workers[np.zeros(4, dtype=np.int64)]
    room = np.array([1, 0, 0, 2, 0, 0, 0, 1], dtype=np.int32)
    load = np.array([1.0, 4.0, 2.0, 3.0])
    schedule = relocated(SKX, cores, room, load)
    assert schedule.cores[1] == cores[1], "the heaviest one stays"
    assert np.array_equal(schedule.nodes, SKX.node_of_core[schedule.cores])
    assert np.bincount(schedule.nodes, minlength=8).tolist() == room.tolist()
    with pytest.raises(ScheduleError, match="actions='core_node'"):
        relocated(SKX, cores, np.array([1, 0, 0, 2, 0, 0, 0, 0], np.int32), load)


def test_a_context_knows_what_an_episode_allows():
    cores = SKX.workers[:8]
    room = np.array([3, 5, 0, 0, 0, 0, 0, 0], dtype=np.int32)
    free = Context(SKX, 8, slices_of_node=room, chooses_node=True)
    local = Context(SKX, 8, slices_of_node=room)
    assert free.allows(free.local_schedule(cores)) and local.allows(local.local_schedule(cores))
    assert not local.allows(free.local_schedule(cores))
    assert not free.allows(SKX.local_schedule(cores))
    few = Context(SKX, 8, max_slices_per_core=1)
    assert not few.allows(Schedule(cores[[0] * 8], SKX.node_of_core[cores[[0] * 8]]))

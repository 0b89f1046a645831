"""The migration model: closed forms, and what moves leave behind."""

import numpy as np

from pmoss_env.backends.native_forms import native_machine
from pmoss_env.envs.continual.drift import Conditions, Demand
from pmoss_env.envs.continual.running import Migration, RunningIndex
from pmoss_env.machines import load_machine
from pmoss_env.types import CoTenant, LoadRegime
from pmoss_env.workloads import load_workload

SLICES = 8
QUIET = Conditions()


def running(record_bytes=1000.0, change=lambda native: None, load="closed", **limits):
    machine = load_machine("toy")
    native = native_machine(machine)
    change(native)
    index = RunningIndex(
        machine,
        native,
        [load_workload("ycsb-a")],
        SLICES,
        LoadRegime.parse(load),
        Migration(record_bytes, **limits),
    )
    cores = machine.workers[np.arange(SLICES) % 3]  # all on the first node
    assert len(set(machine.node_of_core[cores])) == 1
    index.begin(1, QUIET, cores)
    return index


def other_core(index):
    machine = index.machine
    home = machine.node_of_core[index.cores[0]]
    return int(next(c for c in machine.workers if machine.node_of_core[c] != home))


def test_a_copy_by_which_nothing_moves_changes_no_bit():
    index, other = running(), running()
    other.move(0, other_core(other))
    other.run(QUIET, 100.0)
    other.move(0, int(index.cores[0]))
    other.run(QUIET, 100.0)
    assert other.run(QUIET, 1.0).queries == index.run(QUIET, 1.0).queries


def test_an_epoch_without_moves_is_what_the_model_says():
    index = running()
    epoch = index.run(QUIET, 2.0)
    nodes = index.machine.node_of_core[index.cores]
    assert epoch.queries == 2.0 * index.model.place(index.cores, nodes)
    assert epoch.within == epoch.queries and epoch.moved_bytes == 0.0


def test_an_instance_that_begins_again_is_as_one_that_begins():
    busy = Conditions((CoTenant("memory_stream", 0, 0.7),), Demand(shift=2))
    index, cores = running(), load_machine("toy").workers[np.arange(SLICES) % 4]
    index.move(0, other_core(index))
    index.run(busy, 0.001)  # its data are still under way
    index.begin(1, busy, cores)
    fresh = running()
    fresh.begin(2, QUIET, cores)  # another instance, so that the profiles are taken anew
    fresh.begin(1, busy, cores)
    assert index.copies == 0
    epoch, expected = index.run(busy, 1.0), fresh.run(busy, 1.0)
    assert epoch.queries == expected.queries and epoch.pieces == expected.pieces
    np.testing.assert_array_equal(epoch.snapshot.slice_counters, expected.snapshot.slice_counters)

"""Continual scheduling on the simulated server, and the model of migration."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.envs.continual.drift import Conditions, Demand
from pmoss_env.envs.continual.running import Migration, RunningIndex
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import CoTenant, Instance, LoadRegime
from pmoss_env.workloads import load_workload
from tests.envs.episodes import bits, play

SAMPLE = {"queries": 20_000, "records": 20_000}
SERVED = {
    "machine": "toy",
    "slices": 8,
    "backend": "simulated",
    "backend_options": SAMPLE,
    "drift": "busy-cores",
    "drift_options": {"lifetime": 2.0},
    "epochs": 3,
    "moves_per_epoch": 2,
    "noise": 1.0,
    "workload_seed": 1,
}


def make(**options):
    return ContinualSchedulingEnv(**{**SERVED, **options})


def run(env, *moves):
    """The steps that end an epoch; the moves are made before the first one."""
    steps = play(env, 0, [*moves, *[[env.slices, 0]] * 3])
    return steps[1 + len(moves) :]


def test_episodes_repeat_to_the_bit_and_differ_by_seed():
    assert bits(play(make(), 3)) == bits(play(make(), 3)) != bits(play(make(), 4))
    check_env(make(), skip_render_check=True)


def test_where_nothing_moves_an_epoch_serves_what_the_backend_measures():
    env = make(drift="none", drift_options=None, noise=0.0)
    epochs = run(env)
    backend = make_backend("simulated", machine="toy", workload="ycsb-a", slices=8, **SAMPLE)
    backend.set_instance(Instance(workload_seed=1))
    schedule = env.machine.local_schedule(env.session.cores_seen)
    expected = backend.measure(schedule, seed=0)
    assert [epoch.reward for epoch in epochs] == [expected.throughput] * 3
    np.testing.assert_array_equal(env.session.snapshot.slice_counters, expected.slice_counters)
    assert env.session.index.native is not None and epochs[-1].info["moved_gb"] == 0.0


def test_what_moves_is_served_from_afar_until_its_data_arrive():
    env = make(drift="none", drift_options=None, noise=0.0, incumbent="grouped", copy_gb_per_s=1e-3)
    env.reset(seed=0)
    home = env.session.index.nodes[0]
    far = next(c for c in env.machine.workers if env.machine.node_of_core[c] != home)
    tile = int(env.machine.tile_of_core[far])
    bytes_ = 20_000 * 1000 / 8
    # A copy at 1 MB/s takes 2.5 epochs of a second.
    epochs = run(env, [0, tile])
    first, second, third = (epoch.info for epoch in epochs)
    assert (first["pending_slices"], second["pending_slices"], third["pending_slices"]) == (1, 1, 0)
    assert first["moved_gb"] == pytest.approx(1e-3)
    total = first["moved_gb"] + second["moved_gb"] + third["moved_gb"]
    assert total * 1e9 == pytest.approx(bytes_)
    assert first["throughput"] == second["throughput"] != third["throughput"]
    assert epochs[-1].observation["slice_nodes"][0] == env.machine.node_of_core[far]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"drift": "moving-load", "drift_options": None}, "moving-load"),
        ({"p99_limit_us": 50.0}, "p99_limit_us"),
        ({"load": "saturated"}, "load = 'saturated'"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options, named):
    with pytest.raises(UnsupportedError, match=named):
        make(**options)


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

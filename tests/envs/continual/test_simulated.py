import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pmoss_env.backends import make_backend
from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Instance
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

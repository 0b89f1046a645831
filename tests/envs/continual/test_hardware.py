"""The running index on whatever host runs the tests: no figure is asserted, only its sense."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.backends.live import LiveRound, mean_snapshot
from pmoss_env.envs.continual import INFO_KEYS, Conditions, ContinualSchedulingEnv
from pmoss_env.envs.continual.drift import Demand
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.errors import BackendError, DescriptionError, PmossError, UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTERS, CoTenant, HardwareSnapshot
from tests.backends.ended import threads_of_process
from tests.envs.episodes import play, total

SERVED = {
    **{"backend": "hardware", "machine": "host", "slices": 8, "drift": "none", "workload_seed": 1},
    **{"epochs": 3, "epoch_seconds": 0.02, "moves_per_epoch": 2},
    "backend_options": {"records": 5_000, "warmup_seconds": 0.01},
}

pytestmark = pytest.mark.skipif(
    load_machine("host").workers.size < 2, reason="needs two worker cores"
)


def make(**options):
    return ContinualSchedulingEnv(**{**SERVED, **options})


def test_an_episode_is_like_one_of_the_model_and_leaves_no_thread():
    threads = threads_of_process()
    env = make(drift="busy-cores", drift_options={"strength": [0.2, 0.4], "lifetime": 2.0})
    model = ContinualSchedulingEnv(machine="toy", slices=8)
    assert set(env.observation_space) == set(model.observation_space)
    steps = play(env)
    info = steps[-1].info
    assert set(info) == set(INFO_KEYS)
    assert all(step.reward >= 0.0 and not step.terminated for step in steps)
    assert info["epoch"] == 3 and info["paid"] == pytest.approx(total(steps)) == info["queries"]
    assert threads_of_process() == threads
    env.reset(seed=1)
    assert threads_of_process() > threads
    env.close()
    env.close()
    assert threads_of_process() == threads


@pytest.mark.filterwarnings("error")
def test_gymnasium_does_not_warn_of_it():
    env = gymnasium.make("pmoss/ContinualScheduling-v1", **SERVED)
    env.reset(seed=0)
    env.step([3, 1])
    env.step([8, 0])
    env.close()


def test_moves_take_place_and_are_observed():
    env = make(incumbent="grouped")
    observation, _ = env.reset(seed=0)
    tiles = np.flatnonzero(observation["tile_mask"])
    to = int(next(tile for tile in tiles if tile != observation["slice_tiles"][3]))
    env.step([3, to])
    observation, *_ = env.step([env.slices, 0])
    assert observation["slice_tiles"][3] == to and observation["moved"].tolist() == [
        0, 0, 0, 1, 0, 0, 0, 0,
    ]  # fmt: skip
    core = env.machine.core_of_tile[to]
    if not observation["pending"][3]:
        assert observation["slice_nodes"][3] == env.machine.node_of_core[core]
    snapshot = env.context(np.random.default_rng(0)).snapshot
    sources = snapshot.provenance["counters"]
    for counter, available in zip(COUNTERS, snapshot.counters_available, strict=True):
        if not available:
            assert not snapshot.counter(counter.name).any()
            assert sources.get(counter.name, "?") != "hardware"
    assert not np.isfinite(snapshot.latency_p99_us) or snapshot.throughput > 0
    env.close()


def test_the_checkers_are_content_but_for_what_no_host_repeats():
    env = make()
    check_env_for_sb3(env, warn=False)
    with pytest.raises(AssertionError, match=r"seed|determin|equivalent"):
        check_env(env, skip_render_check=True)
    env.close()


def test_pending_slices_are_those_whose_data_move():
    env = make()
    index = LiveIndex(env.session.backend, 0.02, always_move=True)
    workers = env.machine.workers
    try:
        index.begin(1, Conditions(), np.full(8, workers[0], dtype=np.int32))
        moved = 0.0
        for turn in range(3):
            index.move(turn, int(workers[1]))
            epoch = index.run(Conditions(), 0.02)
            moved += epoch.moved_bytes
            assert set(np.unique(index.pending)) <= {0.0, 1.0}
            assert index.copies == np.count_nonzero(index.pending)
            assert len(epoch.pieces) == 5
        while index.copies or not moved:
            moved += index.run(Conditions(), 0.02).moved_bytes
        assert (index.nodes == env.machine.node_of_core[index.cores]).all()
    finally:
        index.stop()
        env.close()


def test_an_epoch_begins_when_its_co_tenants_have_begun(monkeypatch):
    index = LiveIndex(
        make_backend(
            "hardware",
            **{name: SERVED[name] for name in ("machine", "slices")},
            **SERVED["backend_options"],
            workload="ycsb-a",
            own_process=False,
        ),
        0.02,
    )
    calls = []

    def watch(where, name):
        method = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *args: (calls.append(name), method(*args))[1])

    workers = index.machine.workers
    index.begin(0, Conditions(()), np.full(index.slices, workers[0]))
    for where, name in (
        (index._co_tenants, "run"),
        (index._live, "drop_rounds"),
        (index, "next_round"),
        (index, "change"),
    ):
        watch(where, name)
    index.move(3, int(workers[1]))
    index.run(Conditions((CoTenant("busy_core", int(workers[0]), 0.3),)), 0.02)
    assert calls[:4] == ["run", "drop_rounds", "next_round", "change"]
    index.close()


def test_no_room_for_a_second_copy_is_an_error_before_it_runs(monkeypatch):
    env = make()
    index = LiveIndex(env.session.backend, 0.02, always_move=True)
    monkeypatch.setattr(_native, "available_memory", lambda: 1000)
    threads = threads_of_process()
    with pytest.raises(BackendError, match="as much again while its slices move"):
        index.begin(1, Conditions(), np.full(8, env.machine.workers[0], dtype=np.int32))
    assert threads_of_process() == threads
    env.close()


def test_what_only_a_model_can_is_refused():
    env = make()
    with pytest.raises(UnsupportedError, match="oracles plan in the true machine"):
        _ = LiveIndex(env.session.backend, 0.02).native
    with pytest.raises(UnsupportedError, match="only co-tenants drift"):
        env.session.live._disturb(Conditions(demand=Demand(shift=2)))
    env.close()


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"machine": "toy"}, UnsupportedError, "not this host"),
        ({"drift": "moving-load"}, UnsupportedError, "only co-tenants change"),
        ({"noise": 1.0}, UnsupportedError, "noise = 1.0: is of the model"),
        ({"deviation": 0.1}, UnsupportedError, "deviation"),
        ({"p99_limit_us": 50.0}, UnsupportedError, "p99_limit_us"),
        ({"backend_options": {"own_process": True}}, UnsupportedError, "own_process"),
        ({"backend_options": {"recods": 5}}, UnsupportedError, "recods"),
        ({"backend_options": 5}, DescriptionError, "backend_options = 5"),
        ({"backend": "simulator"}, UnsupportedError, "simulated, hardware"),
    ],
)
def test_impossible_arguments_are_named(options, error, named):
    with pytest.raises(error, match=named):
        make(**options)


def test_one_worker_core_is_too_few(monkeypatch):
    alone = load_machine("host")
    alone = replace(alone, role_of_core=("worker", *["router"] * (alone.cores - 1)))
    monkeypatch.setattr("pmoss_env.envs.continual.session.load_machine", lambda name: alone)
    with pytest.raises(PmossError, match="nowhere to move a slice to"):
        make()


def test_co_tenants_that_cannot_run_are_refused():
    with pytest.raises(_native.RunnerError, match="co-tenant on CPU 99999"):
        _native.CoTenants([("spin", 99999, 0.5, 0, -1)])
    with pytest.raises(ValueError, match=r"strength is 1\.0"):
        _native.CoTenants([("spin", 0, 1.0, 0, -1)])
    with pytest.raises(ValueError, match="co_tenant"):
        _native.CoTenants([("noise", 0, 0.5, 0, -1)])
    env = make()
    with pytest.raises(PmossError, match="core 77"):
        env.session.live._co_tenants.run((CoTenant("busy_core", 77, 0.5),))
    threads = threads_of_process()
    many = _native.CoTenants([("spin", 0, 0.8, 0, -1), ("memory_stream", 0, 0.3, 1 << 21, -1)])
    assert threads_of_process() > threads
    many.stop()
    many.stop()
    assert threads_of_process() == threads


def round_of(seconds, throughput, latency, available):
    counters = np.zeros((2, len(COUNTERS)))
    counters[:, 0] = throughput / 2
    counters[:, 3] = 4.0 * available[3]
    snapshot = HardwareSnapshot(
        throughput=throughput,
        slice_throughput=np.full(2, throughput / 2),
        slice_counters=counters,
        counters_available=np.array(available),
        running_ratio=np.ones(len(COUNTERS)),
        offcore=np.array([2.0]),
        offcore_names=("node0_read_gb_per_s",),
        offcore_available=np.array([throughput > 1]),
        latency_p50_us=latency,
        latency_p99_us=2 * latency,
        load="closed",
        provenance={"seconds": seconds},
    )
    return LiveRound(0, seconds, snapshot, 0, np.zeros(0, dtype=np.int32), 5, 0)


def test_the_mean_of_rounds_weighs_rates_by_time_and_latencies_by_queries():
    every = [True] * len(COUNTERS)
    lacks = [i != 3 for i in range(len(COUNTERS))]
    mean = mean_snapshot([round_of(1.0, 4.0, 10.0, every), round_of(3.0, 0.0, np.nan, lacks)])
    assert mean.throughput == pytest.approx(1.0)
    assert mean.slice_throughput.tolist() == [0.5, 0.5]
    assert mean.latency_p50_us == 10.0 and mean.latency_p99_us == 20.0
    assert mean.slice_counters[:, 3].tolist() == [4.0, 4.0]  # of the round that has it
    assert mean.counters_available.all() and not mean.offcore_available.any()
    assert mean.provenance["rounds"] == 2 and mean.provenance["seconds"] == 4.0
    mean = mean_snapshot([round_of(1.0, 1.0, 10.0, lacks), round_of(1.0, 3.0, 20.0, lacks)])
    assert mean.latency_p50_us == pytest.approx(17.5) and not mean.counters_available[3]

"""The hardware backend on whatever host runs the tests: no figure is asserted, only its sense."""

import json
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from pmoss_env.backends import Backend, IncrementalBackend, make_backend
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import BackendError, DescriptionError, ScheduleError, UnsupportedError
from pmoss_env.measuring import measure_schedules
from pmoss_env.types import COUNTER_INDEX, COUNTERS, Instance, Neighbour, Schedule

SLICES = 16


def make(**changes: object) -> HardwareBackend:
    options = {
        "machine": "host",
        "workload": "ycsb-a",
        "slices": SLICES,
        "records": 20_000,
        "seconds": 0.15,
        "warmup_seconds": 0.05,
        **changes,
    }
    backend = make_backend("hardware", **options)  # type: ignore[arg-type]
    assert isinstance(backend, HardwareBackend)
    return backend


@pytest.fixture(scope="module")
def backend() -> Iterator[HardwareBackend]:
    backend = make()
    yield backend
    backend.close()


def spread(backend: Backend) -> Schedule:
    return make_baseline("spread")(Context(backend.machine, SLICES))


def test_it_measures_but_does_not_model(backend: HardwareBackend) -> None:
    assert isinstance(backend, Backend)
    assert not isinstance(backend, IncrementalBackend)


def test_snapshot_is_whole_and_invents_nothing(backend: HardwareBackend) -> None:
    snapshot = backend.measure(spread(backend), seed=1)
    assert snapshot.throughput > 0
    assert snapshot.slice_throughput.shape == (SLICES,)
    assert snapshot.slice_throughput.sum() == pytest.approx(snapshot.throughput)
    assert snapshot.slice_counters.shape == (SLICES, len(COUNTERS))
    assert (snapshot.slice_counters[:, ~snapshot.counters_available] == 0).all()
    assert (snapshot.running_ratio[~snapshot.counters_available] == 0).all()
    assert np.isfinite(snapshot.slice_counters).all()
    assert 0 < snapshot.latency_p50_us <= snapshot.latency_p99_us
    for name in ("queries", "elapsed_us"):
        assert snapshot.counters_available[COUNTER_INDEX[name]]
    # No core is busy for more than all of the time.
    assert snapshot.counter("elapsed_us").sum() <= 1.05 * len(backend.machine.workers)


def test_provenance_says_where_and_why_not(backend: HardwareBackend) -> None:
    snapshot = backend.measure(spread(backend), seed=1)
    told = json.loads(json.dumps(snapshot.provenance))
    assert told["backend"] == "hardware"
    assert set(told["host"]) >= {"cpu_model", "kernel", "numa_balancing", "governor"}
    assert told["worker_cpus"] == backend.machine.cpu_of_core[backend.machine.workers].tolist()
    for counter in COUNTERS:
        if counter.source != "runtime":
            available = snapshot.counters_available[COUNTER_INDEX[counter.name]]
            assert (told["counters"][counter.name] == counter.source) == available


def test_schedules_are_checked_first(backend: HardwareBackend) -> None:
    with pytest.raises(ScheduleError, match="exactly 16"):
        backend.measure(backend.machine.local_schedule([int(backend.machine.workers[0])]), seed=0)
    with pytest.raises(ScheduleError, match="not a worker of host"):
        backend.measure(Schedule([9999] * SLICES, [0] * SLICES), seed=0)
    shared = make_baseline("os-default", shared=True)(Context(backend.machine, SLICES))
    with pytest.raises(UnsupportedError, match="routing 'any' with data 'first_touch'"):
        backend.measure(shared, seed=0)
    with pytest.raises(BackendError, match="seconds = 0"):
        make(seconds=0)


def test_open_load_is_served_at_its_rate() -> None:
    backend = make(load="open:0.02", seconds=0.5)
    snapshot = backend.measure(spread(backend), seed=1)
    assert snapshot.throughput == pytest.approx(0.02, rel=0.2)
    backend.close()


def test_a_spinning_neighbour_is_started_and_recorded() -> None:
    backend = make()
    core = int(backend.machine.workers[0])
    backend.set_instance(Instance(0, (Neighbour("busy_core", core, 0.5),)))
    snapshot = backend.measure(spread(backend), seed=1)
    assert snapshot.provenance["busy_cpus"] == [int(backend.machine.cpu_of_core[core])]
    with pytest.raises(DescriptionError, match="neighbour 'busy_core' on core 9999"):
        backend.set_instance(Instance(0, (Neighbour("busy_core", 9999, 0.5),)))
    with pytest.raises(UnsupportedError, match="'memory_stream': the backend 'hardware' runs only"):
        backend.set_instance(Instance(0, (Neighbour("memory_stream", 0, 0.5),)))
    backend.close()


def test_another_instance_loads_other_keys(backend: HardwareBackend) -> None:
    hot = []
    for seed in (1, 2, 3, 4):
        backend.set_instance(Instance(seed))
        snapshot = backend.measure(spread(backend), seed=1)
        model = make_backend("analytic", machine="toy", workload=backend.workload, slices=SLICES)
        model.set_instance(Instance(seed))
        modelled = model.measure(make_baseline("spread")(Context(model.machine, SLICES)), seed=0)
        # The model and the machine agree on which slices are hot.
        share = snapshot.slice_throughput / snapshot.throughput
        expected = modelled.slice_throughput / modelled.throughput
        assert np.abs(share - expected).max() < 0.05
        hot.append(int(share.argmax()))
    assert len(set(hot)) > 1


def test_inserts_do_not_pile_up_from_one_measurement_to_the_next() -> None:
    backend = make(records=20_000, seconds=0.2)
    for seed in range(3):
        told = backend.measure(spread(backend), seed=seed).provenance
        assert 20_000 <= told["records_before"] <= 22_000
        assert told["records_after"] > told["records_before"]
    backend.close()


def test_measuring_by_name(backend: HardwareBackend) -> None:
    done = []
    snapshots = measure_schedules(
        backend, ["lpt", "random"], seed=0, progress=lambda at, total: done.append((at, total))
    )
    assert list(snapshots) == ["lpt", "random"]
    assert done[-1] == (3, 3)


def test_the_environment_runs_on_this_host() -> None:
    env = gymnasium.make(
        "pmoss/SpatialScheduling-v0",
        machine="host",
        backend="hardware",
        slices=SLICES,
        workload_seed=1,
        backend_options={"records": 20_000, "seconds": 0.1, "warmup_seconds": 0.05},
    )
    observation, info = env.reset(seed=0)
    assert observation["machine_view"].any() == 0
    assert observation["incumbent_view"].any()
    rewards = []
    terminated = False
    while not terminated:
        action = env.action_space.sample(info["action_mask"])
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        assert not truncated
    assert len(rewards) == SLICES
    assert rewards[:-1] == [0] * (SLICES - 1)
    assert rewards[-1] == info["throughput"] > 0
    env.close()

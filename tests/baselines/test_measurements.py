import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.baselines import Measurements
from pmoss_env.errors import DescriptionError, ScheduleError, UnsupportedError
from pmoss_env.types import Instance, Schedule


class Whole:
    """A backend that can only measure."""

    incremental = False

    def __init__(self, backend):
        self._backend = backend
        self.seeds = []

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def measure(self, schedule, *, seed):
        self.seeds.append(seed)
        return self._backend.measure(schedule, seed=seed)


@pytest.fixture
def backend():
    made = make_backend("analytic", machine="toy", workload="ycsb-a", slices=12)
    made.set_instance(Instance(3))
    return made


def schedules(backend, count=20):
    """Schedules of which each differs a little from the one before, and now and then all."""
    rng = np.random.default_rng(0)
    machine = backend.machine
    cores = rng.choice(machine.workers, 12)
    for number in range(count):
        if number % 7 == 6:
            cores = rng.choice(machine.workers, 12)
        cores = cores.copy()
        cores[rng.integers(12, size=2)] = rng.choice(machine.workers, 2)
        yield machine.local_schedule(cores.astype(np.int32))


def test_readings_without_noise_are_those_of_the_backend(backend):
    asked = Measurements(backend, 100)
    other = make_backend("analytic", machine="toy", workload="ycsb-a", slices=12)
    other.set_instance(Instance(3))
    for schedule in schedules(backend):
        assert asked.throughput(schedule) == other.place(schedule)
        assert np.array_equal(
            asked.snapshot().slice_counters, other.measure(schedule, seed=0).slice_counters
        )
        far = Schedule(schedule.cores, 1 - schedule.nodes)
        assert asked.throughput(far) == other.place(far)
    assert asked.used == 40
    assert asked.left == 60


def test_a_backend_that_is_not_incremental_is_measured_once_per_evaluation(backend):
    whole = Whole(backend)
    asked = Measurements(whole, 3, seed=(10, 1))
    for schedule in schedules(backend, 3):
        assert asked.throughput(schedule) == asked.snapshot().throughput
    assert whole.seeds == [10, 11, 12]


def test_the_budget_ends(backend):
    (schedule,) = schedules(backend, 1)
    with pytest.raises(DescriptionError, match="measurements = -1"):
        Measurements(backend, -1)
    asked = Measurements(backend, 1)
    with pytest.raises(UnsupportedError, match="no schedule was measured"):
        asked.snapshot()
    assert asked.measure(schedule).throughput > 0
    with pytest.raises(UnsupportedError, match="all 1 measurements are used up"):
        asked.throughput(schedule)


def test_what_cannot_run_costs_nothing_and_leaves_no_reading(backend):
    first, second = schedules(backend, 2)
    asked = Measurements(backend, 3)
    asked.throughput(first)
    with pytest.raises(ScheduleError):
        asked.throughput(Schedule(first.cores[:4], first.nodes[:4]))
    assert asked.used == 1
    with pytest.raises(UnsupportedError, match="no schedule was measured"):
        asked.snapshot()
    assert asked.throughput(second) == backend.place(second)


def test_every_reading_has_noise_of_its_own_and_a_seed_repeats_it(backend):
    (schedule,) = schedules(backend, 1)
    true = backend.place(schedule)
    readings = []
    for _ in range(2):
        asked = Measurements(backend, 200, noise=1.0, seed=(5, 3))
        readings.append([asked.throughput(schedule) for _ in range(200)])
    assert readings[0] == readings[1]
    assert len(set(readings[0])) == 200
    assert np.mean(readings[0]) == pytest.approx(true, rel=0.005)
    assert np.std(readings[0]) == pytest.approx(0.015 * true, rel=0.2)
    snapshot = asked.snapshot()
    assert snapshot.throughput == pytest.approx(readings[0][-1])
    assert snapshot is asked.snapshot()

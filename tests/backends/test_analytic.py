import numpy as np
import pytest

from pmoss_env.backends import Backend, IncrementalBackend, make_backend
from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError, UnsupportedError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTERS, CoTenant, Instance, Schedule


def make(**changes: object) -> AnalyticBackend:
    options = {"machine": "milan-nps4", "workload": "ycsb-a", "slices": 64, **changes}
    backend = make_backend("analytic", **options)  # type: ignore[arg-type]
    assert isinstance(backend, AnalyticBackend)
    return backend


def random_schedule(backend: Backend, seed: int) -> Schedule:
    rng = np.random.default_rng(seed)
    return backend.machine.local_schedule(rng.choice(backend.machine.workers, backend.slices))


def test_it_implements_both_protocols() -> None:
    assert isinstance(make(), Backend)
    assert isinstance(make(), IncrementalBackend)


def test_snapshot_is_whole_and_adds_up() -> None:
    backend = make()
    snapshot = backend.measure(random_schedule(backend, 1), seed=3)
    assert snapshot.slice_counters.shape == (64, len(COUNTERS))
    assert snapshot.slice_throughput.sum() == pytest.approx(snapshot.throughput)
    assert np.array_equal(snapshot.counter("queries"), snapshot.slice_throughput)
    assert np.isfinite(snapshot.slice_counters).all()
    assert (snapshot.slice_counters[:, ~snapshot.counters_available] == 0).all()
    assert len(snapshot.offcore_names) == snapshot.offcore.size == 2 * 8 + 2
    assert snapshot.provenance["backend"] == "analytic"
    # The cores cannot be busier than all the time.
    assert snapshot.counter("elapsed_us").sum() <= len(backend.machine.workers)


def test_moves_and_measurements_agree_in_every_bit() -> None:
    backend, other = make(), make()
    schedule = random_schedule(backend, 1)
    assert backend.place(schedule) == other.measure(schedule, seed=0).throughput
    cores = schedule.cores.copy()
    rng = np.random.default_rng(2)
    for _ in range(50):
        s, core = int(rng.integers(64)), int(rng.choice(backend.machine.workers))
        cores[s] = core
        assert backend.move(s, core) == other.place(backend.machine.local_schedule(cores))


@pytest.mark.parametrize("deviation", [0.0, 0.2])
def test_other_co_tenants_of_an_instance_give_the_bits_of_a_fresh_backend(deviation: float) -> None:
    backend = make(deviation=deviation)
    cores = backend.machine.workers
    for seed, core in ((0, 1), (0, 2), (0, None), (1, 2), (1, 3), (0, 3)):
        tenants = () if core is None else (CoTenant("busy_core", int(cores[core]), 0.5),)
        schedule = random_schedule(backend, seed)
        backend.set_instance(Instance(seed, tenants))
        fresh = make(deviation=deviation)
        fresh.set_instance(Instance(seed, tenants))
        now, anew = (each.measure(schedule, seed=0) for each in (backend, fresh))
        assert now.throughput == anew.throughput
        assert np.array_equal(now.slice_counters, anew.slice_counters)


def test_routers_hand_out_the_mix_as_it_is() -> None:
    with pytest.raises(UnsupportedError, match="choose load = 'saturated'"):
        make(load="saturated:mix", dispatch="modelled")


def test_bad_names_and_options_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"backend 'analitic'.*'analytic'"):
        make_backend("analitic", machine="toy", workload="ycsb-a")
    with pytest.raises(UnknownNameError, match="machine"):
        make(machine="nowhere")
    with pytest.raises(UnknownNameError, match="workload"):
        make(workload="nothing")
    with pytest.raises(UnknownNameError, match="load"):
        make(load="half")
    with pytest.raises(UnknownNameError, match="index 'hash'"):
        make(index="hash")
    with pytest.raises(ScheduleError, match="slices = 0"):
        make(slices=0)
    with pytest.raises(UnsupportedError, match="'seconds'"):
        make(seconds=1)
    with pytest.raises(DescriptionError, match="overhead_cycles = 'a': must be a finite number"):
        make(overhead_cycles="a")
    with pytest.raises(DescriptionError, match="numa_balancing = 'yes': must be true or false"):
        make(numa_balancing="yes")
    with pytest.raises(UnsupportedError, match="not this host"):
        make_backend("hardware", machine="toy", workload="ycsb-a")


def test_bad_schedules_and_co_tenants_are_refused() -> None:
    backend = make()
    with pytest.raises(ScheduleError, match="not a worker of milan-nps4"):
        backend.place(Schedule([0] * 64, [0] * 64))
    with pytest.raises(ScheduleError, match="exactly 64"):
        backend.place(load_machine("milan-nps4").local_schedule([2]))
    with pytest.raises(DescriptionError, match="co-tenant 'busy_core' on core 99: must lie"):
        backend.set_instance(Instance(0, (CoTenant("busy_core", 99, 0.5),)))
    with pytest.raises(UnknownNameError, match="co-tenant family 'noise'"):
        backend.set_instance(Instance(0, (CoTenant("noise", 3, 0.5),)))


def test_the_model_takes_no_core_that_was_cut_to_fit() -> None:
    backend = make()
    cores = random_schedule(backend, 1).cores
    with pytest.raises(TypeError):
        backend._model.place(cores.astype(np.int64) + 2**32, cores)
    with pytest.raises(TypeError):
        backend._model.place(cores + 0.9, cores)

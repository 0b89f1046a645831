"""Families of drift: their courses for a seed, and how states follow each other."""

from itertools import pairwise

import numpy as np
import pytest

from pmoss_env.envs.continual import FAMILIES, draw_drift
from pmoss_env.envs.continual.drift import make_family
from pmoss_env.envs.continual.families import MemoryContention, MovingLoad, Popularity, Ramps
from pmoss_env.envs.continual.jobs import IDLE, Jobs
from pmoss_env.envs.continual.other_indexes import OtherIndexes
from pmoss_env.envs.continual.own_day import DailyLoad, DailyMix
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.interference import check_co_tenants
from pmoss_env.machines import load_machine
from pmoss_env.types import CO_TENANT_FAMILIES
from pmoss_env.workloads import load_workload

SERVER = load_machine("skylake-x-8n")


def courses(family, machine=SERVER, epochs=60, seed=1, slices=16):
    drift = draw_drift(family, machine, slices, epochs, seed)
    return [drift.conditions(epoch) for epoch in range(epochs)]


def test_impossible_seeds_and_horizons_are_refused():
    for seed in (None, -1, 1.5, True):
        with pytest.raises(DescriptionError, match=f"seed = {seed}"):
            draw_drift(Jobs(), SERVER, 16, 10, seed)
    for epochs in (0, -1, 2.0):
        with pytest.raises(DescriptionError, match=f"epochs = {epochs}"):
            draw_drift(Jobs(), SERVER, 16, epochs, 1)


@pytest.mark.parametrize("machine", ["skylake-x-8n", "milan-nps4", "toy"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_runs_on_every_machine_and_repeats(name, machine):
    described, family = load_machine(machine), FAMILIES[name]()
    first = courses(family, described)
    assert first == courses(family, described)
    assert name == "none" or len(set(courses(family, described, epochs=300))) > 1
    for conditions in first:
        check_co_tenants(conditions.co_tenants, described, tuple(CO_TENANT_FAMILIES), "analytic")
        assert 0 <= conditions.demand.shift < 16
    drift = draw_drift(family, described, 16, 5, 2)
    rng = np.random.default_rng(0)
    before = drift.states
    samples = [drift.sample_conditions(epoch, rng) for epoch in range(1, 5)]
    assert drift.states == before and len(samples) == 4


def test_several_epochs_are_sampled_from_a_state():
    family = Jobs()
    drift = draw_drift(family, SERVER, 16, 6, 3)
    rng, state = np.random.default_rng(5), drift.states[4]
    for _ in range(3):
        state = family.advance(state, rng)
    # It may lie beyond the course.
    sample = drift.sample_conditions(7, np.random.default_rng(5), ahead=3)
    assert sample == family.conditions(state)


def test_jobs_go_through_their_phases_as_long_as_they_should():
    family = Jobs(jitter=1)
    drift = draw_drift(family, SERVER, 16, 2000, 3)
    longest = {1: 0, 2: 0, 3: 0}
    for before, after in pairwise(drift.states):
        for job, then in zip(before, after, strict=True):
            assert (then.node, then.cores, then.lengths) == (job.node, job.cores, job.lengths)
            if then.phase == job.phase:
                assert then.age == job.age + 1
                continue
            assert then.phase == (job.phase + 1) % 4 and then.age == 1
            if job.phase != IDLE:
                assert abs(job.age - job.lengths[job.phase - 1]) <= 1
                longest[job.phase] = max(longest[job.phase], job.age)
    assert all(longest.values())
    ages = [job.age for state in drift.states for job in state if job.phase == IDLE]
    assert 6 < np.mean(ages) < 10  # without memory: what has passed is as long as what comes
    assert len({job.node for job in drift.states[0]}) == 6


def test_without_jitter_a_running_job_is_deterministic():
    drift = draw_drift(Jobs(jitter=0), SERVER, 16, 80, 5)
    rng = np.random.default_rng(1)
    for epoch in range(1, 80):
        for job, then in zip(drift.states[epoch - 1], drift.states[epoch], strict=True):
            if job.phase != IDLE:
                assert drift.family.advance((job,), rng) == (then,)


def test_visitors_are_as_many_and_stay_as_long_as_they_should():
    family = MemoryContention(count=3, lifetime=20)
    visitors = [len(each.co_tenants) for each in courses(family, epochs=6000)]
    assert 2.5 < np.mean(visitors) < 3.5
    states = draw_drift(family, SERVER, 16, 3000, 2).states
    left = sum(len(a[1].keys() - b[1].keys()) for a, b in pairwise(states))
    assert 14 < sum(len(state[1]) for state in states) / left < 28
    assert all(len(each.co_tenants) <= 2 for each in courses(family, load_machine("toy")))


def test_ramps_rise_and_fall():
    shares = [sum(t.strength for t in each.co_tenants) for each in courses(Ramps(count=1))]
    steps = np.diff(shares)
    assert 0 < max(steps) <= 0.9 / 5 + 1e-12 and min(steps) >= -0.9 / 5 - 1e-12
    assert 0.6 <= max(shares) <= 0.9


def test_the_load_moves_at_its_speed_and_jumps():
    shifts = [each.demand.shift for each in courses(MovingLoad(speed=2.0), epochs=20)]
    assert shifts == [2 * epoch % 16 for epoch in range(20)]
    jumping = [
        each.demand.shift for each in courses(MovingLoad(speed=0.0, jump_every=4), epochs=200)
    ]
    assert 25 < np.count_nonzero(np.diff(jumping)) < 75


def test_what_is_popular_comes_back_at_the_same_hour():
    shifts = [each.demand.shift for each in courses(Popularity(places=3, day=12), epochs=48)]
    assert shifts[:36] == shifts[12:]
    places, counts = np.unique(shifts[:12], return_counts=True)
    assert len(places) == 3 and set(counts) == {4}
    assert np.count_nonzero(np.diff(shifts[:13])) == 3


def test_other_indexes_have_a_day_and_a_node_each():
    family = OtherIndexes(count=1, cores=2, lifetime=1e9)
    course = courses(family, epochs=60)
    assert course[24:] == course[:-24]
    memory = [tenant.strength for each in course for tenant in each.co_tenants[2:]]
    assert max(memory) == pytest.approx(min(memory) / family.least)
    cores = {tenant.target for each in course for tenant in each.co_tenants[:2]}
    node = course[0].co_tenants[2].target
    assert cores == set(SERVER.workers[SERVER.node_of_core[SERVER.workers] == node][:2].tolist())


def test_other_indexes_are_re_scheduled_to_nodes_that_serve_none():
    states = draw_drift(OtherIndexes(count=4, lifetime=10), SERVER, 16, 2000, 3).states
    nodes = [[index.place for index in indexes] for _, indexes in states]
    assert all(len(set(each)) == 4 for each in nodes)
    moved = sum(
        a != b for before, after in pairwise(nodes) for a, b in zip(before, after, strict=True)
    )
    assert 8 < 4 * len(nodes) / moved < 12
    # No node is free: all stay.
    full = draw_drift(OtherIndexes(count=8, lifetime=1), SERVER, 16, 50, 3).states
    assert len({tuple(index.place for index in indexes) for _, indexes in full}) == 1


def test_the_load_comes_and_goes_with_the_hour():
    loads = [each.demand.load for each in courses(DailyLoad(day=24, least=0.25), epochs=72)]
    assert loads[24:] == loads[:48]
    assert min(loads) == pytest.approx(0.25) and max(loads) == pytest.approx(1.0)
    assert np.mean(loads) == pytest.approx(0.625)


def test_the_mix_goes_from_its_own_to_another_and_back():
    family = DailyMix(scan=0.4, update=0.2, day=12, levels=3)
    own, between, other = family.workloads(load_workload("ycsb-a"))
    assert own == load_workload("ycsb-a")
    assert (other.lookup, other.insert, other.scan, other.update) == pytest.approx(
        (0.4, 0, 0.4, 0.2)
    )
    assert (between.lookup, between.insert) == pytest.approx((0.45, 0.25))
    mixes = [each.demand.mix for each in courses(family, epochs=36)]
    assert mixes[12:] == mixes[:24] and set(mixes) == {0, 1, 2}
    exact = DailyMix(scan=0.34, insert=0.56, update=0.10)  # they add up to a little more than 1
    exact.check(SERVER, 16)
    assert exact.workloads(load_workload("ycsb-a"))[-1].lookup == 0.0
    message = "drift_options of 'daily-mix': update = 0.2: must be 0, for points do not move"
    with pytest.raises(DescriptionError, match=message):
        family.workloads(load_workload("rtree-ranges"))


_LARGE_COUNT = "count = 1000000000: must be a whole number from . to 65,536"
_BOUNDS = [
    *[(name, {"count": 10**9}, _LARGE_COUNT) for name in ("jobs", "ramps", "other-indexes")],
    ("periodic-cores", {"count": 10**9}, _LARGE_COUNT),
    ("jobs", {"compute_epochs": [5, 10**30]}, r"compute_epochs = .* from 0 to 100000"),
    ("jobs", {"idle_epochs": float("inf")}, "idle_epochs = inf: must be a number from 1 to 100,0"),
    ("jobs", {"idle_epochs": 1e12}, "idle_epochs = 10+.0: must be a number from 1 to 100,000"),
    ("jobs", {"idle_epochs": 10**400}, r"drift_options\['idle_epochs'\]: is too large"),
    ("periodic-cores", {"period": 10**30}, "period = 10+: must be .* from . to 100,000"),
    ("ramps", {"rise": 10**30}, "rise = 10+: must be a whole number from . to 100,000"),
    ("ramps", {"stay": 10**30}, "stay = 10+: must be a whole number from . to 100,000"),
    ("ramps", {"idle_epochs": 0.5}, "idle_epochs = 0.5: must be a number from 1 to 100,000"),
    ("memory", {"count": 1e9}, "count = 1000000000.0: must be a number from 0 to 65,536"),
    ("popularity", {"places": 17}, "places = 17: must be a whole number from . to 16"),
    ("popularity", {"day": 2}, "day = 2: must be"),
    ("daily-load", {"day": 1}, "day = 1: must be"),
    ("daily-load", {"least": 0.0}, "least = 0: some load must come"),
    ("daily-load", {"least": float("nan")}, r"least = nan: must lie in \[0, 1\]"),
    ("daily-mix", {"scan": 0.6, "update": 0.6}, r"scan \+ insert \+ update = 1.2: must lie"),
    ("daily-mix", {"levels": 1}, "levels = 1: must be"),
    ("daily-mix", {"levels": 10**6}, "levels = 1000000: must be a whole number from . to 16"),
    ("other-indexes", {"day": 1}, "day = 1: must be"),
    ("other-indexes", {"least": 1.5}, r"least = 1.5: must lie in \[0, 1\]"),
    ("other-indexes", {"time": [0.5, 1.0]}, r"time = .* from 0 to 0.95"),
    ("busy-cores", {"count": float("nan")}, "count = nan: must be a number from 0 to 65,536"),
]


@pytest.mark.parametrize(("name", "options", "message"), _BOUNDS)
def test_bounds_are_named(name, options, message):
    with pytest.raises(DescriptionError, match=message):
        draw_drift(make_family(FAMILIES, name, options), SERVER, 16, 3, 1)


def test_a_drift_without_parameters_takes_none():
    with pytest.raises(UnknownNameError, match=r"drift 'none': 'x'\. There is none"):
        make_family(FAMILIES, "none", {"x": 1})


@pytest.mark.parametrize(
    "name",
    ["jobs", "ramps", "periodic-cores", "memory", "busy-cores", "other-indexes"],
)
def test_what_a_machine_lacks_is_not_disturbed(name):
    family = make_family(FAMILIES, name, {"count": 65_536})
    assert all(len(each.co_tenants) <= SERVER.workers.size for each in courses(family, SERVER))

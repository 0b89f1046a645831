"""Families of drift: their courses for a seed, and how states follow each other."""

import hashlib

import numpy as np
import pytest

from pmoss_env.envs.continual import FAMILIES, draw_drift
from pmoss_env.envs.continual.drift import make_family
from pmoss_env.envs.continual.families import MovingLoad
from pmoss_env.envs.continual.jobs import Jobs
from pmoss_env.envs.continual.own_day import DailyMix
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


#: Of the course that each family draws on two machines.
DIGESTS = {
    "none": "bcdd3b8a05",
    "jobs": "396c5aaa2d",
    "memory": "fa9ab86f20",
    "busy-cores": "3ec35b0103",
    "periodic-cores": "f0f5da602c",
    "ramps": "8b00c30563",
    "slow-node": "5dee3bfd4d",
    "moving-load": "f1b25569b5",
    "popularity": "5fa582df43",
    "daily-load": "7e22ed952b",
    "daily-mix": "fcfaeb2a5d",
    "other-indexes": "3dceb460df",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_keeps_its_course(name):
    both = [courses(FAMILIES[name](), load_machine(m), 200) for m in ("skylake-x-8n", "toy")]
    text = "".join(map(repr, both))
    assert hashlib.sha256(text.encode()).hexdigest()[:10] == DIGESTS[name]


def test_the_load_moves_at_its_speed_and_jumps():
    shifts = [each.demand.shift for each in courses(MovingLoad(speed=2.0), epochs=20)]
    assert shifts == [2 * epoch % 16 for epoch in range(20)]
    jumping = [
        each.demand.shift for each in courses(MovingLoad(speed=0.0, jump_every=4), epochs=200)
    ]
    assert 25 < np.count_nonzero(np.diff(jumping)) < 75


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
    ("jobs", {"idle_epochs": float("inf")}, r"\['idle_epochs'\] = inf: must be a finite number"),
    ("jobs", {"idle_epochs": 1e12}, "idle_epochs = 10+.0: must be a number from 1 to 100,000"),
    ("jobs", {"idle_epochs": 10**400}, r"\['idle_epochs'\] = 10+: must be a finite number"),
    ("periodic-cores", {"period": 10**30}, "period = 10+: must be .* from . to 100,000"),
    ("ramps", {"rise": 10**30}, "rise = 10+: must be a whole number from . to 100,000"),
    ("ramps", {"stay": 10**30}, "stay = 10+: must be a whole number from . to 100,000"),
    ("ramps", {"idle_epochs": 0.5}, "idle_epochs = 0.5: must be a number from 1 to 100,000"),
    ("memory", {"count": 1e9}, "count = 1000000000.0: must be a number from 0 to 65,536"),
    ("popularity", {"places": 17}, "places = 17: must be a whole number from . to 16"),
    ("popularity", {"day": 2}, "day = 2: must be"),
    ("daily-load", {"day": 1}, "day = 1: must be"),
    ("daily-load", {"least": 0.0}, "least = 0: some load must come"),
    ("daily-load", {"least": float("nan")}, r"\['least'\] = nan: must be a finite"),
    ("daily-mix", {"scan": 0.6, "update": 0.6}, r"scan \+ insert \+ update = 1.2: must lie"),
    ("daily-mix", {"levels": 1}, "levels = 1: must be"),
    ("daily-mix", {"levels": 10**6}, "levels = 1000000: must be a whole number from . to 16"),
    ("other-indexes", {"day": 1}, "day = 1: must be"),
    ("other-indexes", {"least": 1.5}, r"least = 1.5: must lie in \[0, 1\]"),
    ("other-indexes", {"time": [0.5, 1.0]}, r"time = .* from 0 to 0.95"),
    ("busy-cores", {"count": float("nan")}, r"\['count'\] = nan: must be a finite number"),
]


@pytest.mark.parametrize(("name", "options", "message"), _BOUNDS)
def test_bounds_are_named(name, options, message):
    with pytest.raises(DescriptionError, match=message):
        draw_drift(make_family(FAMILIES, name, options), SERVER, 16, 3, 1)


def test_a_drift_without_parameters_takes_none():
    with pytest.raises(UnknownNameError, match=r"drift 'none': 'x'\. There is none"):
        make_family(FAMILIES, "none", {"x": 1})

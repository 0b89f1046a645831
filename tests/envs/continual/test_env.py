"""Episodes of continual scheduling: families of workloads, and the simulated server."""

import hashlib

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.envs.continual import FAMILIES, ContinualSchedulingEnv, draw_drift
from pmoss_env.envs.continual.drift import Conditions, Demand, make_family
from pmoss_env.envs.continual.families import MovingLoad
from pmoss_env.envs.continual.jobs import Jobs
from pmoss_env.envs.continual.own_day import DailyMix
from pmoss_env.envs.continual.running import Migration, RunningIndex
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.interference import check_co_tenants
from pmoss_env.machines import load_machine
from pmoss_env.types import CO_TENANT_FAMILIES, CoTenant, Instance, LoadRegime
from pmoss_env.workloads import load_workload
from tests.envs.episodes import CONTINUAL, SMALL, bits, play


def make(**options):
    return ContinualSchedulingEnv(**{**SMALL[CONTINUAL], **options})


def test_a_step_is_a_move_and_the_last_index_leaves_it():
    env = make()
    _, info = env.reset(seed=0)
    assert info["epoch"] == info["moves"] == 0 and info["queries"] == 0.0
    tile = int(env.machine.tile_of_core[env.machine.workers[0]])
    observation, reward, _, _, info = env.step([0, tile])
    assert (reward, info["epoch"], info["moves"]) == (0.0, 0, 1)
    assert observation["slice_tiles"][0] == tile and observation["moves_left"][0] == 0.5
    assert observation["slice_mask"].tolist() == [0] + [1] * 8
    assert (env.action_masks() == info["action_mask"].astype(bool)).all()
    observation, reward, _, _, info = env.step([env.slices, 0])
    assert reward > 0.0 and (info["epoch"], info["moves"]) == (1, 0)
    assert info["queries"] == reward == pytest.approx(info["throughput"])
    assert observation["moved"].tolist()[1:] == [0] * 7
    env.step([1, tile])
    _, reward, _, _, info = env.step([2, tile])  # the second of two moves begins the epoch
    assert reward > 0.0 and info["epoch"] == 2


def test_a_load_that_cannot_change_is_refused():
    with pytest.raises(UnsupportedError, match="load = 'closed': drift 'daily-load' varies"):
        make(drift="daily-load")
    with pytest.raises(DescriptionError, match="points do not move"):
        make(
            drift="daily-mix", index="rtree", workload="rtree-ranges", drift_options={"update": 0.2}
        )


@pytest.mark.parametrize("own", [True, False])
def test_gymnasium_samples_legal_moves(own):
    env = make(on_illegal="raise")
    observation, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(12):
        parts = observation["slice_mask"], observation["tile_mask"]
        split = tuple(np.split(info["action_mask"], env.action_space.nvec[:1]))
        action = env.action_space.sample(parts if own else split)
        observation, _, _, truncated, info = env.step(action)
        assert info["illegal_actions"] == 0
        if truncated:
            observation, info = env.reset()


def test_masked_moves_are_left_out_or_refused():
    env = make()
    env.reset(seed=0)
    free = int(np.flatnonzero(~env.machine.worker_tiles)[0])
    observation, _, _, _, info = env.step([0, free])
    assert info["illegal_actions"] == info["moves"] == 1
    assert env.machine.worker_tiles[observation["slice_tiles"]].all()
    env = make(on_illegal="raise")
    env.reset(seed=0)
    with pytest.raises(IllegalActionError, match=f"slice 0 to tile {free}: the tile is no worker"):
        env.step([0, free])
    tiles = env.machine.tile_of_core[env.machine.workers]
    env.step([3, tiles[0]])
    with pytest.raises(IllegalActionError, match=r"slice 3 to tile .*: the slice has moved"):
        env.step([3, tiles[1]])
    illegal = (([9, 0], "slice 9"), ([0, -1], "tile -1"), (3, "action 3"), ([0.5, 1], "0.5"))
    for action, named in illegal:
        with pytest.raises(IllegalActionError, match=named):
            env.step(action)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"drift": "job"}, UnknownNameError, "jobs"),
        ({"drift_options": {"counts": 2}}, UnknownNameError, "count"),
        ({"epochs": 1_000_001}, DescriptionError, "epochs = 1000001: must be .* to 1,000,000"),
        ({"backend_options": {1: 2}}, DescriptionError, "key of backend_options = 1: must be"),
        ({"drift_options": [1]}, DescriptionError, "must hold parameters by name"),
        ({"drift_options": {"count": 1.5}}, DescriptionError, "count.* = 1.5"),
        ({"drift_options": {"compute": 0.5}}, DescriptionError, "least, most"),
        ({"drift_options": {"compute": [0.7, 0.5]}}, DescriptionError, "compute"),
        ({"drift_options": {"jitter": 2}}, DescriptionError, "precursor_epochs"),
        ({"drift_options": {"cores": 99}}, UnsupportedError, "99 worker cores"),
        ({"epochs": 0}, DescriptionError, "epochs = 0: must be a whole number from 1"),
        ({"epochs": 2.0}, DescriptionError, "epochs = 2.0"),
        ({"moves_per_epoch": 0}, DescriptionError, "moves_per_epoch = 0"),
        ({"workload_seed": 2**64}, DescriptionError, "workload_seed = 18.*: must be .* to 18,"),
        ({"moves_per_epoch": 33}, DescriptionError, "moves_per_epoch = 33: must be at most 32"),
        ({"moves_per_epoch": 65, "slices": 64}, DescriptionError, "must be at most 64: each of"),
        ({"slices": 0}, DescriptionError, "slices = 0"),
        ({"epoch_seconds": 0}, DescriptionError, "epoch_seconds = 0"),
        ({"record_bytes": 0.0}, DescriptionError, "record_bytes = 0.0"),
        ({"deviation": 0.6}, DescriptionError, "deviation = 0.6"),
        ({"p99_limit_us": 0.0}, DescriptionError, "p99_limit_us = 0.0"),
        ({"price_per_gb": -1.0}, DescriptionError, "price_per_gb = -1.0"),
        ({"machine": 3}, DescriptionError, "machine = 3"),
        ({"machine": "tyo"}, UnknownNameError, "toy"),
        ({"backend": "hardware"}, UnsupportedError, "analytic"),
        ({"incumbent": "best"}, UnknownNameError, "best-fit"),
    ],
)
def test_impossible_arguments_are_named(options, error, named):
    with pytest.raises(error, match=named):
        make(**options)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_pictures_show_chip_and_time(mode):
    env = make(render_mode=mode)
    play(env, 1)
    shown = env.render()
    if mode == "ansi":
        assert "epoch 6 of 6" in shown and "one bar per epoch" in shown
    else:
        assert shown.dtype == np.uint8 and shown.ndim == 3


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
    assert hashlib.sha256("".join(map(repr, both)).encode()).hexdigest()[:10] == DIGESTS[name]


def test_the_load_moves_at_its_speed_and_jumps():
    shifts = [each.demand.shift for each in courses(MovingLoad(speed=2.0), epochs=20)]
    assert shifts == [2 * epoch % 16 for epoch in range(20)]
    course = courses(MovingLoad(speed=0.0, jump_every=4), epochs=200)
    jumping = [each.demand.shift for each in course]
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


SAMPLE = {"queries": 20_000, "records": 20_000}
SERVED = {
    **{"machine": "toy", "slices": 8, "backend": "simulated", "backend_options": SAMPLE},
    **{"drift": "busy-cores", "drift_options": {"lifetime": 2.0}, "epochs": 3},
    **{"moves_per_epoch": 2, "noise": 1.0, "workload_seed": 1},
}


def make_simulated(**options):
    return ContinualSchedulingEnv(**{**SERVED, **options})


def run(env, *moves):
    """The steps that end an epoch; the moves are made before the first one."""
    return play(env, 0, [*moves, *[[env.slices, 0]] * 3])[1 + len(moves) :]


def test_episodes_repeat_to_the_bit_and_differ_by_seed():
    first, again, other = (bits(play(make_simulated(), seed)) for seed in (3, 3, 4))
    assert first == again != other
    check_env(make_simulated(), skip_render_check=True)


def test_where_nothing_moves_an_epoch_serves_what_the_backend_measures():
    env = make_simulated(drift="none", drift_options=None, noise=0.0)
    epochs = run(env)
    backend = make_backend("simulated", machine="toy", workload="ycsb-a", slices=8, **SAMPLE)
    backend.set_instance(Instance(workload_seed=1))
    expected = backend.measure(env.machine.local_schedule(env.session.cores_seen), seed=0)
    assert [epoch.reward for epoch in epochs] == [expected.throughput] * 3
    np.testing.assert_array_equal(env.session.snapshot.slice_counters, expected.slice_counters)
    assert env.session.index.native is not None and epochs[-1].info["moved_gb"] == 0.0


def test_what_moves_is_served_from_afar_until_its_data_arrive():
    env = make_simulated(
        drift="none", drift_options=None, noise=0.0, incumbent="grouped", copy_gb_per_s=1e-3
    )
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
        make_simulated(**options)


SLICES = 8
QUIET = Conditions()


def running(record_bytes=1000.0, change=lambda native: None, load="closed", **limits):
    machine = load_machine("toy")
    native = native_machine(machine)
    change(native)
    regime, migration = LoadRegime.parse(load), Migration(record_bytes, **limits)
    index = RunningIndex(machine, native, [load_workload("ycsb-a")], SLICES, regime, migration)
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

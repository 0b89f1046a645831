"""Datasets and opponents of continual scheduling, and its planners."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, write_dataset
from pmoss_datasets.continual.domain import CONTINUAL, ORACLES, POLICIES
from pmoss_datasets.continual.fitting import Fit, co_tenants
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_datasets.continual.rules import Repair
from pmoss_datasets.continual.search import thorough_moves
from pmoss_datasets.continual.thorough import ThoroughPlanner
from pmoss_datasets.continual.worlds import World, free_time, improved
from pmoss_env.errors import DatasetError, PolicyError, UnsupportedError
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES, CoTenant
from tests.datasets.live import check_steps

ENV = {"machine": "toy", "slices": 8, "epochs": 5, "moves_per_epoch": 2, "noise": 1.0}
SERVER = {"slices": 64, "epochs": 12, "record_bytes": 250.0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(domain="continual", env=ENV, episodes=10, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("continual") / "data")


def test_every_step_is_the_live_one(dataset):
    assert dataset.metadata.id == (
        "pmoss/toy-continual-jobs-epochs-5-moves-per-epoch-2-noise-1-slices-8/mixed-v3"
    )
    tiles = dataset.machine.tiles
    assert dataset.metadata.parts == (9, tiles)
    for episode, _ in check_steps(CONTINUAL, dataset, lambda action: divmod(int(action), tiles)):
        assert "queries" in episode.infos


def test_no_oracle_is_among_the_data_and_the_opponents(dataset):
    assert not set(ORACLES) & {*dataset.metadata.policy_names, *CONTINUAL.opponents()}
    assert set(POLICIES) - set(ORACLES) <= set(CONTINUAL.opponents())


def test_a_view_of_single_actions_says_so_and_minaris_form_holds_the_parts(dataset, tmp_path):
    from pmoss_datasets.formats.d3rlpy import to_d3rlpy
    from pmoss_datasets.formats.minari import to_minari

    with pytest.raises(UnsupportedError, match="actions of 2 parts"):
        to_d3rlpy(dataset)
    # Where nothing is better than what scores 0 there is no scale.
    scores, (low, high) = dataset.metadata.reference_scores, CONTINUAL.references[:2]
    turned = {**scores, low: scores[high], high: scores[low]}
    metadata = replace(dataset.metadata, reference_scores=turned)
    shown = to_minari(write_dataset(tmp_path / "own", list(dataset), metadata), tmp_path / "shared")
    for episode, own in zip(shown, dataset, strict=True):
        assert all(shown.action_space.contains(action) for action in episode.actions)
        numbers = np.ravel_multi_index(tuple(episode.actions.T), dataset.metadata.parts)
        assert np.array_equal(numbers, own.actions)
        # As the environment, which never terminates.
        assert not episode.terminations.any()
        assert episode.truncations.tolist() == [False] * (own.steps - 1) + [True]


def test_actions_of_other_parts_are_refused(dataset, tmp_path):
    wrong = replace(dataset.metadata, parts=(9, 9))
    with pytest.raises(DatasetError, match="parts"):
        write_dataset(tmp_path / "wrong", list(dataset), wrong)


@pytest.mark.parametrize("name", ["random", *POLICIES])
def test_every_policy_plays_a_server_and_repeats(name):
    env = CONTINUAL.make_env({**SERVER, "epochs": 4, "noise": 1.0})
    first = CONTINUAL.play(env, CONTINUAL.policy(name), 3)
    assert first.illegal_actions == 0 and first.outcome > 0
    again = CONTINUAL.play(env, CONTINUAL.policy(name), 3)
    assert again.actions == first.actions and again.outcome == first.outcome
    with pytest.raises(UnsupportedError, match="budget"):
        CONTINUAL.policy(name, budget=3)


def test_who_knows_more_serves_more():
    env = CONTINUAL.make_env({**SERVER, "slices": 256, "epochs": 20})
    served = {
        name: np.mean([CONTINUAL.play(env, CONTINUAL.policy(name), s).outcome for s in range(3)])
        for name in ("stay", "planner", "law-oracle", "thorough-law-oracle", "thorough-now-oracle")
    }
    assert served["planner"] > 1.05 * served["stay"]
    assert served["law-oracle"] > 1.02 * served["planner"]
    assert served["thorough-law-oracle"] > 1.02 * served["law-oracle"]
    assert served["thorough-now-oracle"] > 1.02 * served["thorough-law-oracle"]


def test_planners_let_a_moving_load_move_on():
    task = {"drift": "moving-load", "drift_options": {"speed": 2.0}, "workload": "hot-range"}
    env = CONTINUAL.make_env({**task, "slices": 64, "epochs": 12})
    served = {
        name: CONTINUAL.play(env, CONTINUAL.policy(name), 3).outcome
        for name in ("planner", "thorough-planner", "delayed-oracle", "law-oracle")
    }
    # The law of this drift is what has been seen, and the last epoch alone does not tell it.
    for name in ("planner", "thorough-planner"):
        assert served[name] > 0.9 * served["law-oracle"] > 1.1 * served["delayed-oracle"]


@pytest.mark.parametrize(("drift", "load"), [("daily-mix", "closed"), ("daily-load", "open:30")])
def test_a_planner_without_noise_knows_what_the_last_epoch_was_like(drift, load):
    task = {"machine": "toy", "drift": drift, "load": load, "slices": 16, "incumbent": "grouped"}
    env = CONTINUAL.make_env({**task, "workload": "hot-range"})
    served = {
        name: CONTINUAL.play(env, CONTINUAL.policy(name), 3).outcome
        for name in ("stay", "planner", "delayed-oracle", "now-oracle")
    }
    assert served["planner"] == served["delayed-oracle"]
    assert min(served["planner"], served["now-oracle"]) > served["stay"]


TOY = {"machine": "toy", "slices": 16, "epochs": 6}


def calm_session():
    made = CONTINUAL.make_env({**TOY, "drift": "none"})
    made.reset(seed=3)
    return made, made.unwrapped.session


def disturbed(session, number):
    """A world with a busy core and a stream, another one for each number."""
    machine, world = session.machine, World(session)
    shares = np.zeros(machine.cores + machine.nodes)
    shares[machine.workers[number]] = 0.6
    shares[machine.cores + number % machine.nodes] = 0.5
    world.believe(co_tenants(machine, shares))
    return world, 1.0 - shares[machine.workers]


def test_its_moves_are_legal_and_serve_as_much_as_those_of_planners():
    env, session = calm_session()
    cores = session.cores_seen.copy()
    for number in range(3):
        world, speeds = disturbed(session, number)
        staying = world.place(cores)
        served = []
        for moves in (
            thorough_moves([world], np.ones(1), speeds[None], cores, 3, 0.0),
            improved([world], cores, 3, 0.0),
        ):
            assert 0 < len(moves) <= 3 and len({slice_ for slice_, _ in moves}) == len(moves)
            after = cores.copy()
            for slice_, core in moves:
                assert core in session.machine.workers and core != cores[slice_]
                after[slice_] = core
            served.append(world.place(after))
        assert served[0] > 0.99 * served[1] and served[0] > staying
    env.close()


def test_it_plays_legally_and_the_same_again():
    env = CONTINUAL.make_env({**TOY, "drift": "jobs", "noise": 1.0, "on_illegal": "raise"})
    played = [CONTINUAL.play(env, ThoroughPlanner(), 5) for _ in range(2)]
    assert len({(each.actions, each.outcome) for each in played}) == 1
    assert any(action < 16 * env.unwrapped.machine.tiles for action in played[0].actions)
    env.close()


SHORT = {"machine": "toy", "slices": 8, "epochs": 2}


class Planned(RoundPolicy):
    """Plans the same every time."""

    def __init__(self, moves):
        super().__init__()
        self._planned = moves

    def plan(self, cores):
        return self._planned


NOWHERE = [(-1, 2), (8, 2), (0, -1), (0, 8)]
NO_LISTS = [7, None, [1, 2], ["ab"], [(0.5, 1)], [(0, 1, 2)], [(0, None)], "moves"]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        *((plan, r"Planned: planned .*wanted is a list of \(slice, core\)") for plan in NO_LISTS),
        *(([move], "planned the move .*slices are 0 to 7, cores 0 to 7") for move in NOWHERE),
    ],
)
def test_what_is_no_list_of_moves_and_a_move_to_nowhere_are_named(plan, words):
    with pytest.raises(PolicyError, match=words):
        CONTINUAL.play(CONTINUAL.make_env(SHORT), Planned(plan), 0)


def test_moves_beyond_those_of_a_round_are_left_out():
    env = CONTINUAL.make_env({**SHORT, "moves_per_epoch": 1})
    core = int(env.unwrapped.machine.workers[0])
    assert CONTINUAL.play(env, Planned([(0, core), (1, core)]), 0).outcome > 0


def test_each_co_tenant_of_a_core_takes_of_what_the_others_leave():
    env = CONTINUAL.make_env({"slices": 128, "epochs": 3, "drift": "none"})
    env.reset(seed=1)
    session = env.unwrapped.session
    machine, cores, world = session.machine, session.cores_seen, World(session)
    twice, once = (int(core) for core in machine.workers[[3, 9]])
    tenants = [CoTenant("busy_core", twice, 0.5), CoTenant("busy_core", twice, 0.3)]
    tenants += [CoTenant("busy_core", once, 0.2), CoTenant("memory_stream", 1, 0.6)]
    free = free_time(machine, tenants)
    assert free[3] == 0.5 * 0.7 and free[9] == 0.8 and np.count_nonzero(free == 1.0) == 54
    world.believe(tenants)
    world.place(cores)
    elapsed, work = (
        np.bincount(cores, values, machine.cores)[machine.workers]
        for values in world.counters("elapsed_us", "task_clock_us")
    )
    used = elapsed > 0
    np.testing.assert_allclose(work[used] / elapsed[used], free[used], atol=1e-3)
    env.close()


@pytest.fixture(scope="module")
def session():
    env = CONTINUAL.make_env({"slices": 128, "epochs": 3, "drift": "none"})
    env.reset(seed=1)
    yield env.unwrapped.session
    env.close()


def counted(session, streams, cost):
    """(slices, H) counters under streams, on a machine whose misses cost ``cost`` of described."""
    machine, world = session.machine, World(session)
    world.believe(co_tenants(machine, np.concatenate([np.zeros(machine.cores), streams])))
    world.place(session.cores_seen)
    names = ("elapsed_us", "task_clock_us", "cycles_l3_miss", "llc_misses")
    counters = np.zeros((session.slices, len(COUNTER_NAMES)))
    for name, values in zip(names, world.counters(*names), strict=True):
        counters[:, COUNTER_INDEX[name]] = values
    counters[:, COUNTER_INDEX["cycles_l3_miss"]] *= cost
    return counters


def test_an_epoch_without_misses_teaches_nothing(session):
    cores = session.cores_seen
    fit, calm = Fit(World(session), calm=0.35), np.zeros(session.machine.nodes)
    fit.see(cores, np.zeros((cores.size, len(COUNTER_NAMES))))
    assert not fit.streams.any()
    fit.see(cores, counted(session, calm, 0.5))
    assert not fit.streams.any()


class Alike(Repair):
    """Foretells that every slice takes as long on every worker."""

    def __init__(self, provenance):
        super().__init__()
        self.env = SimpleNamespace(
            machine=SimpleNamespace(workers=np.array([3, 5], dtype=np.int32)),
            arguments=SimpleNamespace(moves_per_epoch=8),
            session=SimpleNamespace(
                snapshot=SimpleNamespace(provenance=provenance, throughput=0.125)
            ),
        )

    def predicted_times(self):
        return np.ones((8, 2))


def test_work_that_all_workers_share_goes_where_time_is_left():
    cores = np.array([3, 3, 3, 3, 5, 5, 5, 5], dtype=np.int32)
    policy = Alike({"worker_other_share": [0.5, 0.1], "routers": "workers"})
    np.testing.assert_allclose(policy.beside(), [2.4, 2.4])
    assert policy.plan(cores) == []

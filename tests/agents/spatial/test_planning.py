"""The parts of planners: a model of times, balancing, correcting, and placing slices anew."""

import numpy as np
import pytest
import torch

from pmoss_agents.spatial.planning.balancing import balance, longest_first, refine
from pmoss_agents.spatial.planning.model import GROUPS, MORE_GROUPS, ThroughputModel
from pmoss_agents.spatial.planning.pairs import Pairs
from pmoss_agents.spatial.planning.planner import fit_correction
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_agents.spatial.reconstruct import Reconstruct, candidates
from pmoss_datasets.policies import Measured
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.types import COUNTER_NAMES
from tests.agents.spatial.playing import mean_scores

NODES = np.array([0, 0, 0, 1, 1, 1])


def ends(times, chosen):
    return np.bincount(chosen, times[np.arange(len(chosen)), chosen], times.shape[1])


def test_the_longest_go_first_to_the_core_that_ends_earliest():
    times = np.repeat([[2.0], [4.0], [3.0], [3.0]], 2, axis=1)
    assert longest_first(times).tolist() == [0, 0, 1, 1]
    slower = np.tile([1.0, 3.0], (8, 1))
    assert ends(slower, longest_first(slower)).tolist() == [6, 6]


def balanced_plainly(times, start, limit):
    """balance() step by step: every move and every exchange of the fullest core is tried."""
    chosen = start.copy()
    load = ends(times, chosen)
    for _ in range(400):
        full, count = int(load.argmax()), np.bincount(chosen, minlength=times.shape[1])
        bound, best = load[full] * (1 - 1e-5), None
        mine, others = np.flatnonzero(chosen == full), np.flatnonzero(chosen != full)
        for slice_ in mine:
            left = load[full] - times[slice_, full]
            for core in range(times.shape[1]):
                if core != full and (limit is None or count[core] < limit):
                    later = max(left, load[core] + times[slice_, core])
                    if later < bound:
                        bound, best = later, [(slice_, full, core)]
        for slice_ in mine:
            left = load[full] - times[slice_, full]
            for other in others:
                core = chosen[other]
                load_after = load[core] - times[other, core] + times[slice_, core]
                later = max(left + times[other, full], load_after)
                if later < bound:
                    bound, best = later, [(other, core, full), (slice_, full, core)]
        if best is None:
            break
        for slice_, before, after in best:
            load[after] += times[slice_, after]
            load[before] -= times[slice_, before]
            chosen[slice_] = after
    return chosen


@pytest.mark.parametrize("seed", range(6))
def test_balancing_takes_the_change_after_which_two_cores_end_earliest(seed):
    rng = np.random.default_rng(seed)
    times, limit = rng.exponential(size=(24, 5)) + 0.2, (None, 6)[seed % 2]
    times = times.round(1) if seed % 3 == 0 else times  # with equal ones
    start = rng.permutation(np.arange(24) % 5)
    chosen = balance(times, start, max_per_core=limit)
    assert chosen.tolist() == balanced_plainly(times, start, limit).tolist()


def test_no_core_gets_more_than_it_may():
    times = np.tile([1.0, 100.0, 100.0], (9, 1))
    first = longest_first(times, max_per_core=3)
    assert np.bincount(first).tolist() == [3, 3, 3]
    assert np.bincount(balance(times, first, max_per_core=3)).tolist() == [3, 3, 3]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", [None, 11])
def test_random_exchanges_go_on_where_balancing_ends(seed, limit):
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(64, 6)) + 0.2
    first = balance(times, rng.permutation(np.arange(64) % 6), max_per_core=limit)

    def refined(tries):
        return refine(times, first, tries, np.random.default_rng(1), max_per_core=limit)

    plans = [refined(tries) for tries in (0, 20, 200)]
    tops = [ends(times, chosen).max() for chosen in plans]
    assert plans[0].tolist() == first.tolist()
    assert tops[0] >= tops[1] >= tops[2] and tops[0] > tops[2]
    assert refined(200).tolist() == plans[2].tolist()
    assert limit is None or np.bincount(plans[2], minlength=6).max() <= limit


def test_times_that_are_none_end_the_search():
    start, rng = np.array([2, 2, 1]), np.random.default_rng(0)
    assert refine(np.zeros((3, 3)), start, 5, rng).tolist() == [2, 2, 1]
    unknown, start = np.full((4, 2), np.nan), np.zeros(4, dtype=np.int64)
    assert np.array_equal(balance(unknown, start), start)
    assert refine(unknown, start, 5, rng).shape == (4,)


def test_a_slow_core_and_a_slow_node_are_separated():
    columns = np.tile([0, 1, 2, 3, 4], 40)
    core = fit_correction([np.where(columns == 0, 0.3, 0.0)], [columns], NODES).shift.mean(0)
    assert core[0] > 0.25 > 0.1 > abs(core[1:]).max()
    node = fit_correction([np.where(columns > 2, 0.3, 0.0)], [columns], NODES).shift.mean(0)
    assert node[5] > 0.1 > abs(node[:3]).max()


# ---- the model


def new_model(**settings):
    torch.manual_seed(0)
    return ThroughputModel(len(COUNTER_NAMES), width=24, features=8, demands=4, **settings)


@pytest.fixture(scope="module")
def incumbents(data):
    """The topology, counters and columns of two incumbents."""
    topology = Topology(data.machine)
    pairs = Pairs(data)
    return topology, pairs.counters[0][:2], pairs.columns[0][:2]


@pytest.mark.parametrize("groups", [GROUPS, MORE_GROUPS], ids=["usual", "more"])
@pytest.mark.parametrize("without", ["", *MORE_GROUPS])
def test_everywhere_predicts_what_forward_does(incumbents, groups, without):
    topology, counters, columns = incumbents
    model = new_model(inputs=[group for group in groups if group != without])
    model.set_scales(counters.flatten(0, 1))
    with torch.inference_mode():
        before = model.read(topology, counters[:1], columns[:1])
        table = model.everywhere(topology, before, columns[:1])
        assert table.shape == (16, len(topology.tiles))
        for slice_, worker in ((0, 0), (3, 2), (15, 5)):
            moved = columns[:1].clone()
            moved[0, slice_] = worker
            times, _ = model(topology, before, moved)
            torch.testing.assert_close(times[0, slice_], table[slice_, worker])


def test_order_and_names_of_slices_and_cores_do_not_matter(incumbents):
    topology, counters, columns = incumbents
    model = new_model()
    shuffled = torch.from_numpy(np.random.default_rng(0).permutation(16))
    # Workers of one cache and node may trade places.
    alike = torch.nonzero(topology.caches[0]).squeeze(1)
    trade = torch.arange(len(topology.tiles))
    trade[alike] = alike.flip(0)
    with torch.inference_mode():
        plain = model(topology, model.read(topology, counters, columns), columns)
        renamed = trade[columns[:, shuffled]]
        other = model(topology, model.read(topology, counters[:, shuffled], renamed), renamed)
    torch.testing.assert_close(plain[0][:, shuffled], other[0])
    torch.testing.assert_close(plain[1], other[1])


def test_the_fullest_core_bounds_the_throughput(incumbents):
    topology, counters, columns = incumbents
    model = new_model()
    with torch.inference_mode():
        before = model.read(topology, counters, columns)
        times, total = model(topology, before, columns)
        busy = torch.zeros(2, len(topology.tiles))
        busy.scatter_add_(1, columns, before.shares * times.exp())
        bound = model.scale - busy.amax(1).log()
        assert (total <= bound + 1e-6).all()
        model.sharpness.fill_(8.0)
        _, sharp = model(topology, before, columns)
    torch.testing.assert_close(sharp, bound, atol=0.02, rtol=0)


TOY = {"machine": "toy", "slices": 16, "interference": "busy_core"}
SMALL = {
    **{"judge_updates": 100, "updates": 105, "samples": 4},
    **{"width": 24, "features": 8, "heads": 2, "demands": 4},
}


@pytest.fixture(scope="module")
def agent(data):
    agent = Reconstruct(settings=SMALL, freed=4)
    agent.fit(data)
    return agent


def test_candidates_differ_in_what_was_freed_and_balance_better():
    rng = np.random.default_rng(0)
    times = rng.uniform(1, 2, (40, 5))
    start = np.zeros(40, dtype=np.int64)
    plans = candidates(times, start, np.random.default_rng(1), freed=10, number=6)
    assert plans.shape == (6, 40)
    assert all(1 <= np.count_nonzero(plan != start) <= 10 for plan in plans)
    assert len({plan.tobytes() for plan in plans}) > 1
    again = candidates(times, start, np.random.default_rng(1), freed=10, number=6)
    assert np.array_equal(plans, again)
    held = candidates(times, np.arange(40) % 5, rng, freed=10, number=6, max_per_core=8)
    assert all(np.bincount(plan).max() <= 8 for plan in held)


def test_it_improves_what_its_policy_plans(agent):
    policies = {"policy": agent.policy, "0": agent, "8": Measured(agent, 8)}
    mean = mean_scores(TOY, policies)
    assert mean["0"] > mean["policy"] and mean["8"] > mean["policy"]
    assert policies["8"].used == 8


def test_what_it_cannot_do_is_said():
    with pytest.raises(UnknownNameError, match="policy"):
        Reconstruct(policy="best-fit")
    with pytest.raises(DescriptionError, match="freed = 0"):
        Reconstruct(freed=0)
    with pytest.raises(DescriptionError, match="settings"):
        Reconstruct(settings=3)

"""Reconstruct: some slices are freed and placed anew while that helps."""

import numpy as np
import pytest

from pmoss_agents.spatial.reconstruct import Reconstruct, candidates
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import Measured
from pmoss_env.errors import DescriptionError, UnknownNameError

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
    full = np.arange(40) % 5
    held = candidates(times, full, rng, freed=10, number=6, max_per_core=8)
    assert all(np.bincount(plan).max() <= 8 for plan in held)


def test_it_improves_what_its_policy_plans(agent):
    policies = {"policy": agent.policy, "0": agent, "8": Measured(agent, 8)}
    rows = evaluate(TOY, policies, [5], 8, 200, 20).rows
    mean = {name: np.mean([row.score for row in rows if row.policy == name]) for name in policies}
    assert mean["0"] > mean["policy"]
    assert mean["8"] > mean["policy"]
    assert policies["8"].used == 8


def test_what_it_cannot_do_is_said():
    with pytest.raises(UnknownNameError, match="policy"):
        Reconstruct(policy="best-fit")
    with pytest.raises(DescriptionError, match="freed = 0"):
        Reconstruct(freed=0)
    with pytest.raises(DescriptionError, match="settings"):
        Reconstruct(settings=3)

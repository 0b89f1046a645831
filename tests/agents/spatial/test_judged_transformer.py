"""The Judged Transformer: its proposals, and which of them it takes."""

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.judged_transformer import JudgedTransformer
from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_datasets.domain import find_domain
from pmoss_env.errors import CheckpointError, DescriptionError
from tests.agents.spatial.playing import BUSY, TRANSFORMER, collected, play

SMALL = {**TRANSFORMER, "judge_updates": 60, "proposals": 24}
SPATIAL = find_domain("spatial")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collected(BUSY, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def agent(data):
    agent = JudgedTransformer(**SMALL)
    agent.fit(data)
    return agent


@pytest.fixture
def env(agent):
    env = SPATIAL.make_env({**BUSY, "on_illegal": "raise"})
    agent.check_env(env)
    yield env
    env.close()


def with_parts_of(agent, **changes):
    """Another one with the same weights."""
    other = JudgedTransformer(**{**SMALL, **changes})
    other.task, other.network, other.judge = agent.task, agent.network, agent.judge
    return other


def proposals(agent, env):
    """(n, T) what it would choose from in the episode that the environment is in."""
    drawn = []
    sample = agent._proposals
    agent._proposals = lambda *args: drawn.append(sample(*args)) or drawn[-1]
    agent.reset()
    agent.plan(env.context(np.random.default_rng(0)), env.order)
    del agent._proposals
    agent.reset()
    return drawn[0]


def best_throughput(env, plans):
    """Mq/s of the best schedule in (n, T) tiles in the order of the episode."""
    backend = env.session.new_backend()
    backend.set_instance(env.instance)
    results = []
    for plan in plans:
        cores = np.empty(plan.size, dtype=np.int32)
        cores[env.order] = env.machine.core_of_tile[plan]
        results.append(backend.place(env.machine.local_schedule(cores)))
    backend.close()
    return max(results)


def reached_shares(agent, env, target_share):
    """Throughput as a share of the best proposal's, where `target_share` of that is asked for."""
    shares = []
    for seed in range(8):
        env.reset(seed=seed)
        best = best_throughput(env, proposals(agent, env))
        agent.set_target(target_share * best)
        shares.append(SPATIAL.play(env, agent, seed).outcome / best)
    agent.set_target(None)
    return np.array(shares)


def test_its_parts_learn_as_they_do_alone(agent, data):
    plain = DecisionTransformer(**{**TRANSFORMER, "context": 1, "decoding": "sample"})
    plain.fit(data)
    judge = Surrogate(updates=SMALL["judge_updates"], pessimism=0.0)
    judge.fit(data)
    arrays = agent._state()[0]
    parts = {
        **plain._state()[0],
        **{f"judge/{name}": array for name, array in judge._state()[0].items()},
    }
    assert arrays.keys() == parts.keys()
    assert all(np.array_equal(arrays[name], parts[name]) for name in arrays)


def test_it_takes_what_is_predicted_nearest_to_the_target(agent, env):
    low, middle, high = (reached_shares(agent, env, share) for share in (0.2, 0.7, 1.0))
    assert low.mean() < middle.mean() < high.mean()
    assert abs(middle - 0.7).mean() < 0.15


def test_a_proposal_is_what_the_transformer_would_do(agent, env):
    """With next to no chance left, its steps are those of the greedy Decision Transformer."""
    judged = with_parts_of(agent, proposals=1, temperature=1e-6)
    plain = DecisionTransformer(**{**TRANSFORMER, "context": 1, "decoding": "greedy"})
    plain.task, plain.network = agent.task, agent.network
    for seed in range(3):
        for policy in (judged, plain):
            policy.set_target(20.0)
        planned = SPATIAL.play(env, judged, seed).actions
        assert planned == SPATIAL.play(env, plain, seed).actions


def test_without_a_context_it_acts_step_by_step(agent):
    assert len(play(agent, BUSY)[0]) == BUSY["slices"]


def test_what_it_cannot_do_is_said(agent, env, tmp_path):
    for field, value in (
        *(("context", 2), ("meta_position", "last"), ("decoding", "greedy"), ("reward", "slice")),
        *(("proposals", 0), ("spread", 1.0), ("judge_updates", 0)),
    ):
        with pytest.raises(DescriptionError, match=f"judged-transformer: {field} = "):
            JudgedTransformer(**{field: value})
    env.reset(seed=0)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        JudgedTransformer().plan(env.context(np.random.default_rng(0)), env.order)
    SPATIAL.play(env, agent, 0)
    with pytest.raises(CheckpointError, match="all 8 slices are placed"):
        agent.act({}, np.ones(4))

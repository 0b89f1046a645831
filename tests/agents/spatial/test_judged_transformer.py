"""The Judged Transformer: its proposals, and which of them it takes."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.decision_transformer import DecisionTransformer  # noqa: E402
from pmoss_agents.spatial.export import export_policy  # noqa: E402
from pmoss_agents.spatial.judged_transformer import JudgedTransformer  # noqa: E402
from pmoss_agents.spatial.surrogate import Surrogate  # noqa: E402
from pmoss_datasets.domain import find_domain  # noqa: E402
from pmoss_env.errors import CheckpointError, DescriptionError  # noqa: E402
from tests.agents.spatial.playing import check_resumed, collected  # noqa: E402
from tests.agents.spatial.small_transformer import SMALL as TRANSFORMER  # noqa: E402
from tests.agents.spatial.small_transformer import TOY, play  # noqa: E402

SMALL = {**TRANSFORMER, "judge_updates": 60, "proposals": 24}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collected(TOY, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def agent(data):
    agent = JudgedTransformer(**SMALL)
    agent.fit(data)
    return agent


@pytest.fixture
def env():
    env = find_domain("spatial").make_env({**TOY, "on_illegal": "raise"})
    yield env
    env.close()


def served(agent, env, share, seeds=range(8)):
    """What it serves where a share of what is foreseen is wanted, of that; one per episode."""
    found = []
    for seed in seeds:
        env.reset(seed=seed)
        context = env.context(np.random.default_rng(0), None)
        most = max(served_by(env, proposals(agent, context, env.order)))
        agent.set_target(share * most)
        found.append(find_domain("spatial").play(env, agent, seed).outcome / most)
    agent.set_target(None)
    return np.array(found)


def proposals(agent, context, order):
    """(n, T) what it would choose from."""
    found = []
    sample = agent._proposals
    agent._proposals = lambda *args: found.append(sample(*args)) or found[-1]
    agent.reset()
    agent.plan(context, order)
    del agent._proposals
    agent.reset()
    return found[0]


def served_by(env, plans):
    """Mq/s of schedules, (n, T) tiles in the order of the episode that the environment is in."""
    backend = env.session.new_backend()
    backend.set_instance(env.instance)
    results = []
    for plan in plans:
        cores = np.empty(plan.size, dtype=np.int32)
        cores[env.order] = env.machine.core_of_tile[plan]
        results.append(backend.place(env.machine.local_schedule(cores)))
    backend.close()
    return results


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


def test_it_takes_what_is_foretold_nearest_to_the_wish(agent, env):
    agent.check_env(env)
    low, middle, high = (served(agent, env, share) for share in (0.2, 0.7, 1.0))
    assert low.mean() < middle.mean() < high.mean()
    assert abs(middle - 0.7).mean() < 0.15


def test_without_a_wish_it_takes_what_promises_most(agent, env):
    agent.check_env(env)
    one = JudgedTransformer(**{**SMALL, "proposals": 1})
    one.task, one.network, one.judge = agent.task, agent.network, agent.judge
    most, any_ = (
        [find_domain("spatial").play(env, policy, seed).outcome for seed in range(8)]
        for policy in (agent, one)
    )
    assert np.mean(most) > 1.1 * np.mean(any_)


def test_a_proposal_is_what_the_transformer_would_do(agent, env):
    """With next to no chance left, its steps are those of the greedy Decision Transformer."""
    settings = {**SMALL, "proposals": 1, "temperature": 1e-6}
    judged = JudgedTransformer(**settings)
    judged.task, judged.network, judged.judge = agent.task, agent.network, agent.judge
    plain = DecisionTransformer(**{**TRANSFORMER, "context": 1, "decoding": "greedy"})
    plain.task, plain.network = agent.task, agent.network
    for seed in range(3):
        for one in (judged, plain):
            one.set_target(20.0)
        planned = find_domain("spatial").play(env, judged, seed).actions
        assert planned == find_domain("spatial").play(env, plain, seed).actions


def test_nobody_plans_for_it_and_it_acts_all_the_same(agent):
    chosen, _ = play(agent)[:2]
    assert len(chosen) == TOY["slices"]


def test_a_full_core_gets_no_more(agent):
    kwargs = {**TOY, "constraints": {"max_slices_per_core": 3}, "on_illegal": "raise"}
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **kwargs).unwrapped
    env.reset(seed=0)
    plans = proposals(agent, env.context(np.random.default_rng(0), None), env.order)
    assert max(np.bincount(plan).max() for plan in plans) == 3


def test_a_run_that_was_cut_ends_with_the_same_weights(data, tmp_path):
    settings = {**SMALL, "judge_updates": 3, "updates": 4}
    check_resumed(lambda: JudgedTransformer(**settings), data, tmp_path, (2, 5))


def test_what_it_cannot_do_is_said(agent, env, tmp_path):
    for field, value in (
        ("context", 2),
        ("meta_position", "last"),
        ("decoding", "greedy"),
        ("reward", "slice"),
        ("proposals", 0),
        ("spread", 1.0),
        ("judge_updates", 0),
    ):
        with pytest.raises(DescriptionError, match=f"judged-transformer: {field} = "):
            JudgedTransformer(**{field: value})
    env.reset(seed=0)
    context = env.context(np.random.default_rng(0), None)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        JudgedTransformer().plan(context, env.order)
    with pytest.raises(CheckpointError, match="a program of one step cannot judge"):
        export_policy(agent, tmp_path / "agent.pt")
    find_domain("spatial").play(env, agent, 0)
    with pytest.raises(CheckpointError, match="all 8 slices are placed"):
        agent.act({}, np.ones(4))

"""Losses of offline learners beside independent implementations of them, on one batch."""

import numpy as np
import pytest
import torch

from pmoss_datasets.formats.d3rlpy import import_d3rlpy

import_d3rlpy()

import pmoss_agents  # noqa: E402
from pmoss_agents.spatial.observations import KEYS  # noqa: E402
from pmoss_agents.spatial.xql import gumbel_loss  # noqa: E402
from tests.agents.spatial.playing import TOY, collected  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")
ROWS, GAMMA = 32, 0.9
SMALL = {"channels": 8, "width": 16, "batch_size": ROWS, "n_steps": 1, "gamma": GAMMA}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return collected(TOY, tmp_path_factory.mktemp("data"), episodes=12)


def learned(name, dataset, **changes):
    """An agent after two updates, and the batch of the third one."""
    settings = {**SMALL, "updates": 2, **changes}
    settings = {key: value for key, value in settings.items() if value is not None}
    agent = pmoss_agents.make(name, **settings)
    agent.fit(dataset)
    return agent, agent._source(dataset, np.arange(4), agent.task["reward_scale"]).at(range(ROWS))


def tensors(arrays):
    return [torch.from_numpy(array).clone() for array in arrays]


class Case:
    """A batch as TorchRL wants it: observations are the rows of tables of the agent's outputs."""

    def __init__(self, batch):
        from tensordict import TensorDict

        self.now, self.then = tensors(batch.observations), tensors(batch.next_observations)
        self.actions = torch.from_numpy(batch.actions[:, 0]).long()
        rows = torch.arange(ROWS)
        ended = torch.from_numpy(batch.terminals).bool()
        then = {
            "observation": rows + ROWS,
            "reward": torch.from_numpy(batch.rewards),
            "done": ended,
            "terminated": ended,
        }
        whole = {"observation": rows, "action": self.actions, "next": then}
        self.lesson = TensorDict(whole, batch_size=[ROWS])

    def table(self, function):
        """A module that gives the outputs of a function of observations, by their row."""
        with torch.no_grad():
            outputs = torch.cat([function(self.now), function(self.then)])
        return torch.nn.Embedding.from_pretrained(outputs, freeze=False)


def test_conservative_q_learning_is_that_of_torchrl(dataset):
    objectives = pytest.importorskip("torchrl.objectives")
    from tensordict.nn import TensorDictModule

    agent, batch = learned("cql", dataset, alpha=0.7, target_update_interval=1)
    case = Case(batch)
    # After its first update the target is a copy: a double DQN is then a DQN, as TorchRL's.
    modules = agent._learner.modules
    modules.targ_q_funcs.load_state_dict(modules.q_funcs.state_dict())
    table = case.table(lambda shown: modules.q_funcs[0](shown).q_value)
    network = TensorDictModule(table, in_keys=["observation"], out_keys=["action_value"])
    theirs = objectives.DiscreteCQLLoss(
        value_actor(network), loss_function="smooth_l1", action_space="categorical"
    )
    theirs.make_value_estimator(gamma=GAMMA)
    expected = theirs(case.lesson)
    losses = agent._update(batch, 3, torch.device("cpu"))
    # TorchRL halves the temporal difference's loss.
    td_loss, penalty = 2 * expected["loss_qvalue"].item(), expected["loss_cql"].item()
    np.testing.assert_allclose(losses["td_loss"], td_loss, rtol=1e-4)
    np.testing.assert_allclose(losses["conservative_loss"], penalty, rtol=1e-4)
    np.testing.assert_allclose(losses["loss"], td_loss + 0.7 * penalty, rtol=1e-4)


def value_actor(network):
    from tensordict.nn import TensorDictSequential
    from torchrl.modules import QValueModule

    choice = QValueModule(action_space="categorical", action_value_key="action_value")
    return TensorDictSequential(network, choice)


class Imitator(torch.nn.Module):
    """A policy as d3rlpy has it: a distribution over tiles that knows no mask."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def forward(self, observation):
        return torch.distributions.Categorical(logits=self.policy.scores(observation))


def lesson_of(batch):
    """A batch as d3rlpy wants it."""
    from d3rlpy.torch_utility import TorchMiniBatch

    parts = {
        name: tensors(value) if isinstance(value, tuple) else torch.from_numpy(value)
        for name, value in vars(batch).items()
    }
    return TorchMiniBatch(**parts, returns_to_go=torch.zeros(ROWS, 1), device="cpu")


@pytest.mark.parametrize("threshold", [0.3, 0.9])
def test_batch_constrained_q_learning_is_that_of_d3rlpy(threshold, dataset):
    """Where every tile is allowed, the mask changes nothing."""
    from d3rlpy.algos.qlearning.torch import bcq_impl

    agent, batch = learned("bcq", dataset, threshold=threshold)
    for shown in (batch.observations, batch.next_observations):
        shown[KEYS.index("position_mask")][:] = 1
    ours = agent._learner
    modules = dict(vars(ours.modules), imitator=Imitator(ours.modules.imitator))
    theirs = object.__new__(bcq_impl.DiscreteBCQImpl)
    theirs.__dict__.update(vars(ours), _modules=bcq_impl.DiscreteBCQModules(**modules))
    lesson = lesson_of(batch)
    chosen = [each.inner_predict_best_action(lesson.next_observations) for each in (ours, theirs)]
    torch.testing.assert_close(*chosen)
    expected = theirs.compute_loss(lesson, theirs.compute_target(lesson))
    losses = agent._update(batch, 3, torch.device("cpu"))
    for name in ("td_loss", "imitator_loss", "loss"):
        np.testing.assert_allclose(losses[name], getattr(expected, name).item(), rtol=1e-4)


def test_behaviour_cloning_is_that_of_d3rlpy(dataset):
    from d3rlpy.models.torch import compute_discrete_imitation_loss

    agent, batch = learned("bc", dataset, n_steps=None, gamma=None)
    lesson, imitator = lesson_of(batch), Imitator(agent._learner.modules.imitator)
    expected = compute_discrete_imitation_loss(
        imitator, lesson.observations, lesson.actions.long(), 0.0
    )
    losses = agent._update(batch, 3, torch.device("cpu"))
    np.testing.assert_allclose(losses["loss"], expected.loss.item(), rtol=1e-5)


def implicit_losses(agent, batch):
    """TorchRL's losses of implicit Q-learning for the networks of an agent."""
    objectives = pytest.importorskip("torchrl.objectives")
    from tensordict.nn import ProbabilisticTensorDictModule as Sampled
    from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule

    case, modules = Case(batch), agent._learner.modules

    def reading(function, out):
        return TensorDictModule(case.table(function), in_keys=["observation"], out_keys=[out])

    odds = reading(modules.policy.scores, "logits")
    drawn = Sampled(["logits"], ["action"], distribution_class=torch.distributions.Categorical)
    tables = [reading(lambda x, q=q: q(x).q_value, "state_action_value") for q in modules.q_funcs]
    theirs = objectives.DiscreteIQLLoss(
        ProbabilisticTensorDictSequential(odds, drawn),
        tables,
        value_network=reading(modules.value_func, "state_value"),
        num_qvalue_nets=len(tables),
        loss_function="smooth_l1",
        action_space="categorical",
        temperature=agent.config.weight_temp,
        expectile=getattr(agent.config, "expectile", 0.5),
    )
    theirs.make_value_estimator(gamma=GAMMA)
    # Targets were copies of the Q-functions.
    modules.targ_q_funcs.load_state_dict(modules.q_funcs.state_dict())
    return {name: value.item() for name, value in theirs(case.lesson).items() if value.ndim == 0}


@pytest.mark.parametrize(("name", "settings"), [("iql", {"expectile": 0.8}), ("xql", {})])
def test_implicit_q_learning_is_that_of_torchrl(name, settings, dataset):
    agent, batch = learned(name, dataset, **settings)
    expected = implicit_losses(agent, batch)
    losses = agent._update(batch, 3, torch.device("cpu"))
    np.testing.assert_allclose(losses["q_loss"], expected["loss_qvalue"], rtol=1e-4)
    np.testing.assert_allclose(losses["policy_loss"], expected["loss_actor"], rtol=1e-4)
    same = name == "iql"  # all but the loss of V is alike
    assert same == np.isclose(losses["value_loss"], expected["loss_value"], rtol=1e-4)


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_gumbel_regression_ends_at_the_soft_maximum(beta):
    """The minimum has a closed form, and other values have a higher loss."""
    q = torch.from_numpy(np.random.default_rng(0).normal(size=(1000, 1)))
    best = beta * (torch.logsumexp(q / beta, 0) - np.log(len(q)))

    def slope(value, max_exponent=80.0):
        value = value.clone().requires_grad_()
        gumbel_loss(q - value, beta, max_exponent).backward()
        return value.grad.item()

    assert abs(slope(best)) < 1e-9 < abs(slope(best + 0.1))
    # Without exponents that are clipped or scaled it is the paper's formula.
    z = (q - q.max() - beta) / beta
    plain = (z.exp() - z - 1).mean() * np.exp(1.0)
    torch.testing.assert_close(gumbel_loss(q - q.max() - beta, beta, 80.0), plain)
    # Far above the clip there is still a pull.
    assert slope(best - 50.0, max_exponent=7.0) < -0.5 / beta


class Linear:
    """Q-functions of an agent that d3rlpy asks about actions which are points of the simplex."""

    def __init__(self, q_functions):
        self.q_functions = q_functions

    def compute_expected_q(self, observation, point, reduction):
        assert reduction == "min"
        values = [function(observation).q_value.detach() for function in self.q_functions]
        return torch.stack([(point * each).sum(1, keepdim=True) for each in values]).amin(0)

    compute_target = compute_expected_q


@pytest.mark.parametrize("critic_beta", [0.0, 0.3])
def test_rebrac_is_that_of_d3rlpy(critic_beta, dataset):
    """d3rlpy's is for continuous actions: here they are the probabilities of tiles."""
    from types import SimpleNamespace

    from d3rlpy.algos.qlearning.torch.rebrac_impl import ReBRACImpl

    settings = {"actor_beta": 0.2, "critic_beta": critic_beta, "updates": 4}
    agent, batch = learned("rebrac", dataset, **settings)
    lesson, modules = lesson_of(batch), agent._learner.modules

    def act(observation):
        odds = modules.policy.scores(observation).softmax(1)
        return SimpleNamespace(mu=odds, squashed_mu=odds)

    tiles = len(modules.policy.scores(lesson.observations)[0])
    corners = torch.nn.functional.one_hot(lesson.actions.long()[:, 0], tiles)
    next_corners = torch.nn.functional.one_hot(lesson.next_actions.long()[:, 0], tiles)
    theirs = object.__new__(ReBRACImpl)
    theirs.__dict__.update(
        {"_actor_beta": 0.2, "_critic_beta": critic_beta},
        _target_smoothing_sigma=0.0,
        _target_smoothing_clip=1.0,
        _modules=SimpleNamespace(targ_policy=act),
        _q_func_forwarder=Linear(modules.q_funcs),
        _targ_q_func_forwarder=Linear(modules.targ_q_funcs),
    )
    asked = {"next_observations": lesson.next_observations, "next_actions": next_corners}
    then = theirs.compute_target(SimpleNamespace(**asked, device="cpu"))
    goal = lesson.rewards + GAMMA * (1 - lesson.terminals) * then
    q_loss = sum(
        torch.nn.functional.smooth_l1_loss(
            function(lesson.observations).q_value.gather(1, lesson.actions.long()), goal
        )
        for function in modules.q_funcs
    )
    now = SimpleNamespace(observations=lesson.observations, actions=corners)
    expected = theirs.compute_actor_loss(now, act(lesson.observations)).actor_loss
    losses = agent._update(batch, 4, torch.device("cpu"))
    np.testing.assert_allclose(losses["q_loss"], q_loss.item(), rtol=1e-4)
    np.testing.assert_allclose(losses["policy_loss"], expected.item(), rtol=1e-4)
    assert "policy_loss" not in agent._update(batch, 5, torch.device("cpu"))


def test_cdqac_is_made_of_the_losses_of_others(dataset):
    """Quantile regression of sb3_contrib, the penalty of TorchRL, a categorical of torch."""
    sb3 = pytest.importorskip("sb3_contrib.common.utils")
    objectives = pytest.importorskip("torchrl.objectives")
    from tensordict.nn import TensorDictModule

    settings = {"quantiles": 6, "alpha": 0.3, "entropy": 0.2, "policy_delay": 4, "updates": 4}
    agent, batch = learned("cdqac", dataset, **settings)
    case, modules = Case(batch), agent._learner.modules
    rewards, ended = torch.from_numpy(batch.rewards), torch.from_numpy(batch.terminals)
    with torch.no_grad():
        odds = torch.distributions.Categorical(logits=modules.policy(case.then)).probs
        first, second = (target(case.then) for target in modules.targ_q_funcs)
    goal = torch.zeros(ROWS, 6)
    for row, tile in np.ndindex(*odds.shape):
        lower = min(first, second, key=lambda pair: pair[0][row, tile].mean())
        goal[row] += odds[row, tile] * lower[0][row, tile]
    goal = rewards + GAMMA * (1 - ended) * goal
    regression = penalty = 0.0
    for critic in modules.q_funcs:
        own = critic(case.now)[0][torch.arange(ROWS), case.actions]
        regression += sb3.quantile_huber_loss(own, goal).item()
        table = case.table(lambda shown, critic=critic: critic(shown)[1])
        network = TensorDictModule(table, in_keys=["observation"], out_keys=["action_value"])
        theirs = objectives.DiscreteCQLLoss(value_actor(network), action_space="categorical")
        theirs.make_value_estimator(gamma=GAMMA)
        penalty += 0.3 * theirs(case.lesson)["loss_cql"].item()
    policy = torch.distributions.Categorical(logits=modules.policy(case.now))
    values = torch.stack([critic(case.now)[1] for critic in modules.q_funcs]).amin(0)
    worth = torch.where(policy.probs > 0, policy.probs * values, 0).sum(1) + 0.2 * policy.entropy()
    losses = agent._update(batch, 4, torch.device("cpu"))
    np.testing.assert_allclose(losses["quantile_loss"], regression, rtol=1e-4)
    np.testing.assert_allclose(losses["conservative_loss"], penalty, rtol=1e-4)
    np.testing.assert_allclose(losses["policy_loss"], -worth.mean().item(), rtol=1e-4)


def test_equal_tiles_are_scored_alike_by_pairs(dataset):
    """No weight of the pairs' layers belongs to a place on the chip."""
    agent, batch = learned("cdqac", dataset, quantiles=3)
    encoded = agent._learner.modules.policy.encoder.encode(tensors(batch.observations))
    order = torch.randperm(encoded.features.shape[1])
    elsewhere = encoded._replace(features=encoded.features[:, order])
    pairs = agent._learner.modules.q_funcs[0].pairs
    torch.testing.assert_close(pairs(elsewhere), pairs(encoded)[:, order])

"""Agents learn through d3rlpy: their losses, masks and optimum; the same bits, stopped or not."""

import gymnasium
import numpy as np
import pytest
import torch

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents.configs import read_config
from pmoss_agents.spatial.bc import imitation_loss
from pmoss_agents.spatial.d3rlpy_agent import D3rlpyAgent
from pmoss_agents.spatial.encoders import FORBIDDEN
from pmoss_agents.spatial.episodes import best_episodes
from pmoss_agents.spatial.observations import KEYS
from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_datasets.formats.d3rlpy import import_d3rlpy
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import CheckpointError, DatasetError
from tests.agents.spatial.playing import TOY, optimum, play

import_d3rlpy()

NAMES = ["bc", "percentile-bc", "cql", "bcq", "iql"]
SMALL = {"channels": 8, "width": 16, "batch_size": 64, "updates": 200, "learning_rate": 3e-3}


def collected(folder, *behaviours):
    recipe = Recipe(env=TOY, episodes=120, seed=1, behaviours=behaviours, reference_episodes=0)
    return collect(recipe, folder / "dataset")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    search = Behaviour("local-search", 1, budget=100)
    return collected(tmp_path_factory.mktemp("data"), Behaviour("random", 1), search)


@pytest.fixture(scope="module")
def good_dataset(tmp_path_factory):
    """Behaviour cloning does as the data do: only good data can make it good."""
    return collected(tmp_path_factory.mktemp("data"), Behaviour("local-search", 1, budget=100))


@pytest.fixture(scope="module")
def fitted(dataset, good_dataset):
    # Discrete IQL weighs actions by differences of values, which take longest to be learned.
    longer = {"iql": {"updates": 400}}
    agents = {name: pmoss_agents.make(name, **{**SMALL, **longer.get(name, {})}) for name in NAMES}
    for name, agent in agents.items():
        agent.fit(good_dataset if name == "bc" else dataset)
    return agents


def arrays(agent):
    return agent._state()[0]


def same(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_reaches_the_optimum_of_the_toy(name, fitted, dataset):
    best = optimum()
    assert dataset.column("final_throughput").mean() < 0.9 * best
    assert play(fitted[name])[1] > 0.998 * best


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_gets_a_gradient(name, dataset):
    agent = pmoss_agents.make(name, **{**SMALL, "updates": 1})
    agent.fit(dataset)
    modules = vars(agent._learner.modules)
    trained = {
        parameter
        for part in modules.values()
        if not isinstance(part, torch.nn.Module)
        for group in part.optim.param_groups
        for parameter in group["params"]
    }
    for module, part in modules.items():
        if isinstance(part, torch.nn.Module):
            for parameter_name, parameter in part.named_parameters():
                where = f"{module}.{parameter_name}"
                assert (parameter in trained) != module.startswith("targ_"), where
                if parameter in trained:
                    assert parameter.grad is not None, where
                    assert parameter.grad.abs().sum() > 0, where


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_weights_and_the_global_state_is_left_alone(name, dataset):
    few = {**SMALL, "updates": 4}
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    one = pmoss_agents.make(name, **few)
    one.fit(dataset)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002 (nobody else's chance matters)
    two, other = pmoss_agents.make(name, **few), pmoss_agents.make(name, **few, seed=1)
    two.fit(dataset)
    other.fit(dataset)
    same(arrays(one), arrays(two))
    assert any(not np.array_equal(v, arrays(other)[k]) for k, v in arrays(one).items())


@pytest.mark.parametrize("name", NAMES)
def test_resumed_training_equals_uninterrupted(name, dataset, tmp_path):
    few = {**SMALL, "updates": 6}
    whole = pmoss_agents.make(name, **few)
    whole.fit(dataset)

    def stop(done, total, metrics):
        if done == 3:
            raise KeyboardInterrupt

    path = tmp_path / "agent.safetensors"
    with pytest.raises(KeyboardInterrupt):
        pmoss_agents.make(name, **few).fit(dataset, progress=stop, checkpoint=path)
    resumed, done = pmoss_agents.load(path), []
    resumed.fit(dataset, progress=lambda d, t, m: done.append(d))
    assert done == [4, 5, 6]
    same(arrays(whole), arrays(resumed))


def test_a_cut_update_is_not_saved(dataset, tmp_path, monkeypatch):
    path, original, calls = tmp_path / "agent.safetensors", D3rlpyAgent._update, []

    def cut(self, *args):
        told = original(self, *args)
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return told

    monkeypatch.setattr(D3rlpyAgent, "_update", cut)
    with pytest.raises(KeyboardInterrupt):
        pmoss_agents.make("bc", **SMALL, save_every=2).fit(dataset, checkpoint=path)
    assert pmoss_agents.load(path).updates == 2


@pytest.mark.parametrize("name", NAMES)
def test_forbidden_tiles_are_never_chosen(name, fitted):
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY)
    rng = np.random.default_rng(0)
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        done = False
        while not done:
            mask = info["action_mask"] * (rng.random(info["action_mask"].size) < 0.3)
            if not mask.any():
                mask = info["action_mask"]
            action = fitted[name].act(observation, mask)
            assert mask[action]
            observation, _, done, _, info = env.step(action)


@pytest.mark.parametrize("name", NAMES)
def test_constraints_hold_without_remapping(name, tmp_path):
    kwargs = {**TOY, "slices": 12, "constraints": {"max_slices_per_core": 2}}
    recipe = Recipe(env=kwargs, episodes=8, tier="heuristic", reference_episodes=0)
    agent = pmoss_agents.make(name, **{**SMALL, "updates": 5})
    metrics = agent.fit(collect(recipe, tmp_path / "d"))
    # Where a forbidden tile counted, a loss would be of the size of FORBIDDEN.
    assert all(abs(value) < 1e3 for value in metrics.values())
    assert np.bincount(play(agent, kwargs=kwargs)[0]).max() == 2


def test_the_next_state_counts_by_its_mask(fitted, dataset):
    """The targets of CQL and BCQ are the values of tiles that the next state allows."""
    for name in ("cql", "bcq"):
        agent = fitted[name]
        batch = agent._source(dataset, np.arange(4), 1.0).at(range(16))
        now, then = (
            [torch.from_numpy(array).clone() for array in arrays]
            for arrays in (batch.observations, batch.next_observations)
        )
        then[KEYS.index("position_mask")][:] = 0
        then[KEYS.index("position_mask")][:, 0, 3] = 1
        impl = agent._learner
        made = type("Batch", (), {"observations": now, "next_observations": then})
        target = impl.compute_target(made)
        values = impl._targ_q_func_forwarder.compute_expected_q(then)
        torch.testing.assert_close(target[:, 0], values[:, 3])
        assert (values[:, :3] == FORBIDDEN).all()


def test_the_imitation_loss_is_over_allowed_tiles(fitted, dataset):
    agent = fitted["bc"]
    batch = agent._source(dataset, np.arange(2), 1.0).at(range(16))
    x = [torch.from_numpy(array) for array in batch.observations]
    actions = torch.from_numpy(batch.actions)
    imitator = agent._learner.modules.imitator
    mask = x[KEYS.index("position_mask")].reshape(16, -1)
    imitation, penalty = imitation_loss(imitator, x, actions)
    logits = imitator.scores(x).detach().numpy().astype(np.float64)
    legal = mask.numpy() > 0
    expected = [
        np.log(np.exp(row[mask]).sum()) - row[int(action)]
        for row, mask, action in zip(logits, legal, batch.actions[:, 0], strict=True)
    ]
    np.testing.assert_allclose(imitation.item(), np.mean(expected), rtol=1e-5)
    np.testing.assert_allclose(penalty.item(), np.mean(logits[legal] ** 2), rtol=1e-5)
    learnable = agent._learner
    learnable._beta = 0.5
    told = learnable.compute_loss(x, actions)
    np.testing.assert_allclose(told.loss.item(), (imitation + 0.5 * penalty).item(), rtol=1e-6)


def test_the_conservative_loss_is_over_allowed_tiles(fitted, dataset):
    agent = fitted["cql"]
    batch = agent._source(dataset, np.arange(2), 1.0).at(range(16))
    x = [torch.from_numpy(array) for array in batch.observations]
    impl = agent._learner
    loss = impl._compute_conservative_loss(x, torch.from_numpy(batch.actions).long())
    values = impl._q_func_forwarder.compute_expected_q(x).detach().numpy().astype(np.float64)
    legal = x[KEYS.index("position_mask")].reshape(16, -1).numpy() > 0
    expected = [
        np.log(np.exp(row[mask]).sum()) - row[int(action)]
        for row, mask, action in zip(values, legal, batch.actions[:, 0], strict=True)
    ]
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-4)


def test_the_committed_penalty_is_not_drowned_by_the_values(tmp_path):
    """One rule's data: values cannot tell tiles that no data take, the penalty has to."""
    data = collected(tmp_path, Behaviour("best-fit", 1))
    config = read_config("cql", "skylake-x-8n-btree-ycsb-a-memory-stream")
    config.pop("agent", None)
    of_chance = np.log(data.machine.workers.size)

    def loss(**changes):
        settings = {**config, **SMALL, "updates": 60, **changes}
        return pmoss_agents.make("cql", **settings).fit(data)["conservative_loss"]

    assert loss() < 0.65 * of_chance < loss(alpha=0.1)


def test_the_losses_of_implicit_q_learning(dataset):
    """By hand, from the weights before an update."""
    settings = {"expectile": 0.8, "weight_temp": 2.0, "max_weight": 1.5, "gamma": 0.9}
    agent = pmoss_agents.make("iql", **{**SMALL, **settings, "updates": 3, "n_steps": 2})
    agent.fit(dataset)
    batch = agent._source(dataset, np.arange(4), agent.task["reward_scale"]).at(range(32))
    now, then = (
        [torch.from_numpy(array) for array in arrays]
        for arrays in (batch.observations, batch.next_observations)
    )
    rows, actions = np.arange(32), batch.actions[:, 0].astype(int)
    modules = agent._learner.modules
    with torch.no_grad():
        own, target = (
            np.stack([function(now).q_value.numpy()[rows, actions] for function in functions])
            for functions in (modules.q_funcs, modules.targ_q_funcs)
        )
        value, next_value = (modules.value_func(x).numpy()[:, 0] for x in (now, then))
        log_odds = modules.policy.scores(now).log_softmax(1).numpy()[rows, actions]
    advantage = target.min(0) - value
    side = np.where(advantage < 0, 0.2, 0.8)
    wanted = batch.rewards[:, 0] + 0.9 ** batch.intervals[:, 0] * next_value * (
        1 - batch.terminals[:, 0]
    )
    error = np.abs(own - wanted)
    huber = np.where(error < 1, 0.5 * error**2, error - 0.5)
    weight = np.minimum(np.exp(2.0 * advantage), 1.5)
    told = agent._update(batch, 3, torch.device("cpu"))
    expected = {
        "value_loss": (side * advantage**2).mean(),
        "q_loss": huber.mean(axis=1).sum(),
        "policy_loss": -(weight * log_odds).mean(),
    }
    for name, loss in expected.items():
        np.testing.assert_allclose(told[name], loss, rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(told["loss"], sum(expected.values()), rtol=1e-4)
    assert {0.0, 1.0} == set(batch.terminals[:, 0])


@pytest.mark.parametrize("name", ["cql", "bcq"])
def test_what_d3rlpy_predicts_is_what_act_chooses(name, fitted):
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **TOY)
    observation, info = env.reset(seed=1)
    agent, done = fitted[name], False
    while not done:
        action = agent.act(observation, info["action_mask"])
        seen = [torch.tensor(observation[key], dtype=torch.float32)[None] for key in KEYS]
        assert agent._learner.predict_best_action(seen)[0] == action
        observation, _, done, _, info = env.step(action)


def test_percentile_bc_keeps_the_best(fitted, dataset):
    agent = fitted["percentile-bc"]
    assert agent.config.keep_best == 0.1
    finals = dataset.column("final_throughput")
    kept = best_episodes(dataset, 0.1)
    assert finals[kept].min() >= np.sort(finals)[-12]


def test_the_papers_observation_is_learned_from_and_nothing_else_is_seen(tmp_path):
    paper = {**TOY, "observation": "paper"}
    data = collect(Recipe(env=paper, episodes=6, reference_episodes=0), tmp_path / "paper")
    for name in ("cql", "bc"):
        agent = pmoss_agents.make(name, **{**SMALL, "updates": 3})
        agent.fit(data)
        env = SpatialSchedulingEnv(**paper)
        agent.check_env(env)
        seen, info = env.reset(seed=3)
        full, _ = SpatialSchedulingEnv(**TOY).reset(seed=3)
        assert agent.act(seen, info["action_mask"]) == agent.act(full, info["action_mask"])


def test_wrong_datasets_are_refused(fitted, dataset, tmp_path):
    agent = pmoss_agents.make("cql", **SMALL)
    actions = dataset.column("actions")
    try:
        dataset._columns["actions"] = np.full_like(actions, actions[0, 0])
        with pytest.raises(DatasetError, match="is the only one in all 120 episodes"):
            agent.fit(dataset)
    finally:
        dataset._columns["actions"] = actions
    nine = Recipe(env={**TOY, "slices": 9}, episodes=2, reference_episodes=0)
    with pytest.raises(CheckpointError, match=r"slices = 8, but the dataset .* has slices = 9"):
        fitted["cql"].fit(collect(nine, tmp_path / "nine"))
    assert not agent.task

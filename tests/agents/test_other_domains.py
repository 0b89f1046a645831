"""Agents of access paths and threads, and the ridge regressions in them."""

import copy

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmoss_agents
import pmoss_env  # noqa: F401
from pmoss_agents import OnlineAgent
from pmoss_agents.access_path.base import EXPANSIONS
from pmoss_agents.ridge import RidgeArms
from pmoss_agents.threads import run_episode
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.errors import CheckpointError, DescriptionError

NAMES = ("always-cpu", "always-offload", "linear-cost", "decision-tree", "linucb")


@pytest.fixture(scope="module")
def dataset():
    return collect_scans(AccessPathRecipe(combinations=60, repeats=3, noise=0.0))


def env(**kwargs):
    return gymnasium.make("pmoss/AccessPath-v0", scans=12, **kwargs)


@pytest.mark.parametrize("name", NAMES)
def test_every_agent_fits_acts_and_comes_back_from_its_file(name, dataset, tmp_path):
    agent = pmoss_agents.make(name)
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.safetensors")
    assert 0 <= agent.fit(dataset)["above_best"] < 1
    agent.save(tmp_path / "agent.safetensors")
    loaded = pmoss_agents.load(tmp_path / "agent.safetensors")
    assert loaded.dataset == {"id": dataset.id, "checksum": dataset.checksum}
    features, _ = dataset.pairs()
    assert np.array_equal(agent.choose(features), loaded.choose(features))
    world = env()
    loaded.check_env(world)
    observation, info = world.reset(seed=0)
    loaded.reset()
    done = False
    while not done:
        path = loaded.act(observation, info["action_mask"])
        assert info["action_mask"][path]
        observation, reward, done, _, info = world.step(path)
        loaded.observe(reward)


def test_the_pair_of_regressions_is_the_least_squares_solution(dataset):
    agent = pmoss_agents.make("linear-cost")
    features, times = dataset.pairs()
    agent.learn(features, times)
    x = EXPANSIONS["paper"](features)
    for path in range(2):
        solution = np.linalg.lstsq(x, times[:, path], rcond=None)[0]
        assert np.allclose(agent.predict_us(features)[:, path], x @ solution)
    assert np.array_equal(agent.choose(features), agent.predict_us(features).argmin(axis=1))


@pytest.mark.parametrize("name", ["linear-cost", "linucb"])
def test_refinement_equals_fitting_to_all_at_once(name, dataset):
    features, times = dataset.pairs()
    all_at_once, refined = pmoss_agents.make(name), pmoss_agents.make(name)
    all_at_once.learn(features, times)
    refined.learn(features[:90], times[:90])
    if name == "linear-cost":  # both must scale alike
        all_at_once.scale = refined.scale
        all_at_once.models = type(refined.models)(2, refined.scale.size, 1e-9)
        x = EXPANSIONS["paper"](features) / refined.scale
        for path in range(2):
            all_at_once.models.absorb(path, x, times[:, path] * 1e-3)
    mask = np.ones(2, np.int8)
    for row, pair in zip(features[90:], times[90:], strict=True):
        refined.act({"features": row.astype(np.float64), "action_mask": mask})
        for path in range(2):
            refined._last = (row[None], path)
            refined.observe(-1e-3 * pair[path])
    assert np.allclose(refined.models.theta, all_at_once.models.theta, rtol=1e-4, atol=1e-6)


def test_the_tree_walks_as_scikit_learn_does(dataset):
    from sklearn.tree import DecisionTreeClassifier

    features, times = dataset.pairs()
    agent = pmoss_agents.make("decision-tree", depth=4, least_leaf=5)
    agent.learn(features, times)
    tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
    tree.fit(features.astype(np.float32), times.argmin(axis=1))
    rng = np.random.default_rng(0)
    others = features.min(axis=0) + rng.random((500, 5)) * np.ptp(features, axis=0)
    assert np.array_equal(agent.choose(others), tree.predict(others.astype(np.float32)))


def test_the_oracle_takes_the_least_time():
    world = env()
    agent = pmoss_agents.make("oracle")
    with pytest.raises(DescriptionError, match="check_env"):
        agent.act({}, None)
    agent.check_env(world)
    observation, info = world.reset(seed=3)
    for _ in range(12):
        times = world.unwrapped.path_times_us()
        observation, _, _, _, info = world.step(agent.act(observation, info["action_mask"]))
        assert info["run_time_us"] == times.min()


@pytest.mark.parametrize("name", ["linear-cost", "decision-tree", "linucb"])
def test_environments_that_an_agent_would_misread_are_refused(name):
    dataset = collect_scans(AccessPathRecipe(combinations=20, repeats=2, relaxed=True))
    agent = pmoss_agents.make(name, **({"paths": 3} if name == "linucb" else {}))
    agent.learn(*dataset.pairs())
    agent.check_env(env(relaxed=True))
    with pytest.raises(CheckpointError, match="3 paths, and this environment offers 2"):
        agent.check_env(env())
    if name == "decision-tree":
        agent.check_env(env(relaxed=True, reward="saving"))
    else:
        with pytest.raises(CheckpointError, match="learns from run times"):
            agent.check_env(env(relaxed=True, reward="saving"))


def test_linucb_learns_without_any_data_and_heeds_the_mask():
    rng = np.random.default_rng(0)
    agent = pmoss_agents.make("linucb")
    # Copies take as long from everywhere; loads take longer, the farther the memory is.
    chosen = []
    for _ in range(600):
        size, latency = 10 + 500.0 * rng.random(), 100.0 + 200.0 * rng.random()
        features = np.array([size, latency, 0.0, 0.0, 0.0])
        path = agent.act({"features": features, "action_mask": np.ones(2, np.int8)})
        if abs(latency - 200) > 20:
            chosen.append(path == (latency > 200))
        agent.observe(-(0.05 + size / 5) * (latency / 200 if path == 0 else 1.0))
    assert np.mean(chosen[-200:]) > 0.9
    assert agent.act({"features": features, "action_mask": np.array([0, 1], np.int8)}) == 1


def test_the_same_scans_are_learned_once(dataset, tmp_path):
    agent = pmoss_agents.make("linucb")
    first = agent.fit(dataset)
    learned = copy.deepcopy(agent.models.arrays())
    agent.save(tmp_path / "agent.safetensors")
    for again in (agent, pmoss_agents.load(tmp_path / "agent.safetensors")):
        assert again.fit(dataset) == first
        np.testing.assert_equal(again.models.arrays(), learned)
    other = collect_scans(AccessPathRecipe(combinations=2, repeats=2))
    agent.fit(other, allow_other_dataset=True)
    assert agent.models.count.sum() > learned["count"].sum()


@pytest.mark.parametrize("name", ["always-cpu", "linear-cost", "linucb"])
def test_masks_of_paths_that_allow_nothing_are_refused(name, dataset):
    agent = pmoss_agents.make(name)
    agent.fit(dataset)
    observation, _ = env().reset(seed=0)
    for mask in (np.zeros(2), np.ones(1), []):
        if name != "always-cpu" or len(mask) != 1:  # it needs no more than its own
            with pytest.raises(DescriptionError, match="allow at least one action"):
                agent.act(observation, mask)


def test_wrong_uses_are_refused(dataset, tmp_path):
    features, _ = dataset.pairs()
    for name in ("linear-cost", "decision-tree"):
        with pytest.raises(CheckpointError, match="fit"):
            pmoss_agents.make(name).choose(features)
    for name, field, value in (
        ("linear-cost", "features", "cubes"),
        ("linucb", "alpha", -1.0),
        ("linucb", "paths", 4),
        ("decision-tree", "depth", 0),
    ):
        with pytest.raises(DescriptionError, match=f"{name}: {field} = "):
            pmoss_agents.make(name, **{field: value})
    agent = pmoss_agents.make("always-cpu")
    with pytest.raises(CheckpointError, match="access paths"):
        agent.check_env(gymnasium.make("pmoss/toy-v0"))
    agent.fit(dataset)
    other = collect_scans(AccessPathRecipe(combinations=2, repeats=2))
    with pytest.raises(CheckpointError, match="allow_other_dataset"):
        agent.fit(other)
    agent.fit(other, allow_other_dataset=True)


THREAD_AGENTS = pmoss_agents.agent_names("threads")


def short(program="fillrandom", requests=1_500_000):
    return ThreadSchedulingEnv(program=program, requests=requests, on_illegal="raise")


@pytest.mark.parametrize("name", THREAD_AGENTS)
def test_agents_act_legally_and_come_back_from_files(name, tmp_path):
    agent = pmoss_agents.make(name)
    if isinstance(agent, OnlineAgent):
        agent.fit(short("mixed50"), checkpoint=tmp_path / "agent.safetensors")
    else:
        assert agent.learns == "nothing"
        agent.save(tmp_path / "agent.safetensors")
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    assert run_episode(short(), agent, seed=5) == run_episode(short(), again, seed=5)


def test_a_bandit_that_was_stopped_ends_as_one_that_was_not(tmp_path):
    def stop(done, total, metrics):
        raise KeyboardInterrupt

    path = tmp_path / "agent.safetensors"
    whole = pmoss_agents.make("threads-linucb", episodes=2)
    whole.fit(short())
    with pytest.raises(KeyboardInterrupt):
        pmoss_agents.make("threads-linucb", episodes=2).fit(short(), progress=stop, checkpoint=path)
    resumed = pmoss_agents.load(path)
    resumed.fit(short())
    np.testing.assert_equal(resumed._state()[0], whole._state()[0])


def test_widths_are_those_of_the_episode():
    agent = pmoss_agents.make("threads-linucb")
    for _ in range(2):
        facts = run_episode(short(), agent, seed=0)
        assert len(agent.widths) == facts["decisions"] > 0


def test_the_hybrid_begins_as_the_rule_and_overrules_when_sure():
    hybrid = pmoss_agents.make("threads-hybrid")
    observation, info = short().reset(seed=0)
    highest = int(np.flatnonzero(info["action_mask"])[-1])
    chosen = []
    for _ in range(40):
        chosen.append(hybrid.act(observation, info["action_mask"]))
        # Whatever the rule moves, bandwidth falls by a hundredth: half a thread's share.
        factor = 0.99 if chosen[-1] == highest else 1.0
        observation = {**observation, "core_inputs": observation["core_inputs"] * factor}
    assert chosen[:3] == [highest] * 3 and chosen[-5:] == [0] * 5
    hybrid.reset()
    assert hybrid.act(observation, info["action_mask"]) == highest


def test_bad_input_is_refused():
    agent = pmoss_agents.make("threads-linucb")
    observation, _ = short().reset(seed=0)
    with pytest.raises(DescriptionError, match="allows nothing"):
        agent.act(observation, np.zeros(49))
    with pytest.raises(CheckpointError, match="inputs"):
        agent.act({**observation, "inputs": np.zeros(3)})
    with pytest.raises(DescriptionError, match="alpha"):
        pmoss_agents.make("threads-linucb", alpha=-1.0)


def direct(x, y, ridge):
    """The ridge solution and the inverse, without any updating."""
    gram = ridge * np.eye(x.shape[1]) + x.T @ x
    return np.linalg.solve(gram, x.T @ y), np.linalg.inv(gram)


@pytest.mark.parametrize("absorbed", [0, 20, 60])
def test_updates_equal_the_direct_solution(absorbed):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    arms = RidgeArms(3, 5, ridge=0.7)
    if absorbed:
        arms.absorb(1, x[:absorbed], y[:absorbed])
    for row, target in zip(x[absorbed:], y[absorbed:], strict=True):
        arms.update(1, row, target)
    theta, inverse = direct(x, y, 0.7)
    assert np.allclose(arms.theta[1], theta) and np.allclose(arms.inverse[1], inverse)
    assert arms.count.tolist() == [0, 60, 0] and not arms.theta[[0, 2]].any()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    features=st.integers(1, 6),
    updates=st.integers(0, 40),
    ridge=st.floats(0.1, 10.0),
)
def test_arms_that_were_never_named_are_added(seed, features, updates, ridge):
    rng = np.random.default_rng(seed)
    bandit = RidgeArms(0, features, ridge)
    contexts, rewards = rng.normal(size=(updates, features)), rng.normal(size=updates)
    arms = rng.integers(0, 3, updates)
    for arm, x, reward in zip(arms, contexts, rewards, strict=True):
        bandit.update(int(arm), x, float(reward))
    x = rng.normal(size=features)
    mean, width = bandit.estimate(x, np.arange(3))
    for arm in range(3):
        theta, inverse = direct(contexts[arms == arm], rewards[arms == arm], ridge)
        assert mean[arm] == pytest.approx(theta @ x, abs=1e-9)
        assert width[arm] == pytest.approx(np.sqrt(x @ inverse @ x), rel=1e-9)
    chosen = [each[[0, 2]] for each in (mean, width)]
    assert np.array_equal(bandit.estimate(x, np.array([0, 2])), chosen)
    assert bandit.count.sum() == updates and bandit.estimate(x, arms[:0])[0].size == 0


def test_it_is_restored_and_goes_on_with_the_same_bits():
    arms, other = RidgeArms(2, 3), RidgeArms(0, 3)
    arms.update(1, np.arange(3.0), 2.0)
    other.restore(arms.arrays())
    for each in (arms, other):
        each.update(0, np.ones(3), 1.0)
        each.update(1, np.ones(3), 1.0)
    assert np.array_equal(other.theta, arms.theta)
    assert np.array_equal(other.width(np.ones(3)), arms.width(np.ones(3)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a.pop("gram"),
        lambda a: a.update(moment=a["moment"][:, :1]),
        lambda a: a.update(theta=a["theta"][:1]),
        lambda a: a.update(gram=np.zeros_like(a["gram"])),
        lambda a: a.update(gram=np.full_like(a["gram"], np.nan)),
        lambda a: a.update(count=np.array(["many", "few"])),
    ],
)
def test_damaged_states_are_refused_and_change_nothing(damage):
    arms, other = RidgeArms(2, 3), RidgeArms(2, 3)
    arms.update(1, np.arange(3.0), 2.0)
    arrays = arms.arrays()
    damage(arrays)
    with pytest.raises(CheckpointError):
        other.restore(arrays)
    assert not other.count.any()
    with pytest.raises(CheckpointError, match="4 features"):
        RidgeArms(2, 4).restore(arms.arrays())


def test_impossible_numbers_are_named():
    for sizes, name in (((-1, 4), "arms = -1"), ((1, 0), "features = 0"), ((1, 4, 0.0), "ridge")):
        with pytest.raises(DescriptionError, match=name):
            RidgeArms(*sizes)
    with pytest.raises(DescriptionError, match="finite"):
        RidgeArms(1, 1).update(0, np.ones(1), float("nan"))

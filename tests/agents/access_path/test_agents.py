import gymnasium
import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401
from pmoss_agents.access_path.base import EXPANSIONS
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
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
    metrics = agent.fit(dataset)
    assert 0 <= metrics["above_best"] < 1
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
    faster = agent.predict_us(features).argmin(axis=1)
    assert np.array_equal(agent.choose(features), faster)


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


def test_linucb_learns_without_any_data_and_heeds_the_mask():
    rng = np.random.default_rng(0)
    agent = pmoss_agents.make("linucb")
    # Copies take as long from everywhere; loads take longer, the farther the memory is.
    chosen = []
    for _ in range(600):
        size, latency = 10 + 500.0 * rng.random(), 100.0 + 200.0 * rng.random()
        features = np.array([size, latency, 0.0, 0.0, 0.0])
        observation = {"features": features, "action_mask": np.ones(2, np.int8)}
        path = agent.act(observation)
        if abs(latency - 200) > 20:
            chosen.append(path == (latency > 200))
        agent.observe(-(0.05 + size / 5) * (latency / 200 if path == 0 else 1.0))
    assert np.mean(chosen[-200:]) > 0.9
    masked = {"features": features, "action_mask": np.array([0, 1], np.int8)}
    assert agent.act(masked) == 1


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

"""Every agent that learns by gradients: its seed, its file, its device and its errors."""

import copy
import dataclasses
import random
import signal
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import checkpoints, devices
from pmoss_agents.registry import agent_names
from pmoss_datasets import Recipe, collect
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_datasets.domain import find_domain
from pmoss_datasets.formats.d3rlpy import import_d3rlpy
from pmoss_env.errors import (
    CheckpointError,
    DatasetError,
    DescriptionError,
    MissingExtraError,
    UnsupportedError,
)
from tests.cli.invoking import pmoss

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
import_d3rlpy()

SPATIAL = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}
CONTINUAL = {"machine": "toy", "slices": 8, "drift": "busy-cores", "epochs": 6}
_TILES = {"channels": 8, "width": 16, "updates": 6, "batch_size": 16}
TRANSFORMER = {
    **{"layers": 2, "heads": 2, "width": 16, "channels": 8, "joint": 8},
    **{"batch_size": 4, "updates": 6, "warmup": 2, "learning_rate": 3e-3},
}
_MODEL = {"width": 12, "features": 4, "demands": 2}
_PAIRS = {"judge_updates": 2, "updates": 6, "samples": 4, "heads": 2, **_MODEL}
_PLAYED = {"channels": 4, "width": 8, "steps": 96, "envs": 2, "batch_size": 8}
#: Every agent that has a network, with a size that learns at once.
LEARNERS: dict[str, dict[str, Any]] = {
    "surrogate": {"members": 2, "updates": 6, **_MODEL},
    "generalist": {"members": 2, "updates": 6, **_MODEL},
    "pair-policy": _PAIRS,
    "reconstruct": {"settings": _PAIRS},
    "decision-transformer": {**TRANSFORMER, "decoding": "sample"},
    "qt": {**TRANSFORMER, "n_steps": 2},
    "bc": _TILES,
    "percentile-bc": {**_TILES, "keep_best": 0.5},
    "cql": {**_TILES, "n_steps": 2},
    "bcq": {**_TILES, "n_steps": 2},
    "iql": {**_TILES, "n_steps": 2},
    "xql": {**_TILES, "n_steps": 2},
    "rebrac": {**_TILES, "n_steps": 2},
    "cdqac": {**_TILES, "n_steps": 2, "quantiles": 4},
    "maskable-ppo": _PLAYED,
    "dqn": {**_PLAYED, "gradient_steps": 2},
    "forecaster": {"width": 8, "updates": 6, "batch_size": 2, "futures": 2},
}
NAMES = list(LEARNERS)
PLAYED = ("maskable-ppo", "dqn")
#: What a learner needs that acting does without.
EXTRAS = {
    **dict.fromkeys(
        ("bc", "percentile-bc", "cql", "bcq", "iql", "xql", "rebrac", "cdqac"), ("d3rlpy", "d3rlpy")
    ),
    **dict.fromkeys(PLAYED, ("sb3_contrib", "online")),
}


@pytest.fixture(scope="module")
def lessons(tmp_path_factory):
    """What each learner learns from: data of its domain, or an environment to play in."""
    folder = tmp_path_factory.mktemp("data")
    spatial = collect(Recipe(env=SPATIAL, episodes=12, reference_episodes=0), folder / "spatial")
    stay = [{"policy": "stay"}]
    recipe = Recipe(
        domain="continual", env=CONTINUAL, episodes=4, behaviours=stay, reference_episodes=0
    )
    given = {"forecaster": collect(recipe, folder / "continual")}
    given |= dict.fromkeys(("maskable-ppo", "dqn"), SPATIAL)
    return {name: given.get(name, spatial) for name in LEARNERS}


def make(name, **changes):
    return pmoss_agents.make(name, **{**LEARNERS[name], **changes})


@pytest.fixture(scope="module")
def fitted(lessons):
    """A function from a learner's name to it, when it has learned; not to be changed."""
    agents: dict[str, Any] = {}

    def get(name):
        if name not in agents:
            agents[name] = make(name)
            agents[name].fit(lessons[name])
        return agents[name]

    return get


def arrays(agent):
    return agent._state()[0]


def played(agent, seed=3, **changes):
    """Actions and outcome of an episode in which a forbidden action is an error."""
    domain = find_domain(agent.domain)
    env = CONTINUAL if agent.domain == "continual" else SPATIAL
    made = domain.make_env({**env, "on_illegal": "raise", **changes})
    agent.check_env(made)
    result = domain.play(made, agent, seed)
    made.close()
    return result.actions, result.outcome


def test_no_learner_with_a_network_is_left_out():
    # A network lies on a device. A learner in NumPy may have a learning rate, too.
    configs = {name: pmoss_agents.make(name).config for name in agent_names()}
    assert {n for n, config in configs.items() if hasattr(config, "device")} == set(LEARNERS)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_all_and_global_generators_are_left_alone(name, fitted, lessons):
    def seeded(seed):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)

    def drawn():
        return random.random(), np.random.random(), float(torch.rand(1))  # noqa: NPY002

    expected = arrays(fitted(name))
    seeded(5)
    undisturbed = drawn()
    seeded(5)
    again = make(name)
    again.fit(lessons[name])
    np.testing.assert_equal(arrays(again), expected)
    played(again)
    assert drawn() == undisturbed
    other = make(name, seed=1, threads=2 if name == "bc" else 1)
    threads = torch.get_num_threads()
    other.fit(lessons[name])
    assert torch.get_num_threads() == threads
    assert any(not np.array_equal(array, arrays(other)[key]) for key, array in expected.items())


@pytest.mark.parametrize(("name", "cut"), [(name, 1 + 3 * (i % 2)) for i, name in enumerate(NAMES)])
def test_a_training_that_was_cut_ends_as_one_that_was_not(name, cut, fitted, lessons, tmp_path):
    if name == "dqn":
        pytest.skip("its memory is not kept")

    def stop(done, total, metrics):
        if done == cut:
            raise KeyboardInterrupt

    path, done = tmp_path / "agent.safetensors", []
    with pytest.raises(KeyboardInterrupt):
        make(name).fit(lessons[name], progress=stop, checkpoint=path)
    resumed = pmoss_agents.load(path)
    assert resumed.updates == cut
    resumed.fit(lessons[name], progress=lambda now, total, metrics: done.append(now))
    assert done == list(range(cut + 1, 7))
    np.testing.assert_equal(arrays(resumed), arrays(fitted(name)))


@pytest.mark.parametrize("name", ["bc", "iql"])
def test_ctrl_c_while_weights_change_keeps_the_whole_update(
    name, fitted, lessons, tmp_path, monkeypatch
):
    agent, path = make(name), tmp_path / "agent.safetensors"
    update = agent._update

    def pressed(batch, number, device):
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        return update(batch, number, device)

    monkeypatch.setattr(agent, "_update", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            agent.fit(lessons[name], checkpoint=path)
    finally:
        signal.signal(signal.SIGINT, before)
    resumed = pmoss_agents.load(path)
    assert resumed.updates == 3
    resumed.fit(lessons[name])
    np.testing.assert_equal(arrays(resumed), arrays(fitted(name)))
    assert resumed.training["losses"] == fitted(name).training["losses"]


@pytest.mark.parametrize("name", NAMES)
def test_preparing_an_update_changes_nothing_that_is_kept(name, lessons):
    agent = make(name)
    with agent._course(lessons[name]) as course:
        before = {key: array.copy() for key, array in arrays(agent).items()}
        change = course.step(0)
        np.testing.assert_equal(arrays(agent), before)
        change()
        assert any(not np.array_equal(arrays(agent).get(key), before[key]) for key in before)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_learns(name, fitted):
    agent = fitted(name)
    moments = [key for key in arrays(agent) if key.endswith("/exp_avg_sq")]
    assert moments
    for key in moments:
        assert arrays(agent)[key].max() > 0, key


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_acts_the_same_without_what_trained_it(name, fitted, tmp_path, monkeypatch):
    path, again = tmp_path / "agent.safetensors", tmp_path / "again.safetensors"
    agent = fitted(name)
    agent.save(path)
    for module in ("d3rlpy", "stable_baselines3", "sb3_contrib"):
        monkeypatch.setitem(sys.modules, module, None)
    loaded = pmoss_agents.load(path)
    assert (loaded.name, loaded.config) == (name, agent.config)
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    assert [played(loaded, seed) for seed in (3, 4)] == [played(agent, seed) for seed in (3, 4)]


@pytest.mark.parametrize("name", NAMES)
def test_other_shapes_and_altered_headers_are_refused(name, fitted, tmp_path):
    path = tmp_path / "agent.safetensors"
    fitted(name).save(path)
    header, weights = checkpoints.read(path)
    key = next(key for key in sorted(weights) if "/exp_avg" not in key and weights[key].ndim == 2)
    checkpoints.write(path, header, {**weights, key: weights[key][:0]})
    with pytest.raises(CheckpointError, match=r"weights .* in the file, .* by the config"):
        pmoss_agents.load(path)
    for where in (("agent",), ("config",), ("task",), ("task", "counters"), ("values", "updates")):
        altered = copy.deepcopy(header)
        inner = altered if len(where) == 1 else altered[where[0]]
        inner[where[-1]] = {"a": [None]}
        checkpoints.write(path, altered, weights)
        with pytest.raises(CheckpointError, match=r"agent\.safetensors"):
            pmoss_agents.load(path)


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_that_learned_nothing_says_so(name, tmp_path):
    agent = make(name)
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.safetensors")
    with pytest.raises(CheckpointError, match="call fit"):
        played(agent)


@pytest.mark.parametrize("name", [n for n in NAMES if make(n).domain == "spatial"])
def test_a_full_core_gets_no_more(name, fitted):
    actions, _ = played(fitted(name), constraints={"max_slices_per_core": 2})
    assert np.bincount(actions).max() == 2


@pytest.mark.parametrize("name", [n for n in NAMES if make(n).domain == "spatial"])
def test_masks_that_allow_nothing_and_empty_observations_are_refused(name, fitted):
    env = find_domain("spatial").make_env({**SPATIAL, "observation": "complete"})
    observation, info = env.reset(seed=3)
    policies = [fitted(name)]
    policies[0].reset()
    if policies[0].task.get("observation") == "full":
        policies.append(policies[0].padded())
        policies[1].check_env(find_domain("spatial").make_env(SPATIAL))
    else:
        policies[0].check_env(env)
    for policy in policies:
        with pytest.raises(CheckpointError, match=f"{name}: the observation lacks"):
            policy.act({})
        for mask in (np.zeros(info["action_mask"].size), np.ones(3), []):
            with pytest.raises(DescriptionError, match=f"{name}: a mask of .* at least one action"):
                policy.act(observation, mask)
        nothing = np.zeros_like(observation["position_mask"])
        with pytest.raises(DescriptionError, match="allow at least one action"):
            policy.act({**observation, "position_mask": nothing})
        assert info["action_mask"][policy.act(observation, info["action_mask"])]


@pytest.mark.parametrize("name", ["bc", "cql", "maskable-ppo", "dqn"])
def test_the_papers_observation_is_enough(name, tmp_path):
    env = {**SPATIAL, "observation": "paper"}
    agent = make(name)
    lesson = env
    if name not in PLAYED:
        lesson = collect(Recipe(env=env, episodes=4, reference_episodes=0), tmp_path / "data")
    agent.fit(lesson)
    made = find_domain("spatial").make_env(env)
    agent.check_env(made)
    observation, info = made.reset(seed=3)
    full, _ = find_domain("spatial").make_env(SPATIAL).reset(seed=3)
    assert "slice_view" in full and "slice_view" not in observation
    assert agent.act(observation, info["action_mask"]) == agent.act(full, info["action_mask"])


@pytest.mark.parametrize("name", NAMES)
def test_another_task_is_refused(name, fitted, lessons):
    agent, lesson = fitted(name), lessons[name]
    if "slices" not in agent.task:
        pytest.skip("it plays any task")
    with pytest.raises(CheckpointError, match="slices = 8, but the environment has slices = 9"):
        played(agent, slices=9)
    if name in PLAYED:
        with pytest.raises(CheckpointError, match="slices"):
            agent.fit({**lesson, "slices": 9})


def test_data_that_teach_no_agent_of_tiles_are_refused(tmp_path):
    env = {**SPATIAL, "observation": "compact"}
    compact = collect(Recipe(env=env, episodes=4, reference_episodes=0), tmp_path / "data")
    for name in ("surrogate", "pair-policy"):
        make(name, updates=3).fit(compact)
    for name in ("bc", "cql", "iql", "cdqac", "decision-transformer", "qt"):
        with pytest.raises(DatasetError, match="observation='compact', which lacks machine_view"):
            make(name).fit(compact)


@pytest.mark.parametrize("name", ["bc", "decision-transformer", "surrogate", "pair-policy"])
@pytest.mark.parametrize("lesson", [None, {}, ["data"]])
def test_what_is_no_dataset_is_refused(name, lesson):
    with pytest.raises(DatasetError, match="is no Dataset"):
        make(name).fit(lesson)


@pytest.mark.parametrize("lesson", [None, np.zeros(3), {}])
def test_what_is_no_dataset_is_refused_in_every_domain(lesson):
    for agent in (make("forecaster"), pmoss_agents.make("linear-cost")):
        with pytest.raises(DatasetError, match="is no Dataset"):
            agent.fit(lesson)
    scans = collect_scans(AccessPathRecipe(combinations=2, repeats=1))
    with pytest.raises(DatasetError, match="is no Dataset"):
        make("forecaster").fit(scans)


@pytest.mark.parametrize("env", [None, "pmoss/toy-v0", gymnasium.make("pmoss/toy-v0")])
def test_what_is_no_environment_to_play_in_is_refused(env):
    agents = [make(name) for name in PLAYED]
    if not isinstance(env, gymnasium.Env):  # which a bandit takes
        agents.append(pmoss_agents.make("threads-linucb"))
    for agent in agents:
        with pytest.raises(DescriptionError, match="takes arguments of an environment"):
            agent.fit(env)


def test_a_reward_of_the_environment_is_that_of_the_config(lessons, tmp_path):
    with pytest.raises(DescriptionError, match=r"reward = 'slice'.*--set reward=slice"):
        make("dqn").fit({**lessons["dqn"], "reward": "slice"})
    said = pmoss(
        *("train", "dqn", str(tmp_path / "a.safetensors"), "-e", "machine=toy", "-e", "slices=8"),
        *("-e", "reward=terminal"),
        status=2,
    )
    assert "--set reward=terminal" in " ".join(said.split())


def test_playing_goes_on_in_the_same_environment_only(fitted, lessons, tmp_path):
    path = tmp_path / "agent.safetensors"
    fitted("dqn").save(path)
    again, env = pmoss_agents.load(path), lessons["dqn"]
    assert again.played_in["interference"] == "busy_core" and again.played_in["noise"] == 0.0
    with pytest.raises(CheckpointError, match=r"= 'busy_core', and this one .* 'none'"):
        again.fit({**env, "interference": "none"})
    with pytest.warns(RuntimeWarning, match="has made all of its 6 updates"):
        again.fit({**env, "noise": 0.0, "reward": again.config.reward})
    header, weights = checkpoints.read(path)
    del header["played_in"]  # as the first checkpoints
    checkpoints.write(path, header, weights)
    with pytest.warns(RuntimeWarning):
        pmoss_agents.load(path).fit({**env, "interference": "none"})


@pytest.mark.parametrize("name", EXTRAS)
def test_without_its_extra_learning_names_it(name, lessons, monkeypatch):
    module, extra = EXTRAS[name]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"'\.\[{extra}\]'"):
        make(name).fit(lessons[name])


@pytest.mark.parametrize("name", NAMES)
def test_wrong_types_and_impossible_numbers_are_named(name):
    for field in dataclasses.fields(make(name).config):
        for value in ("abc", None, [1], {}):
            if (field.name, value) not in (("settings", {}), ("policy", "abc")):
                with pytest.raises(DescriptionError, match=f"{name}: {field.name} = "):
                    pmoss_agents.make(name, **{field.name: value})
        if field.type in ("int", "float") and field.name != "pessimism":
            for value in (-1, float("nan"), float("inf")):
                with pytest.raises(DescriptionError, match=f"{name}: {field.name} = "):
                    pmoss_agents.make(name, **{field.name: value})


# ---- devices


def test_auto_is_a_gpu_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.find_device("auto") == devices.find_device("cpu") == torch.device("cpu")
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        devices.find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.find_device("auto") == devices.find_device("cuda") == torch.device("cuda")
    assert devices.find_device("cpu") == torch.device("cpu")
    with pytest.raises(DescriptionError, match="device = 'tpu': must be one of cpu, cuda, auto"):
        devices.find_device("tpu")


@pytest.mark.parametrize("name", NAMES)
def test_a_training_may_go_on_where_there_is_no_gpu(name, fitted, lessons, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fitted(name).save(tmp_path / "agent.safetensors")
    header, weights = checkpoints.read(tmp_path / "agent.safetensors")
    header["config"]["device"] = "cuda"
    checkpoints.write(tmp_path / "agent.safetensors", header, weights)
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    assert again.config.device == "cuda"
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        make(name, device="cuda").fit(lessons[name])
    devices.go_on_at(again, {})
    devices.go_on_at(again, {"device": "cpu"})
    for agent in (again, getattr(again, "policy", None), getattr(again, "judge", None)):
        assert agent is None or agent.config.device == "cpu"
    for changes in ({"updates": 3}, {"device": "cpu", "seed": 1}):
        with pytest.raises(DescriptionError, match="nothing but the device"):
            devices.go_on_at(again, changes)


def test_a_checkpoint_says_on_which_gpu_it_learned(lessons, tmp_path, monkeypatch):
    path, data = tmp_path / "agent.safetensors", lessons["decision-transformer"]
    agent = make("decision-transformer")
    label = "pmoss_agents.spatial.decision_transformer.device_label"
    monkeypatch.setattr(label, lambda device: "A GPU")
    agent.fit(data)
    agent.save(path)
    monkeypatch.undo()
    again = pmoss_agents.load(path)
    assert again.learned_on == "A GPU"
    # Nothing is left to learn, so nothing is learned elsewhere.
    again.fit(data)
    assert again.learned_on == "A GPU"
    for forged in (None, 3, ["A GPU"], "x" * 101, "A\nGPU", "\ud800"):
        kept, values = again._state()
        with pytest.raises(CheckpointError, match="learned_on: must be the name of a GPU"):
            again._restore(kept, {**values, "learned_on": forged})
    again.config = dataclasses.replace(again.config, updates=7)
    again.fit(data)
    assert again.learned_on is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", NAMES)
def test_what_learned_on_a_gpu_acts_on_the_cpu_and_goes_on(name, fitted, lessons, tmp_path):
    torch.manual_seed(5)
    torch.cuda.manual_seed(5)
    agent = make(name, device="cuda")
    on_gpu = agent.fit(lessons[name], checkpoint=tmp_path / "agent.safetensors")
    drawn = float(torch.rand(1)), float(torch.rand(1, device="cuda"))
    torch.manual_seed(5)
    torch.cuda.manual_seed(5)
    assert drawn == (float(torch.rand(1)), float(torch.rand(1, device="cuda")))
    on_cpu = make(name).fit(lessons[name])
    assert on_gpu.keys() == on_cpu.keys()
    if name not in PLAYED:  # players draw other actions on a GPU
        for metric, value in on_cpu.items():
            assert on_gpu[metric] == pytest.approx(value, rel=0.05, abs=0.02), metric
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    assert played(agent)[1] == played(again)[1] > 0
    # Its networks are back on the CPU, and go to the GPU once more where it goes on.
    assert all(np.isfinite(value) for value in again.fit(lessons[name]).values())

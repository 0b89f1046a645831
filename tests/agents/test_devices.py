"""Where networks learn."""

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pmoss_agents  # noqa: E402
from pmoss_agents import devices  # noqa: E402
from pmoss_agents.registry import agent_names  # noqa: E402
from pmoss_agents.spatial import decision_transformer  # noqa: E402
from pmoss_agents.spatial.pair_policy import PairPolicy  # noqa: E402
from pmoss_agents.spatial.surrogate import Surrogate  # noqa: E402
from pmoss_datasets import Recipe, collect  # noqa: E402
from pmoss_datasets.domain import find_domain  # noqa: E402
from pmoss_env.errors import (  # noqa: E402
    CheckpointError,
    DescriptionError,
    UnsupportedError,
)

_SPATIAL = {"machine": "toy", "slices": 8, "interference": "busy_core"}
_CONTINUAL = {"machine": "toy", "slices": 8, "drift": "busy-cores", "epochs": 6}
_TILES = {"channels": 4, "width": 8, "updates": 3}
_TRANSFORMER = {**_TILES, "layers": 1, "heads": 2, "joint": 4, "batch_size": 4, "dropout": 0.0}
_MODEL = {"width": 12, "features": 4, "demands": 2}
_PAIRS = {"judge_updates": 2, "updates": 3, "samples": 4, "heads": 2, **_MODEL}
_PLAYED = {"envs": 2, "batch_size": 8}
#: Every agent that has a network, with a size that learns at once.
LEARNERS: dict[str, dict[str, Any]] = {
    "surrogate": {"members": 2, "updates": 3, **_MODEL},
    "pair-policy": _PAIRS,
    "reconstruct": {"settings": _PAIRS},
    "decision-transformer": _TRANSFORMER,
    "judged-transformer": {**_TRANSFORMER, "judge_updates": 2, "proposals": 2},
    "bc": _TILES,
    "percentile-bc": {**_TILES, "keep_best": 0.5},
    "cql": {**_TILES, "n_steps": 2},
    "bcq": {**_TILES, "n_steps": 2},
    "iql": {**_TILES, "n_steps": 2},
    "maskable-ppo": {"channels": 4, "width": 8, "steps": 32, **_PLAYED},
    "dqn": {"channels": 4, "width": 8, "steps": 32, "gradient_steps": 2, **_PLAYED},
    "forecaster": {"width": 8, "updates": 3, "batch_size": 2},
    "continual-ppo": {"width": 8, "steps": 32, "rollout": 8, **_PLAYED},
}


def test_auto_is_a_gpu_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.find_device("auto") == devices.find_device("cpu") == torch.device("cpu")
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        devices.find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.find_device("auto") == devices.find_device("cuda") == torch.device("cuda")
    assert devices.find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("agent", [Surrogate, PairPolicy])
def test_an_unknown_device_is_refused_at_once(agent):
    with pytest.raises(DescriptionError, match="device = 'tpu': must be one of cpu, cuda, auto"):
        agent(device="tpu")


def test_what_learned_elsewhere_comes_back():
    network = torch.nn.Linear(2, 1)
    optimiser = torch.optim.AdamW(network.parameters())
    network(torch.ones(3, 2)).sum().backward()
    optimiser.step()
    before = [p.clone() for p in network.parameters()]
    with devices.learning_on(torch.device("cpu"), network, optimiser):
        pass
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    moments = list(optimiser.state.values())
    assert all(value.device.type == "cpu" for one in moments for value in one.values())


@pytest.fixture(scope="module")
def lessons(tmp_path_factory):
    """What each learner learns from: data of its domain, or an environment to play in."""
    folder = tmp_path_factory.mktemp("data")
    spatial = collect(Recipe(env=_SPATIAL, episodes=8, reference_episodes=0), folder / "spatial")
    stay = [{"policy": "stay"}]
    recipe = Recipe(
        domain="continual", env=_CONTINUAL, episodes=4, behaviours=stay, reference_episodes=0
    )
    continual = collect(recipe, folder / "continual")
    given = {"forecaster": continual, "continual-ppo": _CONTINUAL}
    given |= dict.fromkeys(("maskable-ppo", "dqn"), _SPATIAL)
    return {name: given.get(name, spatial) for name in LEARNERS}


def test_no_learner_with_a_network_is_left_out():
    # Whoever follows a gradient has a learning rate; one holds another learner, with its settings.
    configs = {name: pmoss_agents.make(name).config for name in agent_names()}
    learn = {name for name, one in configs.items() if hasattr(one, "learning_rate")}
    assert learn | {"reconstruct"} == set(LEARNERS)
    assert {name for name, one in configs.items() if hasattr(one, "device")} == set(LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_training_may_go_on_where_there_is_no_gpu(name, lessons, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    path = tmp_path / "agent.safetensors"
    agent = pmoss_agents.make(name, **LEARNERS[name])
    agent.fit(lessons[name])
    agent.config = dataclasses.replace(agent.config, device="cuda")
    agent.save(path)
    again = pmoss_agents.load(path)
    assert again.config.device == "cuda"
    devices.go_on_at(again, {"device": "cpu"})
    assert again.config.device == "cpu"
    for held in (getattr(again, "policy", None), getattr(again, "judge", None)):
        assert held is None or held.config.device == "cpu"
    for changes in ({"updates": 3}, {"device": "cpu", "seed": 1}):
        with pytest.raises(DescriptionError, match="nothing but the device"):
            devices.go_on_at(again, changes)


def test_a_checkpoint_says_on_which_gpu_it_learned(lessons, tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    agent = pmoss_agents.make("decision-transformer", **_TRANSFORMER)
    monkeypatch.setattr(decision_transformer, "device_label", lambda device: "A GPU")
    agent.fit(lessons["decision-transformer"])
    agent.save(path)
    monkeypatch.undo()
    again = pmoss_agents.load(path)
    assert again.learned_on == "A GPU"
    # Nothing is left to learn, so nothing is learned elsewhere.
    again.fit(lessons["decision-transformer"])
    assert again.learned_on == "A GPU"
    for forged in (None, 3, ["A GPU"], "x" * 101, "A\nGPU", "\ud800"):
        again.learned_on = "kept"
        arrays, values = again._state()
        with pytest.raises(CheckpointError, match="learned_on: must be the name of a GPU"):
            again._restore(arrays, {**values, "learned_on": forged})
    again.config = dataclasses.replace(again.config, updates=4)
    again.fit(lessons["decision-transformer"])
    assert again.learned_on is None


@pytest.mark.parametrize("name", LEARNERS)
def test_a_gpu_that_is_not_there_is_told_before_anything_is_learned(name, lessons, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    agent = pmoss_agents.make(name, **LEARNERS[name], device="cuda")
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        agent.fit(lessons[name])
    assert agent.updates == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", LEARNERS)
def test_what_learned_on_a_gpu_acts_on_the_cpu_and_goes_on(name, lessons, tmp_path):
    torch.manual_seed(5)
    torch.cuda.manual_seed(5)
    agent = pmoss_agents.make(name, **LEARNERS[name], device="cuda")
    there = agent.fit(lessons[name], checkpoint=tmp_path / "agent.safetensors")
    drawn = float(torch.rand(1)), float(torch.rand(1, device="cuda"))
    torch.manual_seed(5)
    torch.cuda.manual_seed(5)
    assert drawn == (float(torch.rand(1)), float(torch.rand(1, device="cuda")))
    here = pmoss_agents.make(name, **LEARNERS[name]).fit(lessons[name])
    assert there.keys() == here.keys()
    if "steps" not in here:  # whoever plays draws other actions there
        for metric, value in here.items():
            assert there[metric] == pytest.approx(value, rel=0.05, abs=0.02), metric
    domain = find_domain(agent.domain)
    env = domain.make_env(_CONTINUAL if agent.domain == "continual" else _SPATIAL)
    again = pmoss_agents.load(tmp_path / "agent.safetensors")
    outcomes = [domain.play(env, one, 3).outcome for one in (agent, again)]
    assert outcomes[0] == outcomes[1] > 0
    # Its networks are back on the CPU, and go to the GPU once more where it goes on.
    assert all(np.isfinite(value) for value in again.fit(lessons[name]).values())

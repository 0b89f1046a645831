"""The agents that learn online reach the optimum, repeat, resume, and act with torch alone."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents import OnlineAgent
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import (
    CheckpointError,
    DescriptionError,
    MissingExtraError,
    UnsupportedError,
)
from tests.agents.spatial.playing import TOY, optimum, play

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

SMALL = {"channels": 8, "width": 16, "learning_rate": 3e-3}
BUDGETS: dict[str, dict[str, Any]] = {
    "maskable-ppo": {**SMALL, "envs": 16, "rounds": 2, "steps": 4096},
    "dqn": {**SMALL, "envs": 8, "n_steps": 8, "steps": 4096, "gradient_steps": 16},
}
_TINY: dict[str, Any] = {"steps": 96, "envs": 4, "channels": 4, "width": 8, "batch_size": 16}
TINY: dict[str, dict[str, Any]] = {
    "maskable-ppo": {**_TINY, "epochs": 2},
    "dqn": {**_TINY, "gradient_steps": 4},
}
NAMES = list(BUDGETS)


def make(name: str, **config: Any) -> OnlineAgent:
    agent = pmoss_agents.make(name, **config)
    assert isinstance(agent, OnlineAgent)
    return agent


@pytest.mark.parametrize("name", NAMES)
def test_reaches_the_optimum_of_the_toy(name: str) -> None:
    # Processors round differently, so each has its own trainings, and one of some falls short.
    for seed in range(3):
        agent = make(name, **BUDGETS[name], seed=seed)
        metrics = agent.fit(TOY)
        assert metrics["steps"] >= BUDGETS[name]["steps"]
        if (served := play(agent)[1]) >= 0.95 * optimum():
            break
    assert served >= 0.95 * optimum()


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_gives_one_agent_and_leaves_no_trace_in_global_generators(name: str) -> None:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    first, second, other = (make(name, **TINY[name], seed=seed) for seed in (1, 1, 2))
    for agent in (first, second, other):
        agent.fit(TOY)
    states = [agent._state()[0] for agent in (first, second, other)]
    assert all(np.array_equal(states[0][key], states[1][key]) for key in states[0])
    assert any(not np.array_equal(states[0][key], states[2][key]) for key in states[0])
    drawn = (random.random(), np.random.random(), float(torch.rand(1)))  # noqa: NPY002
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert drawn == (random.random(), np.random.random(), float(torch.rand(1)))  # noqa: NPY002


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_acts_without_stable_baselines(name: str, tmp_path: Path) -> None:
    agent = make(name, **TINY[name])
    agent.fit(TOY)
    agent.save(tmp_path / "agent.safetensors")
    program = (
        "import sys\n"
        "for name in ('stable_baselines3', 'sb3_contrib'):\n"
        "    sys.modules[name] = None\n"
        "import gymnasium, pmoss_agents, pmoss_env\n"
        f"agent = pmoss_agents.load({str(tmp_path / 'agent.safetensors')!r})\n"
        f"env = gymnasium.make('pmoss/SpatialScheduling-v0', **{TOY!r})\n"
        "seen, info = env.reset(seed=0)\n"
        "done, actions = False, []\n"
        "while not done:\n"
        "    actions.append(agent.act(seen))\n"
        "    seen, _, done, _, info = env.step(actions[-1])\n"
        "print(actions, info['illegal_actions'])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert told == f"{play(agent)[0]} 0\n"


def test_ppo_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    config = {**TINY["maskable-ppo"], "steps": 192}
    whole, stopped = make("maskable-ppo", **config), make("maskable-ppo", **config)
    whole.fit(TOY)

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 3:
            raise KeyboardInterrupt

    path = tmp_path / "agent.safetensors"
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(TOY, progress=stop, checkpoint=path)
    resumed: Any = pmoss_agents.load(path)
    done: list[int] = []
    resumed.fit(TOY, progress=lambda now, total, metrics: done.append(now))
    assert done == [4, 5, 6]
    for key, array in whole._state()[0].items():
        assert np.array_equal(array, resumed._state()[0][key]), key


def test_a_kill_costs_one_update(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    found: list[int] = []

    def look(done: int, total: int, metrics: Any) -> None:
        if path.exists():
            found.append(pmoss_agents.load(path)._state()[1]["updates"])

    make("dqn", **TINY["dqn"]).fit(TOY, progress=look, checkpoint=path)
    assert found == [1, 2]


def test_every_parameter_is_used() -> None:
    for name in NAMES:
        before = make(name, **TINY[name], seed=3)
        before.fit(TOY)
        moments = before._state()[0]
        seen = [key for key in moments if key.endswith("/exp_avg_sq")]
        assert seen and all(moments[key].max() > 0 for key in seen)


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_observation_is_learned_from_and_nothing_else_is_seen(name: str) -> None:
    agent = make(name, **TINY[name])
    paper = {**TOY, "observation": "paper"}
    agent.fit(paper)
    env = SpatialSchedulingEnv(**paper)
    agent.check_env(env)
    seen, info = env.reset(seed=3)
    full, _ = SpatialSchedulingEnv(**TOY).reset(seed=3)
    assert "slice_view" in full and "slice_view" not in seen
    assert agent.act(seen, info["action_mask"]) == agent.act(full, info["action_mask"])


def test_what_cannot_be_learned_online_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent = make("dqn", **TINY["dqn"])
    with pytest.raises(UnsupportedError, match="analytic"):
        agent.fit({**TOY, "backend": "simulated"})
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.safetensors")
    agent.fit(TOY)
    with pytest.raises(CheckpointError, match="slices"):
        agent.fit({**TOY, "slices": 9})
    for config in ({"gamma": 0.0}, {"steps": 0}, {"reward": "none"}, {"epsilon": 2.0}):
        with pytest.raises(DescriptionError, match=next(iter(config))):
            make("dqn", **config)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(MissingExtraError, match=r"pmoss-env\[online\]"):
        make("maskable-ppo").fit(TOY)

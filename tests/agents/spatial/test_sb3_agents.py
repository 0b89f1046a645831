"""The agents that learn online reach the optimum, repeat, resume, and act with torch alone."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents import OnlineAgent
from pmoss_env.errors import DescriptionError, UnsupportedError
from tests.agents.spatial.playing import TOY, optimum, play

pytest.importorskip("sb3_contrib")

SMALL = {"channels": 8, "width": 16, "learning_rate": 3e-3}
BUDGETS: dict[str, dict[str, Any]] = {
    "maskable-ppo": {**SMALL, "envs": 16, "rounds": 2, "steps": 4096},
    "dqn": {**SMALL, "envs": 8, "n_steps": 8, "steps": 4096, "gradient_steps": 16},
}
TINY: dict[str, Any] = {**SMALL, "steps": 96, "envs": 4, "batch_size": 16, "gradient_steps": 4}
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
        assert agent.fit(TOY)["steps"] >= BUDGETS[name]["steps"]
        if (served := play(agent)[1]) >= 0.95 * optimum():
            break
    assert served >= 0.95 * optimum()


def test_a_kill_costs_one_update(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    saved: list[int] = []

    def look(done: int, total: int, metrics: Any) -> None:
        if path.exists():
            saved.append(pmoss_agents.load(path)._state()[1]["updates"])

    make("dqn", **TINY).fit(TOY, progress=look, checkpoint=path)
    assert saved == [1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_a_training_leaves_no_folder_behind(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = {key: TINY[key] for key in TINY if key in BUDGETS[name] or key == "batch_size"}
    make(name, **config).fit(TOY)
    assert not list(tmp_path.glob("SB3-*"))


def test_what_cannot_be_learned_online_is_refused() -> None:
    agent = make("dqn", **TINY)
    for change, text in (
        ({"backend": "simulated"}, "analytic"),
        ({"actions": "core_node"}, "use actions='core'"),
    ):
        with pytest.raises(UnsupportedError, match=text):
            agent.fit({**TOY, **change})
    with pytest.raises(DescriptionError, match="observation = 'compact': lacks machine_view"):
        agent.fit({**TOY, "observation": "compact"})
    for config in ({"gamma": 0.0}, {"steps": 0}, {"reward": "none"}, {"epsilon": 2.0}):
        with pytest.raises(DescriptionError, match=next(iter(config))):
            make("dqn", **config)

"""Training for the offline benchmark: what is kept, and that playing goes on where it stopped."""

from pathlib import Path
from typing import Any

import pytest

import pmoss_agents
from pmoss_benchmarks.offline import training
from pmoss_benchmarks.offline.training import Trained, kept_training

pytest.importorskip("sb3_contrib")

ENV = {"machine": "toy", "slices": 8}
CONFIG = {"steps": 64 * 6, "envs": 8, "channels": 4, "width": 8, "epochs": 1, "batch_size": 32}


def play(folder: Path, checkpoints: int = 3) -> Trained:
    return kept_training(
        folder, "maskable-ppo", CONFIG, dataset=None, env=ENV, checkpoints=checkpoints
    )


def weights(run: Trained) -> list[Any]:
    return [
        [part.tobytes() for part in run.load(i)._state()[0].values()]
        for i in range(len(run.updates))
    ]


def test_playing_is_kept_with_its_curve(tmp_path: Path) -> None:
    run = play(tmp_path / "agent")
    assert run.updates == (2, 4, 6) and run.source["steps"] == 384
    assert [row["steps"] for row in run.played] == [64.0, 128.0, 192.0, 256.0, 320.0, 384.0]
    assert all(-1e6 < row["return"] < 1e6 for row in run.played)
    assert run.seconds >= run.played[-1]["cpu_seconds"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]
    (tmp_path / "agent.begun").mkdir()  # as a kill at the very end leaves it
    assert play(tmp_path / "agent").played == run.played  # read, not played again
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


def test_other_code_keeps_its_trainings_elsewhere(monkeypatch):
    names = {training.folder_name("maskable-ppo", CONFIG)}
    code = {"code": {"digests": {"pmoss_agents/spatial": "0" * 16}}}
    assert training.folder_name("maskable-ppo", CONFIG) in names
    monkeypatch.setattr(training, "conditions_of", lambda module: code)
    assert training.folder_name("maskable-ppo", CONFIG) not in names


def test_playing_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    whole = play(tmp_path / "whole")
    agent_class = pmoss_agents.registry.agent_class("maskable-ppo")
    save, calls = agent_class.save, []

    def killed(agent: Any, path: Any) -> None:
        save(agent, path)
        if Path(path).name == "last.safetensors":
            calls.append(agent.updates)
            if agent.updates == 3:
                raise RuntimeError("killed")

    monkeypatch.setattr(agent_class, "save", killed)
    with pytest.raises(RuntimeError, match="killed"):
        play(tmp_path / "cut")
    assert not (tmp_path / "cut").exists() and (tmp_path / "cut.begun").is_dir()
    run = play(tmp_path / "cut")
    assert calls == [1, 2, 3, 4, 5, 6]
    assert run.updates == whole.updates and weights(run) == weights(whole)
    assert [row["return"] for row in run.played] == [row["return"] for row in whole.played]
    assert not (tmp_path / "cut.begun").exists()

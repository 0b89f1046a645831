"""An agent of others: one file with one class, which every command takes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pmoss_benchmarks.evaluation import replay
from pmoss_env.cli.app import make_app

pytest.importorskip("safetensors")
pytest.importorskip("h5py")

#: Learns which action the data took most often at each step; it may be of any domain.
CODE = '''
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pmoss_agents import OfflineAgent
from pmoss_agents.trainer import Course


@dataclass(frozen=True)
class Config:
    """Nothing to set."""


class Habit(OfflineAgent):
    name = "own-habit"
    domain = DOMAIN
    Config = Config

    def __init__(self, **config):
        super().__init__(**config)
        self.counts = np.zeros((0, 0))
        self.reset()

    @contextmanager
    def _course(self, dataset):
        episodes = [episode.actions for episode in dataset]
        self.task = {"steps": max(map(len, episodes))}
        most = int(max(actions.max() for actions in episodes)) + 1
        self.counts = np.zeros((self.task["steps"], most))

        def step(number):
            def change():
                actions = episodes[number]
                self.counts[np.arange(actions.size), actions] += 1
                return {"episodes": number + 1.0}

            return change

        yield Course(step, len(episodes), save_every=len(episodes))

    def reset(self):
        self._step = 0

    def act(self, observation, action_mask=None):
        liked = np.zeros(np.size(action_mask))
        if self._step < len(self.counts):
            known = self.counts[self._step]
            size = min(known.size, liked.size)
            liked[:size] = known[:size]
        self._step += 1
        return int(np.where(action_mask, liked, -1.0).argmax())

    def _state(self):
        return {"counts": self.counts}, {"updates": self.updates}

    def _restore(self, arrays, values):
        self.counts, self.updates = np.array(arrays["counts"]), int(values["updates"])
'''
ENVS = {
    "spatial": ["-e", "machine=toy", "-e", "slices=8"],
    "threads": ["-e", "requests=200000"],
    "access-path": ["-e", "scans=6"],
}


def pmoss(*words: str) -> str:
    done = CliRunner().invoke(make_app(), list(words), env={"COLUMNS": "200"})
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose files can be named, as `pmoss` finds them there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    return tmp_path


@pytest.mark.parametrize("domain", ENVS)
def test_one_file_is_trained_evaluated_and_rolled_out(domain: str, here: Path) -> None:
    module = f"outsider_of_{domain.replace('-', '_')}"
    (here / f"{module}.py").write_text(CODE.replace("DOMAIN", repr(domain)))
    env, path = ENVS[domain], f"{module}:Habit"
    pmoss("collect", "data", "--domain", domain, *env, "--episodes", "6")
    assert "own-habit: episodes 6" in pmoss("train", "data", "a.safetensors", "--agent", path)
    trained = f"{path}@a.safetensors"
    few = ["--seeds", "1", "--episodes", "1", "--budget", "20", "--schedules", "2"]
    shown = pmoss("evaluate", trained, *env, *few, "-b", "random", "--out", "r.jsonl")
    assert "Illegal actions: 0" in shown
    assert replay(here / "r.jsonl").mismatches == ()
    how = ["--machine", "toy", "--backend", "analytic"] if domain == "spatial" else []
    shown = pmoss("rollout", trained, "-b", "random", *how, *env[-2:], "--episodes", "1")
    assert "episode 0  a  " in shown
    if domain == "spatial":
        assert "Mq/s" in pmoss("explain", "random", trained, *env)


def test_one_file_takes_part_in_the_offline_benchmark(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pmoss_benchmarks.offline import plan
    from pmoss_datasets.recipes import tier

    def shortened(name: str, domain: str) -> dict[str, Any]:
        return {**tier(name, domain), "episodes": 6, "reference_episodes": 0}

    monkeypatch.setattr(plan, "tier", shortened)
    (here / "outsider_in_benchmark.py").write_text(CODE.replace("DOMAIN", "'access-path'"))
    path = "outsider_in_benchmark:Habit"
    words = ["--suite", "sisters", "--track", "access-path", "--seeds", "1", "--out", "out"]
    pmoss("benchmark", "offline", *words, "--agent", path, "--data", "data")
    summary = json.loads((here / "out" / "summary.json").read_text())
    (cell,) = summary["cells"].values()
    assert cell["agent"] == path and cell["training"]["updates"] == 6
    (rows,) = (here / "out" / "access-path").glob("*.jsonl")
    assert replay(rows).mismatches == ()
    # Another call without the agent keeps its results, and imports nothing that a file names.
    pmoss("benchmark", "offline", *words, "--agent", "random", "--data", "data")
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert {cell["agent"] for cell in summary["cells"].values()} == {path, "random"}


def test_an_entry_point_needs_no_path(install_package: Any, here: Path) -> None:
    install_package(
        "outsider_installed",
        {"pmoss.agents": {"own-habit": "outsider_installed:Habit"}},
        CODE.replace("DOMAIN", "'access-path'"),
    )
    env = ENVS["access-path"]
    pmoss("collect", "data", "--domain", "access-path", *env, "--episodes", "4")
    pmoss("train", "data", "a.safetensors", "--agent", "own-habit")
    few = ["--seeds", "1", "--episodes", "1", "--schedules", "2"]
    assert "oracle" in pmoss("evaluate", "a.safetensors", *env, *few)


def test_help_says_what_a_policy_may_be() -> None:
    for command in ("evaluate", "rollout"):
        text = " ".join(pmoss(command, "--help").split())
        assert "module:Class@CHECKPOINT" in text and "pmoss.agents" in text

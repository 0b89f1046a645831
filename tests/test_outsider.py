"""An agent of others: one file with one class, which every command takes."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import pmoss_agents
from pmoss_benchmarks.study.store import read_stored
from pmoss_datasets import find_domain, open_dataset
from pmoss_datasets.evaluation import replay
from pmoss_env.errors import DescriptionError
from tests.cli.invoking import pmoss

pytest.importorskip("safetensors")
pytest.importorskip("h5py")

REPOSITORY = Path(__file__).resolve().parents[1]
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
        tiles = int(max(actions.max() for actions in episodes)) + 1
        self.counts = np.zeros((self.task["steps"], tiles))

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
            counts = self.counts[self._step]
            size = min(counts.size, liked.size)
            liked[:size] = counts[:size]
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder whose files can be named, as `pmoss` finds them there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    return tmp_path


@pytest.mark.parametrize("domain", ENVS)
def test_one_file_is_trained_evaluated_and_rolled_out(domain: str, folder: Path) -> None:
    module = f"outsider_of_{domain.replace('-', '_')}"
    (folder / f"{module}.py").write_text(CODE.replace("DOMAIN", repr(domain)))
    env, path = ENVS[domain], f"{module}:Habit"
    pmoss("data", "collect", "data", "--domain", domain, *env, "--episodes", "6")
    assert "own-habit: episodes 6" in pmoss("train", path, "data", "a.safetensors")
    trained = f"{path}@a.safetensors"
    few = ["--seeds", "1", "--episodes", "1", "--budget", "20", "--schedules", "2"]
    shown = pmoss("evaluate", trained, *env, *few, "random", "--out", "r.jsonl")
    assert "Illegal actions: 0" in shown
    assert replay(folder / "r.jsonl").mismatches == ()
    how = ["--machine", "toy", "--backend", "analytic"] if domain == "spatial" else []
    shown = pmoss("run", "rollout", trained, "random", *how, *env[-2:], "--episodes", "1")
    assert "episode 0  a  " in shown
    if domain == "spatial":
        assert "Mq/s" in pmoss("explain", "random", trained, *env)


def test_one_file_takes_part_in_a_study(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pmoss_benchmarks.functions import play
    from pmoss_datasets.recipes import tier

    def shortened(name: str, domain: str) -> dict[str, Any]:
        return {**tier(name, domain), "episodes": 6, "reference_episodes": 0}

    monkeypatch.setattr(play, "tier", shortened)
    (folder / "outsider_in_benchmark.py").write_text(CODE.replace("DOMAIN", "'access-path'"))
    path = "outsider_in_benchmark:Habit"
    words = ["--root", str(REPOSITORY), "--data", "data", "--set", "seeds=1"]
    words += ["--set", 'tracks=["access-path"]', "--out", "rows.jsonl"]
    pmoss("study", "run", "sisters", *words, "--set", f'agents=["{path}"]')
    rows = {row["policy"]: row for row in read_stored(folder / "rows.jsonl").rows}
    assert rows[path]["training"]["updates"] == 6 and "random" in rows
    replayed = ["--rows", "rows.jsonl", "--root", str(REPOSITORY)]
    assert "0 values differ" in pmoss("study", "replay", "sisters", *replayed)


def refusal(*words: str) -> str:
    """The one line of a command that is refused."""
    *_, line = pmoss(*words, status=2).splitlines()  # after its progress
    assert line.startswith("error: ")
    return line


#: Two environments and their domains: ``stay`` never ends an episode.
ROAD = """
import gymnasium
import numpy as np
from gymnasium import spaces

from pmoss_datasets.stepwise import StepDomain


class Road(gymnasium.Env):
    def __init__(self, length=4, wide: bool = False):
        if length > 9:
            raise RuntimeError("too long a road")
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += int(action)
        return np.zeros(1, np.float32), float(action), self.at == self.length, False, {}


gymnasium.register("toys/Road-v0", "outsider_road:Road", max_episode_steps=7)
gymnasium.register("toys/EndlessRoad-v0", "outsider_road:Road")


class RoadDomain(StepDomain):
    name = "road"
    env_id = "toys/Road-v0"
    rules = {
        "go": lambda env, observation, mask, rng: 1,
        "stay": lambda env, observation, mask, rng: 0 * env.length,
    }


class EndlessRoadDomain(RoadDomain):
    name = "endless-road"
    env_id = "toys/EndlessRoad-v0"
    good = ("go",)
    most_steps = 50


ROAD, ENDLESS = RoadDomain(), EndlessRoadDomain()
"""


@pytest.fixture
def roads(install_package: Any) -> Iterator[None]:
    names = {"road": "outsider_road:ROAD", "endless-road": "outsider_road:ENDLESS"}
    install_package("outsider_road", {"pmoss.domains": names}, ROAD)
    find_domain.cache_clear()
    yield
    find_domain.cache_clear()
    for name in ("Road", "EndlessRoad"):
        gymnasium.registry.pop(f"toys/{name}-v0", None)
    sys.modules.pop("outsider_road", None)


FEW = ["--seeds", "1", "--episodes", "1", "--schedules", "2"]


def test_the_registered_step_limit_ends_episodes(roads: None, folder: Path) -> None:
    pmoss("evaluate", "--domain", "road", "stay", "go", *FEW, "--out", "r.jsonl")
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()[1:]]
    assert {row["policy"]: len(row["actions"]) for row in rows} == {"stay": 7, "go": 4}
    assert replay(folder / "r.jsonl").mismatches == ()
    assert "stay" in pmoss("run", "rollout", "--domain", "road", "stay", "--episodes", "1")
    pmoss("data", "collect", "data", "--domain", "road", "--tier", "mixed", "--episodes", "6")
    assert max(len(episode.actions) for episode in open_dataset(folder / "data")) == 7
    pmoss("data", "verify", "data")


def test_an_episode_without_an_end_is_refused(roads: None, folder: Path) -> None:
    for words in (["evaluate", *FEW], ["run", "rollout", "--episodes", "1"]):
        message = refusal(*words, "--domain", "endless-road", "stay")
        assert "50 steps" in message and "max_episode_steps" in message and "most_steps" in message
    message = refusal("data", "collect", "data", "--domain", "endless-road", "--tier", "mixed")
    assert "max_episode_steps" in message
    assert "go" in pmoss("evaluate", "--domain", "endless-road", "go", *FEW[:-2])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("length=long", "length = 'long': must be a finite number"),
        ("wide=1", "wide = 1: must be true or false"),
        ("length=10", "RuntimeError: too long a road"),
        ("width=1", "unknown; did you mean 'wide'? known are length, wide"),
    ],
)
def test_bad_arguments_of_an_environment(argument, message, roads, folder):
    assert message in refusal("evaluate", "--domain", "road", "go", "-e", argument)
    assert message in refusal("run", "rollout", "--domain", "road", "go", "-e", argument)
    assert message in refusal("data", "collect", "data", "--domain", "road", "-e", argument)


STRANGE = """
from dataclasses import dataclass
from pmoss_agents import Agent


class Needy:
    def __init__(self, path):
        pass

    def reset(self):
        pass

    def act(self, observation, action_mask):
        return int(action_mask.argmax())


class First(Needy):
    domain = "access-path"

    def __init__(self):
        pass


@dataclass(frozen=True)
class Config:
    steps: int = 1
    rate: float = 0.5
    kind: str = "a"

    def __post_init__(self):
        if self.rate > self.steps:
            raise ValueError("too fast")


class Learner(Agent):
    name = "own-learner"
    learns = "offline"
    Config = Config
    act = _state = _restore = None


def none(context):
    return None


def short(context):
    return context.machine.local_schedule(context.machine.workers[:1])
"""


def test_what_others_get_wrong_is_one_line(install_package: Any, folder: Path) -> None:
    baselines = {"gives-none": "outsider_strange:none", "gives-few": "outsider_strange:short"}
    policies = {"first": "outsider_strange:First", "needy": "outsider_strange:Needy"}
    groups = {"pmoss.baselines": baselines, "pmoss.agents": policies}
    install_package("outsider_strange", groups, STRANGE)
    toy = ENVS["spatial"]
    for word in ("outsider_strange:Needy", "needy"):
        message = refusal("evaluate", word, *toy)
        assert "Needy() raises TypeError" in message and "'path'" in message
    for command in (["evaluate"], ["data", "collect", "data"]):
        assert "'gives-none' gave None" in refusal(*command, "gives-none", *toy)
    assert "'gives-few': the schedule places 1 slices" in refusal("evaluate", "gives-few")
    for values, message in (
        ({"steps": "many"}, "own-learner: steps = 'many': must be a whole number"),
        ({"rate": "fast"}, "own-learner: rate = 'fast': must be a finite number"),
        ({"kind": 3}, "own-learner: kind = 3: must be a text"),
        ({"rate": 2.0}, "own-learner: config: too fast"),
        ({"size": 3}, "own-learner: config 'size': unknown"),
    ):
        with pytest.raises(DescriptionError, match=re.escape(message)):
            pmoss_agents.make("outsider_strange:Learner", **values)


def test_a_plain_policy_by_entry_point(install_package: Any, folder: Path) -> None:
    groups = {"pmoss.agents": {"first": "outsider_strange:First"}}
    install_package("outsider_strange", groups, STRANGE)
    assert "first" in pmoss("list", "agents")
    assert "first" in pmoss("evaluate", "first", *ENVS["access-path"], *FEW)
    assert "'first'" in refusal("train", "first", "first.safetensors")


@pytest.mark.parametrize("word", ["linear-cost", "outsider_plain:Learner"])
def test_who_has_learned_nothing_is_refused_at_once(word, install_package, folder):
    install_package("outsider_plain", {}, STRANGE)
    file = f"{word}@OUT.safetensors" if ":" in word else "OUT.safetensors"
    for command in (["evaluate"], ["run", "rollout"]):
        message = refusal(*command, word, "--out", "r.jsonl")
        assert f"`pmoss train {word} DATASET OUT.safetensors`" in message
        assert f"then name {file} in its place" in message
    assert not (folder / "r.jsonl").exists()


def test_a_cost_is_shown_without_its_minus(folder: Path) -> None:
    env = ["--domain", "access-path", *ENVS["access-path"]]
    for words in (["evaluate", *FEW, "--out", "r.jsonl"], ["run", "rollout", "--episodes", "1"]):
        shown = pmoss(*words, *env, "oracle")
        (row,) = [line.split() for line in shown.splitlines() if line.split()[:1] == ["oracle"]]
        assert float(row[1]) > 0
        assert "before" not in shown and "undone" not in shown
    assert "all bits equal" in pmoss("study", "replay", "r.jsonl")
    assert "is not JSON" in refusal("study", "replay", __file__)

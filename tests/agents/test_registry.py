"""Agents by name, path and entry point: their settings, and what decides an agent."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import checkpoints, registry
from pmoss_agents.cli import training
from pmoss_agents.configs import CONFIGS, Settings, read_config, task_name
from pmoss_agents.learning import Lesson, learn
from pmoss_agents.policies import named_policies
from pmoss_datasets.policies import Policy
from pmoss_datasets.several import Several
from pmoss_env.errors import (
    CheckpointError,
    DescriptionError,
    PluginError,
    UnknownNameError,
    UnsupportedError,
)
from tests.native.builds import run

#: An agent of another package, in one file: it takes the allowed tile of the highest number.
MINE = '''
from dataclasses import dataclass

import numpy as np

from pmoss_agents import Agent


@dataclass(frozen=True)
class Config:
    """Nothing to set."""


class Highest(Agent):
    name = "highest"
    domain = "spatial"
    Config = Config

    def __init__(self, **config):
        super().__init__(**config)
        self.task = {"any": True}

    def act(self, observation, action_mask=None):
        mask = observation["position_mask"].ravel() if action_mask is None else action_mask
        return int(np.flatnonzero(mask)[-1])

    def _state(self):
        return {"nothing": np.zeros(1)}, {}

    def _restore(self, arrays, values):
        pass


class Plain:
    """A policy that is no agent."""

    def reset(self):
        pass

    def act(self, observation, action_mask):
        return int(np.flatnonzero(action_mask)[0])


class Renamed(Highest):
    name = "another"


NOTHING = 3
'''


@pytest.fixture
def mine(install_package: Any) -> str:
    """A package with two agents, one of which calls itself otherwise than its entry point."""
    entries = {"highest": "mine_agents:Highest", "renamed": "mine_agents:Renamed"}
    install_package("mine_agents", {registry.GROUP: entries}, MINE)
    return "mine_agents"


@pytest.mark.parametrize("listing", registry.OWN.values(), ids=lambda listing: listing.name)
def test_the_list_agrees_with_the_classes(listing: registry.Listing) -> None:
    agent = registry.agent_class(listing.name)
    facts = (agent.name, agent.domain, agent.learns)
    assert facts == (listing.name, listing.domain, listing.learns)
    base = {"offline": pmoss_agents.OfflineAgent, "online": pmoss_agents.OnlineAgent}
    if listing.learns != "nothing":
        assert issubclass(agent, base[listing.learns])


def test_texts_name_the_agents_that_learn_from_several_datasets_or_go_on() -> None:
    pytest.importorskip("torch", reason="the extra agents is not installed")
    agents: list[Any] = [
        pmoss_agents.make(name) for name, listing in registry.OWN.items() if "off" in listing.learns
    ]

    def named(text: str) -> set[str]:
        return set(re.split(", | and ", text)) & set(registry.OWN)

    def renews(agent: Any) -> bool:
        with pytest.raises((UnsupportedError, CheckpointError)) as caught:
            agent.renewed()
        return isinstance(caught.value, CheckpointError)

    several = {agent.name for agent in agents if agent.several}
    renewing = {agent.name for agent in agents if renews(agent)}
    lesson = Lesson("spatial", object.__new__(Several))
    with pytest.raises(DescriptionError) as one:
        learn(pmoss_agents.make("bc"), lesson)
    with pytest.raises(UnsupportedError) as never:
        pmoss_agents.make("bc").renewed()
    helps = [get_args(option)[1].help for option in (training.Paths, training.StartOption)]
    for text in (helps[0].partition("by playing. ")[2], str(one.value).partition("one; ")[2]):
        assert named(text.partition(" learn from")[0]) == several
    for text in (helps[1].partition("--set. ")[2], str(never.value).partition("; ")[2]):
        assert named(text.partition(" can")[0]) == renewing


def test_without_torch_every_agent_works_or_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import pmoss_agents\n"
        "from pmoss_env.errors import MissingExtraError\n"
        "for name in pmoss_agents.agent_names():\n"
        "    try: pmoss_agents.make(name)\n"
        "    except MissingExtraError as error: print(name, error)\n"
    )
    lines = run(sys.executable, "-c", program).splitlines()
    networks = [
        name for domain in ("continual", "spatial") for name in pmoss_agents.agent_names(domain)
    ]
    assert [line.split()[0] for line in lines] == sorted(networks)
    assert all("'.[agents]'" in line for line in lines)


def test_domains_have_their_own_agents() -> None:
    domains = ("spatial", "access-path", "threads", "continual")
    names = [pmoss_agents.agent_names(domain) for domain in domains]
    assert sorted(name for part in names for name in part) == pmoss_agents.agent_names()
    with pytest.raises(UnknownNameError, match="Did you mean 'spatial'"):
        pmoss_agents.agent_names("spacial")
    with pytest.raises(UnknownNameError, match="Did you mean 'cql'"):
        pmoss_agents.make("cqll")


def test_an_agent_of_others_goes_by_its_name(mine: str, tmp_path: Path) -> None:
    assert "highest" in pmoss_agents.agent_names("spatial")
    agent = pmoss_agents.make("highest")
    assert agent.act({}, np.array([1, 1, 0])) == 1
    agent.save(tmp_path / "mine.safetensors")
    assert pmoss_agents.load(tmp_path / "mine.safetensors").name == "highest"
    with pytest.raises(PluginError, match="calls itself 'another'"):
        pmoss_agents.make("renamed")


def test_without_an_entry_point_it_goes_by_its_path(mine: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    agent = pmoss_agents.make(f"{mine}:Renamed")
    agent.save(path)
    # The file names a class that is not registered: what a file says is never imported.
    with pytest.raises(CheckpointError, match=r"unknown agent 'another'.*module:Class@FILE"):
        pmoss_agents.load(path)
    assert pmoss_agents.load(path, f"{mine}:Renamed").name == "another"
    assert pmoss_agents.load(path, type(agent)).name == "another"
    assert pmoss_agents.find_policy(f"{mine}:Renamed@{path}").name == "another"  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="is of the agent 'another', not of 'highest'"):
        pmoss_agents.load(path, f"{mine}:Highest")


def test_a_file_cannot_name_a_module(mine: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    header = {"agent": f"{mine}:Highest", "config": {}, "task": {}, "values": {}}
    checkpoints.write(path, header, {})
    with pytest.raises(CheckpointError, match="unknown agent 'mine_agents:Highest'"):
        pmoss_agents.load(path)


def test_any_policy_is_found_by_its_path(mine: str) -> None:
    policy = pmoss_agents.find_policy(f"{mine}:Plain")
    assert isinstance(policy, Policy) and policy.act({}, np.array([0, 1], np.int8)) == 1
    assert pmoss_agents.names_policy(f"{mine}:Plain") and pmoss_agents.names_policy("highest")
    assert not pmoss_agents.names_policy("lpt")
    with pytest.raises(PluginError, match="is no subclass of"):
        pmoss_agents.make(f"{mine}:Plain")
    with pytest.raises(PluginError, match="'mine_agents:Absent' cannot be loaded"):
        pmoss_agents.make(f"{mine}:Absent")


def test_a_broken_package_is_listed_and_hurts_no_other(install_package: Any) -> None:
    install_package("broken_agents", {registry.GROUP: {"broken": "broken_agents:X"}}, "1 / 0")
    (listing,) = [each for each in registry.listings() if each.name == "broken"]
    assert "ZeroDivisionError" in listing.problem
    assert "broken" not in pmoss_agents.agent_names("spatial")
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        pmoss_agents.make("broken")


@dataclass(frozen=True)
class Some(Settings):
    agent: ClassVar[str] = "some"
    BOUNDS: ClassVar = {"share": "[0, 1)", "step": "(0, 1]", "rate": "(0, inf)"}

    kind: Literal["a", "b"] = "a"
    share: float = 0.5
    step: float = 0.5
    rate: float = 1.0
    count: int = 1
    width: int = 8
    seed: int = 0
    threads: int = 1
    device: str = "cpu"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"kind": "c"}, "kind = 'c': must be one of a, b"),
        ({"kind": ["a"]}, r"kind = \['a'\]: must be one of"),
        ({"share": 1}, r"share = 1: must lie in \[0, 1\)"),
        ({"step": 0.0}, r"step = 0\.0: must lie in \(0, 1\]"),
        ({"rate": 0}, "rate = 0: must be above 0"),
        ({"rate": "abc"}, "rate = 'abc': must be a finite number"),
        ({"rate": float("nan")}, "rate = nan: must be a finite number"),
        ({"count": 0}, "count = 0: must be at least 1"),
        ({"count": 2.5}, r"count = 2\.5: must be a whole number"),
        ({"count": True}, "count = True: must be a whole number"),
        ({"width": 10**30}, "width = 10*: must be at most 4096"),
        ({"seed": -1}, r"seed = -1: must lie in \[0, 2\^32\)"),
        ({"seed": 2**32}, r"seed = 4294967296: must lie in \[0, 2\^32\)"),
        ({"threads": 100_000}, "threads = 100000: must lie between 1 and 1024"),
        ({"device": "tpu"}, "device = 'tpu': must be one of cpu, cuda, auto"),
    ],
)
def test_wrong_settings_are_named(values: dict[str, Any], text: str) -> None:
    with pytest.raises(DescriptionError, match=f"^some: {text}"):
        Some(**values)


def test_a_config_file_has_tables_for_tasks(tmp_path: Any) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(
        'agent = "cql"\nalpha = 2.0\nupdates = 9\n'
        '[tasks."toy-*"]\nupdates = 5\n[tasks."toy-btree-scans"]\nalpha = 3.0\n'
    )
    task = task_name("pmoss/toy-btree-scans/mixed-v0")
    for given, updates, alpha in ((task, 5, 3.0), ("toy-rtree-x", 5, 2.0), ("other", 9, 2.0)):
        config = pmoss_agents.make("cql", config_file=path, task=given, gamma=0.5).config
        assert (config.updates, config.alpha, config.gamma) == (updates, alpha, 0.5)
    with pytest.raises(UnknownNameError, match="agent in"):
        pmoss_agents.make("bcq", config_file=path)
    for text, reason in (
        (b'agent = "cql"\ntasks = 3\n', "tasks: must be tables"),
        (b'agent = ["a"]', "agent = .*: must be a string"),
        (b"\xff\xfe", "is not valid TOML"),
    ):
        path.write_bytes(text)
        with pytest.raises(DescriptionError, match=rf"wrong\.toml: {reason}"):
            pmoss_agents.make("cql", config_file=path)


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.toml")))
def test_committed_configs_make_their_agents(name: str) -> None:
    pytest.importorskip("torch")
    for task in ("toy-btree-ycsb-a", "skylake-x-8n-btree-ycsb-a"):
        pmoss_agents.make(read_config(name)["agent"], config_file=name, task=task)


CODE = """
class First:
    def reset(self): pass
    def act(self, observation, action_mask): return int(action_mask.argmax())

class Maskless(First):
    def act(self, observation): return 0
"""


def test_baselines_agents_files_and_paths(install_package: Any, tmp_path: Path) -> None:
    install_package("first_policy", {}, CODE)
    path = tmp_path / "rule.safetensors"
    pmoss_agents.make("threads-rule").save(path)
    words = ["first_policy:First", path, "threads-random"]
    policies = named_policies(words, domain="threads").policies
    assert list(policies)[-3:] == ["First", "rule", "threads-random"]
    assert all(isinstance(policy, Policy) for policy in policies.values())
    with pytest.raises(DescriptionError, match="more than one policy is named 'rule'"):
        named_policies([path, path])
    with pytest.raises(UnsupportedError, match="first_policy:First: --pad needs an agent"):
        named_policies(["first_policy:First"], pad=True)
    with pytest.raises(PluginError, match=r"write act\(self, observation, action_mask\)"):
        named_policies(["first_policy:Maskless"])
    with pytest.raises(UnknownNameError, match="Did you mean 'cql'"):
        named_policies(["cqll"])


def test_the_domain_is_that_of_the_agents() -> None:
    of_threads = named_policies(["threads-rule"], usual=lambda domain: domain.policies())
    assert of_threads.domain.name == "threads"
    assert {"stay", "threads-rule"} <= set(of_threads.policies)
    assert named_policies(["lpt"]).domain.name == "spatial"
    with pytest.raises(DescriptionError, match="threads-rule of threads, oracle of access-path"):
        named_policies(["threads-rule", "oracle"])

"""Agents by name, by path and by entry point: ours, and those of other packages."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import checkpoints, registry
from pmoss_datasets.policies import Policy
from pmoss_env.errors import CheckpointError, PluginError, UnknownNameError

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


def test_without_torch_every_agent_works_or_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import pmoss_agents\n"
        "from pmoss_env.errors import MissingExtraError\n"
        "for name in pmoss_agents.agent_names():\n"
        "    try: pmoss_agents.make(name)\n"
        "    except MissingExtraError as error: print(name, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
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

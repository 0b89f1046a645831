"""Settings and words of agents: what is checked, what a file says, and what decides an agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

import pmoss_agents
from pmoss_agents.configs import CONFIGS, Settings, read_config, task_name
from pmoss_agents.policies import named_policies
from pmoss_datasets.policies import Policy
from pmoss_env.errors import DescriptionError, PluginError, UnknownNameError, UnsupportedError


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


@dataclass(frozen=True)
class More(Some):
    agent: ClassVar[str] = "more"
    BOUNDS: ClassVar = {"count": "[0, 3]"}

    flag: bool = False


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

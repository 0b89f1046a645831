"""The words that evaluate and rollout take for policies."""

from pathlib import Path
from typing import Any

import pytest

import pmoss_agents
from pmoss_agents.policies import named_policies
from pmoss_datasets.policies import Policy
from pmoss_env.errors import DescriptionError, PluginError, UnknownNameError, UnsupportedError

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

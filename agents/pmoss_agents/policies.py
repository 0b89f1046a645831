"""Policies that a user names: those of a domain by name, agents by checkpoint, name or path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_agents import Agent, find_policy
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env.errors import DescriptionError, UnsupportedError


@dataclass(frozen=True)
class Named:
    """What named_policies() found.

    Attributes:
        domain: in which they play.
        policies: by name.
    """

    domain: Domain
    policies: dict[str, Any]


def named_policies(
    baselines: Sequence[str] | None,
    agents: Sequence[str | Path] | None,
    budget: int | None = None,
    *,
    pad: bool = False,
    domain: str | None = None,
    trust: bool = False,
    usual: Callable[[Domain], Sequence[str]] = lambda domain: (),
) -> Named:
    """The policies by name; an agent from a file goes by the file's name without its ending.

    Args:
        baselines: policies of the domain, such as the baselines of spatial scheduling.
        agents: words, see pmoss_agents.find_policy().
        budget: evaluations of policies that search; their own default if None.
        pad: let agents place slices on smaller machines than that of their data.
        domain: its name; None: that of the agents, or the first one.
        trust: whether exports that are programs may run.
        usual: gives the domain's policies to take where no ``baselines`` are named.

    Raises:
        DescriptionError: two of the same name, or agents of different domains.
        UnknownNameError: no such policy, agent or domain.
        UnsupportedError: a policy that cannot be padded.
    """
    words = [str(agent) for agent in agents or []]
    _check_names([*(baselines or ()), *map(short_name, words)])
    found = {word: find_policy(word, trust=trust) for word in words}
    of = find_domain(domain or _domain_of(found))
    for word, policy in found.items():
        if (own := getattr(policy, "domain", "")) not in ("", of.name):
            raise DescriptionError(f"{word}: is for the environment {own}, not for {of.name}")
    chosen = list(baselines or usual(of))
    _check_names([*chosen, *map(short_name, words)])
    policies: dict[str, Any] = {
        name: of.policy(
            name, budget=budget if budget is not None and of.takes_budget(name) else None
        )
        for name in chosen
    }
    for word, policy in found.items():
        policies[short_name(word)] = _padded(word, policy) if pad else policy
    return Named(of, policies)


def short_name(word: str) -> str:
    """What a policy goes by in tables and result files: a file's stem, a class, or the word."""
    named, _, file = word.partition("@")
    if ":" in named and not Path(word).exists():
        return Path(file).stem if file else named.rpartition(":")[2]
    return Path(word).stem


def _check_names(names: Sequence[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DescriptionError(
            f"more than one policy is named {', '.join(map(repr, twice))}: checkpoints go by their "
            "file's name without its ending; rename the file, or leave one out"
        )


def _domain_of(policies: dict[str, Any]) -> str:
    """The domain of some agents; the first one if they do not say."""
    told = {word: getattr(policy, "domain", "") for word, policy in policies.items()}
    domains = list(dict.fromkeys(name for name in told.values() if name))
    if len(domains) > 1:
        listed = ", ".join(f"{word} of {name}" for word, name in told.items() if name)
        raise DescriptionError(f"agents of different domains: {listed}; compare one after another")
    return domains[0] if domains else FIRST_DOMAIN


def _padded(word: str, policy: Any) -> Any:
    if not isinstance(policy, Agent):
        raise UnsupportedError(f"{word}: --pad needs an agent that tells the grid it learned on")
    return policy.padded()

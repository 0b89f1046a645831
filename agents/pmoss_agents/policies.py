"""Policies that a user names: those of a domain by name, agents by checkpoint, name or path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pmoss_agents import Agent, find_policy
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env.errors import DescriptionError, UnsupportedError


class Named(NamedTuple):
    """Policies by name, and the domain in which they play."""

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
    names = [short_name(word) for word in words]
    _check_names([*(baselines or ()), *names])
    players = {word: find_policy(word, trust=trust) for word in words}
    chosen = find_domain(domain or _domain_of(players))
    for word, policy in players.items():
        if (own := getattr(policy, "domain", "")) not in ("", chosen.name):
            raise DescriptionError(f"{word}: is for the environment {own}, not for {chosen.name}")
        if pad and not isinstance(policy, Agent):
            raise UnsupportedError(f"{word}: --pad needs an agent, which keeps its grid")
    rules = list(baselines or usual(chosen))
    _check_names([*rules, *names])
    policies: dict[str, Any] = {
        name: chosen.policy(name, budget=budget if chosen.takes_budget(name) else None)
        for name in rules
    }
    for name, policy in zip(names, players.values(), strict=True):
        policies[name] = policy.padded() if pad and isinstance(policy, Agent) else policy
    return Named(chosen, policies)


def short_name(word: str) -> str:
    """What a policy goes by in tables and result files: a file's stem, a class, or the word."""
    path, _, file = word.partition("@")
    if ":" in path and not Path(word).exists():
        return Path(file).stem if file else path.rpartition(":")[2]
    return Path(word).stem


def _check_names(names: Sequence[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DescriptionError(
            f"more than one policy is named {', '.join(map(repr, twice))}: checkpoints go by their "
            "file's name without its ending; rename the file, or leave one out"
        )


def _domain_of(players: Mapping[str, Any]) -> str:
    """The domain of some agents; the first one if they do not say."""
    domains = {
        word: name for word, policy in players.items() if (name := getattr(policy, "domain", ""))
    }
    if len(set(domains.values())) > 1:
        listed = ", ".join(f"{word} of {name}" for word, name in domains.items())
        raise DescriptionError(f"agents of different domains: {listed}; compare one after another")
    return next(iter(domains.values()), FIRST_DOMAIN)

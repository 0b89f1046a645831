"""Policies that a user names: those of a domain by name, agents by checkpoint, name or path."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pmoss_agents import Agent, find_policy
from pmoss_agents.finding import names_policy
from pmoss_agents.registry import agent_names, listings, policy_maker
from pmoss_datasets.domain import Domain, domain_names, find_domain
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.files import file_stamp


class Named(NamedTuple):
    """Policies by name, and the domain in which they play."""

    domain: Domain
    policies: dict[str, Any]


def named_policies(
    policies: Sequence[str | Path] | None,
    budget: int | None = None,
    *,
    pad: bool = False,
    domain: str | None = None,
    usual: Callable[[Domain], Sequence[str]] = lambda domain: (),
) -> Named:
    """The policies by name; an agent from a file goes by the file's name without its ending.

    Args:
        policies: names of policies of the domain, such as the baselines of spatial scheduling, and
            words of find_policy().
        budget: evaluations of policies that search; their own default if None.
        pad: let agents place slices on smaller machines than that of their data.
        domain: its name; None: that of the agents, or the first one.
        usual: gives the domain's policies to take where none of its own is named.

    Raises:
        DescriptionError: two of the same name, or agents of different domains.
        UnsupportedError: a policy that cannot be padded.
    """
    every = [str(policy) for policy in policies or ()]
    rules, words = _rules_and_agents(every, domain)
    names = [short_name(word) for word in words]
    _check_names([*rules, *names])
    players = {word: find_policy(word) for word in words}
    chosen = find_domain(domain or _domain_of(players, rules))
    for rule in rules:
        if rule not in _rules_of(chosen):
            raise UnknownNameError(f"policy of {chosen.name}", rule, _rules_of(chosen))
    for word, policy in players.items():
        if (own := getattr(policy, "domain", "")) not in ("", chosen.name):
            raise DescriptionError(f"{word}: is for the environment {own}, not for {chosen.name}")
        if pad and not isinstance(policy, Agent):
            raise UnsupportedError(f"{word}: --pad needs an agent, which keeps its grid")
    rules = rules or list(usual(chosen))
    _check_names([*rules, *names])
    named: dict[str, Any] = {
        name: chosen.policy(name, budget=budget if chosen.takes_budget(name) else None)
        for name in rules
    }
    for name, policy in zip(names, players.values(), strict=True):
        named[name] = policy.padded() if pad and isinstance(policy, Agent) else policy
    return Named(chosen, named)


def made_of(words: Sequence[str | Path]) -> dict[str, Any]:
    """What made the policies of some words, as plain JSON: the words, and stamps of their files.

    An agent that was trained or written anew under its old name is another one.
    """
    files = [Path(part) for word in words for part in str(word).split("@")]
    names = [str(word).partition("@")[0] for word in words if not Path(word).exists()]
    for name in names:
        if ":" in name or name in agent_names():
            module = sys.modules.get(str(getattr(policy_maker(name), "__module__", "")))
            files.append(Path(getattr(module, "__file__", None) or ""))
    stamps = {str(path): stamp for path in files if (stamp := file_stamp(path))}
    return {"agents": [str(word) for word in words], "files": stamps}


def _rules_and_agents(words: Sequence[str], domain: str | None) -> tuple[list[str], list[str]]:
    """The words that name policies of domains, and those that name agents.

    Without a domain a name that both have is an agent's: it then says which domain is meant.
    """
    domains = [domain] if domain else domain_names()
    rules = {rule for name in domains for rule in _rules_of(find_domain(name))}
    agents = {listing.name for listing in listings()}
    if domain is None:
        rules -= agents
    for word in words:
        if word not in rules and not names_policy(word):
            raise UnknownNameError("policy", word, sorted(rules | agents))
    return [word for word in words if word in rules], [word for word in words if word not in rules]


def _rules_of(domain: Domain) -> tuple[str, ...]:
    """A domain's policies, and what is measured beside them."""
    return *domain.policies(), *domain.unplaced


def short_name(word: str) -> str:
    """A policy's name in tables and result files: a file's stem, a class, or the word."""
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


def _domain_of(players: Mapping[str, Any], rules: Sequence[str]) -> str:
    """The domain of some agents; if they do not say, the first one that has all of the rules."""
    domains = {
        word: name for word, policy in players.items() if (name := getattr(policy, "domain", ""))
    }
    if len(set(domains.values())) > 1:
        listed = ", ".join(f"{word} of {name}" for word, name in domains.items())
        raise DescriptionError(f"agents of different domains: {listed}; compare one after another")
    if domains:
        return next(iter(domains.values()))
    names = [FIRST_DOMAIN, *domain_names()]
    return next((n for n in names if set(rules) <= set(_rules_of(find_domain(n)))), FIRST_DOMAIN)

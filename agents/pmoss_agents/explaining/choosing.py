"""The arguments of `pmoss explain`: resolved, and compared in one episode."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.explaining.differences import Comparison
from pmoss_agents.explaining.measuring import Choice, Progress, explain
from pmoss_agents.policies import short_name
from pmoss_datasets.domain import check_offer, domain_of_env, find_domain
from pmoss_datasets.evaluation import DEFAULT_ENV
from pmoss_env.baselines import make_baseline
from pmoss_env.schedule_files import read_schedule


def explain_words(
    a: str,
    b: str,
    options: Mapping[str, Any],
    *,
    rounds: int = 1,
    progress: Progress | None = None,
) -> tuple[Comparison, str]:
    """Compares the schedules of two arguments.

    Args:
        a: a baseline, an agent as of pmoss_agents.find_policy(), or a schedule file.
        options: of the episode, those that are given: "machine" and "backend" by name, "env" and
            "option" with arguments of the environment and the backend, and "seed".
        rounds: see explain().
        progress: see explain().

    Returns:
        The comparison; and in words the machine, what was asked for, and the episode.

    Raises:
        UnsupportedError: a policy of a domain without schedules.
        PmossError: what the words or the episode lack.
    """
    choices = [_choice(word) for word in (a, b)]
    arguments = {"machine": "skylake-x-8n", "backend": "analytic"}
    arguments |= {name: options[name] for name in arguments if name in options}
    arguments |= options.get("env", {})
    if "option" in options:
        arguments["backend_options"] = options["option"]
    seed = options.get("seed", 0)
    # The final throughput is all that is asked for.
    with closing(domain_of_env(DEFAULT_ENV).make_env({**arguments, "reward": "terminal"})) as env:
        named: dict[str, Choice] = {
            name: read_schedule(choice, env.machine) if isinstance(choice, Path) else choice
            for name, choice in zip(_names(a, b), choices, strict=True)
        }
        comparison = explain(env, seed, named, rounds=rounds, progress=progress)
        asked = ", ".join(f"{key} {value}" for key, value in arguments.items())
        return comparison, f"{env.machine.description}; {asked}; episode {seed}"


def _choice(word: str) -> Any:
    """The choice that a word names, before there is an environment."""
    if word.endswith(".json"):
        return Path(word)
    if not pmoss_agents.names_policy(word):
        return make_baseline(word, shared=True)
    policy = pmoss_agents.find_policy(word)
    if domain := getattr(policy, "domain", ""):
        check_offer(find_domain(domain), "schedules", f"explain {word}")
    return policy


def _names(a: str, b: str) -> list[str]:
    """Short names, where these differ."""
    names = [short_name(a), short_name(b)]
    if names[0] != names[1]:
        return names
    return [a, b] if a != b else [a, f"{b} again"]

"""Policies that a command is told of: baselines by name, agents by their checkpoints or paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

PadOption = Annotated[
    bool,
    typer.Option(
        "--pad",
        help="Let agents place slices on a smaller machine than that of their data: its grid is "
        "padded to theirs and masked.",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run exports in TorchScript (.pt): they are programs, which may do anything.",
    ),
]


def named_policies(
    baselines: Sequence[str],
    agents: Sequence[str | Path] | None,
    budget: int | None = None,
    *,
    pad: bool = False,
    domain: str = "spatial",
    trust: bool = False,
) -> dict[str, Any]:
    """The policies by name; an agent from a file goes by the file's name without its ending.

    Args:
        baselines: names.
        agents: words, see pmoss_agents.find_policy().
        budget: evaluations of baselines that search; their own default if None.
        pad: let agents place slices on smaller machines than that of their data.
        domain: whose policies the baselines are.
        trust: whether exports that are programs may run.

    Raises:
        DescriptionError: two of the same name.
        UnsupportedError: a policy that cannot be padded.
    """
    from pmoss_datasets.domain import find_domain
    from pmoss_env.errors import DescriptionError

    words = [str(agent) for agent in agents or []]
    names = [*baselines, *(short_name(word) for word in words)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DescriptionError(
            f"more than one policy is named {', '.join(map(repr, twice))}: checkpoints go by their "
            "file's name without its ending; rename the file, or leave one out"
        )
    of = find_domain(domain)
    policies: dict[str, Any] = {
        name: of.policy(
            name, budget=budget if budget is not None and of.takes_budget(name) else None
        )
        for name in baselines
    }
    if words:
        from pmoss_agents import find_policy

        for word in words:
            policy = find_policy(word, trust=trust)
            policies[short_name(word)] = _padded(word, policy) if pad else policy
    return policies


def short_name(word: str) -> str:
    """What a policy goes by in tables and result files: a file's stem, a class, or the word."""
    named, _, file = word.partition("@")
    if ":" in named and not Path(word).exists():
        return Path(file).stem if file else named.rpartition(":")[2]
    return Path(word).stem


def _padded(word: str, policy: Any) -> Any:
    from pmoss_agents.spatial.base import SpatialAgent
    from pmoss_agents.spatial.padded import PaddedAgent
    from pmoss_env.errors import UnsupportedError

    if not isinstance(policy, SpatialAgent):
        raise UnsupportedError(f"{word}: --pad needs an agent that tells the grid it learned on")
    return PaddedAgent(policy)

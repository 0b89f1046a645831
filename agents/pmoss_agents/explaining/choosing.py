"""What the words of `pmoss explain` mean, and both compared in one episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.explaining.differences import Comparison
from pmoss_agents.explaining.measuring import Choice, Progress, explain
from pmoss_agents.explaining.rows import Row, names_row, read_row
from pmoss_agents.policies import short_name
from pmoss_datasets.domain import check_offer, domain_of_env, find_domain
from pmoss_datasets.evaluation import DEFAULT_ENV
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import DescriptionError
from pmoss_env.schedule_files import read_schedule


@dataclass(frozen=True)
class Explained:
    """Two schedules that were compared.

    Attributes:
        comparison: of their counters.
        task: in words: the machine, what was asked for, and the episode.
    """

    comparison: Comparison
    task: str


@dataclass(frozen=True)
class Asked:
    """The episode that was asked for, option by option; None: not given.

    Attributes:
        backend: its name.
        machine: likewise.
        env: other arguments of the environment.
        options: of the backend.
        seed: of the episode.
    """

    backend: str | None = None
    machine: str | None = None
    env: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    seed: int | None = None

    def episode(self, rows: Sequence[Row]) -> tuple[str, dict[str, Any], int]:
        """Id and arguments of the environment, and the episode's seed.

        Args:
            rows: of result files, whose episode is taken.

        Raises:
            DescriptionError: rows of different episodes, or options beside a row.
        """
        if not rows:
            arguments = {
                "machine": self.machine or "skylake-x-8n",
                "backend": self.backend or "analytic",
                **(self.env or {}),
            }
            if self.options:
                arguments["backend_options"] = dict(self.options)
            return DEFAULT_ENV, arguments, self.seed or 0
        given = {
            "--backend": self.backend,
            "--machine": self.machine,
            "--env": self.env,
            "--option": self.options,
            "--seed": self.seed,
        }
        if refused := [option for option, value in given.items() if value is not None]:
            raise DescriptionError(
                f"{', '.join(refused)} with a row of a result file: the row brings its own; leave "
                "out one or the other"
            )
        episodes = [(row.env_id, dict(row.env_kwargs), row.env_seed) for row in rows]
        if episodes[0] != episodes[-1]:
            raise DescriptionError(
                f"{rows[0].name} and {rows[-1].name} are rows of different episodes: other keys "
                "are hot, so they cannot be compared"
            )
        return episodes[0]


def explain_words(
    a: str,
    b: str,
    asked: Asked,
    *,
    rounds: int = 1,
    trust: bool = False,
    progress: Progress | None = None,
) -> Explained:
    """Compares what two words mean.

    Args:
        a: a baseline, an agent as of pmoss_agents.find_policy(), a schedule file or a row.
        b: likewise.
        asked: the episode.
        rounds: see explain().
        trust: whether exports that are programs may run.
        progress: see explain().

    Raises:
        UnsupportedError: policies or rows of a domain without schedules.
        PmossError: what the words or the episode lack.
    """
    found = [_found(word, trust) for word in (a, b)]
    env_id, arguments, seed = asked.episode([each for each in found if isinstance(each, Row)])
    domain = domain_of_env(env_id)
    check_offer(domain, "schedules", "explain")
    # The final throughput is all that is asked for.
    env = domain.make_env({**arguments, "reward": "terminal"}, env_id)
    try:
        choices = [
            read_schedule(each, env.machine) if isinstance(each, Path) else each for each in found
        ]
        comparison = explain(env, seed, _named(a, b, choices), rounds=rounds, progress=progress)
        told = ", ".join(f"{key} {value}" for key, value in arguments.items())
        return Explained(comparison, f"{env.machine.description}; {told}; episode {seed}")
    finally:
        env.close()


def _found(word: str, trust: bool) -> Any:
    """What a word means, as far as no environment is needed to know."""
    if names_row(word):
        return read_row(word)
    if word.endswith(".json"):
        return Path(word)
    if not pmoss_agents.names_policy(word):
        return make_baseline(word, shared=True)
    policy = pmoss_agents.find_policy(word, trust=trust)
    if of := getattr(policy, "domain", ""):
        check_offer(find_domain(of), "schedules", f"explain {word}")
    return policy


def _named(a: str, b: str, choices: Sequence[Choice]) -> dict[str, Choice]:
    """The choices by short names, where these differ."""
    names = [
        choice.name if isinstance(choice, Row) else short_name(word)
        for word, choice in zip((a, b), choices, strict=True)
    ]
    if names[0] == names[1]:
        names = [a, b] if a != b else [a, f"{b} again"]
    return dict(zip(names, choices, strict=True))

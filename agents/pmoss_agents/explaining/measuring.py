"""Two schedules of one episode, by the arguments of `pmoss explain`, measured alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.explaining.differences import Comparison, Run, compare
from pmoss_agents.policies import short_name
from pmoss_datasets.domain import check_offer, domain_of_env, find_domain
from pmoss_datasets.evaluation import DEFAULT_ENV
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.spatial import scoring
from pmoss_env.baselines import make_baseline
from pmoss_env.baselines.context import Baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.measuring import BALANCING
from pmoss_env.schedule_files import read_schedule
from pmoss_env.types import Schedule

#: A schedule itself, an agent or a baseline.
Choice = Schedule | Policy | Baseline
Progress = Callable[[str, int, int], None]


def explain(
    env: SpatialSchedulingEnv,
    env_seed: int,
    choices: Mapping[str, Choice],
    *,
    rounds: int = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Compares two schedules in the episode of a seed: same keys, co-tenants and incumbent.

    Args:
        env: bare; its backend measures.
        rounds: how often both are measured in turn; what is compared is the measurement of median
            throughput. More than one makes sense on hardware.
        progress: called with (what, done, total).

    Raises:
        PmossError: a schedule that cannot be made or measured here.
    """
    tell = progress or (lambda what, done, total: None)
    schedules = {}
    # Of automatic NUMA balancing; without a setting it stays as it is.
    settings = {name: getattr(choice, "balancing", None) for name, choice in choices.items()}
    for done, (name, choice) in enumerate(choices.items()):
        tell("making schedules", done, 2)
        schedules[name] = _schedule(env, env_seed, choice)
    tell("making schedules", 2, 2)
    measured: dict[str, list[Run]] = {name: [] for name in schedules}
    env.reset(seed=env_seed)
    with closing(env.session.new_backend()) as backend:
        for number in range(rounds):
            for done, (name, schedule) in enumerate(schedules.items(), 2 * number):
                tell("measuring", done, 2 * rounds)
                with env.session.balanced(settings[name]) as own:
                    snapshot = (own or backend).measure(schedule, seed=number)
                measured[name].append(Run(name, schedule, snapshot, settings[name]))
    tell("measuring", 2 * rounds, 2 * rounds)
    before, after = (
        sorted(runs, key=lambda run: run.snapshot.throughput)[rounds // 2]
        for runs in measured.values()
    )
    return compare(env.machine, before, after)


def _schedule(env: SpatialSchedulingEnv, env_seed: int, choice: Choice) -> Schedule:
    if isinstance(choice, Schedule):
        env.machine.check_schedule(choice, env.slices)
        return choice
    if isinstance(choice, Policy):
        check_policy(choice, env)
        played = scoring.play(env, choice, env_seed, None, {})
        return env.schedule if played.schedule is None else played.schedule
    env.reset(seed=env_seed)
    # What evaluate() gives a baseline, so that both make the same schedule.
    policy, searcher = SchedulePolicy(choice), scoring.Searcher(env)
    with closing(searcher):
        if policy.searches:
            searcher.begin()
        backend = scoring.counted_for(policy, searcher.searchable)
        return choice(env.context(scoring.stream_for(policy, env_seed), backend))


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
        a: a baseline or a name of BALANCING, an agent as of pmoss_agents.find_policy(), or a
            schedule file.
        options: of the episode, those that are given: "machine" and "backend" by name, "env" and
            "option" with arguments of the environment and the backend, and "seed".

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
    if word in BALANCING:
        return find_domain(FIRST_DOMAIN).policy(word)
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

"""Making two schedules in one episode, and measuring both under the same conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from pmoss_agents.explaining.differences import Comparison, Run, compare
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.spatial import scoring
from pmoss_env.baselines.context import Baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
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
                snapshot = backend.measure(schedule, seed=number)
                measured[name].append(Run(name, schedule, snapshot))
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

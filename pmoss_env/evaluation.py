"""Rollouts of policies, their scores with confidence intervals, and replayable result files.

Every policy meets the same episodes. A score is normalised per episode: 0 is the mean of random
legal schedules, 100 the best schedule that local search finds with the stated budget (design.md
section 6).
"""

from __future__ import annotations

import inspect
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from pmoss_env import __version__
from pmoss_env.backends.base import Backend, IncrementalBackend
from pmoss_env.baselines import ASKING, Baseline, Context, local_search, make_baseline, random
from pmoss_env.envs.spatial.env import Observation, SpatialSchedulingEnv
from pmoss_env.errors import (
    DatasetError,
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.files import write_atomically
from pmoss_env.types import Float64Array, Instance, Int8Array, Int32Array, Schedule

DEFAULT_ENV = "pmoss/SpatialScheduling-v0"
#: Repetitions of the bootstrap, and the interval it gives.
BOOTSTRAPS = 10_000
INTERVAL = (2.5, 97.5)
FORMAT = "pmoss-evaluation"
FORMAT_VERSION = 2

Progress = Callable[[int, int], None]


@runtime_checkable
class Policy(Protocol):
    """Whatever places slices: an agent, or a schedule made beforehand.

    Two more methods are called where a policy has them: ``observe(reward: float)`` after every
    step, with what the step did to the throughput of the full schedule in Mq/s, whatever the
    environment's reward; and ``check_env(env: SpatialSchedulingEnv)`` once before the first
    episode, to raise if the policy cannot play there.
    """

    def reset(self) -> None:
        """Begins an episode."""

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The tile for the next slice.

        Args:
            observation: as the environment gives it.
            action_mask: (r * c,) int8, 1 = legal.
        """


class SchedulePolicy:
    """Runs a baseline through an environment's steps.

    A baseline plans the whole episode at once and may look at more than an observation holds, so
    rollouts hand it the episode's context with plan().
    """

    def __init__(self, baseline: str | Baseline) -> None:
        """Takes a baseline's name or the function itself; raises UnknownNameError."""
        self._baseline = make_baseline(baseline) if isinstance(baseline, str) else baseline
        #: Whether the baseline asks a backend that can be searched.
        self.searches = getattr(self._baseline, "func", self._baseline) in ASKING
        self._tiles: list[int] = []
        self._t = 0

    def plan(self, context: Context, order: Int32Array) -> None:
        """Makes the schedule of an episode that places the slices in ``order``."""
        schedule = self._baseline(context)
        self._tiles = context.machine.tile_of_core[schedule.cores[order]].tolist()

    def reset(self) -> None:
        """Begins an episode."""
        self._t = 0

    def act(self, observation: Observation, action_mask: Int8Array) -> int:
        """The planned tile of the next slice."""
        tile = self._tiles[self._t]
        self._t += 1
        return tile

    def observe(self, reward: float) -> None:
        """Nothing: the plan is made."""


@dataclass(frozen=True)
class EpisodeResult:
    """One policy in one episode.

    Attributes:
        policy: its name.
        seed: the evaluation seed; for a trained agent also the seed of its training.
        episode: number within the seed.
        env_seed: seed of the environment's reset.
        incumbent_throughput: Mq/s, as the environment reports it.
        throughput: X(final), Mq/s, as the environment reports it.
        score: 0 = mean of random legal schedules, 100 = the best that the search found, both by
            the noise-free backend; None where search finds nothing above random.
        random_throughput: mean of the random legal schedules, Mq/s.
        search_throughput: what the search found, Mq/s.
        illegal_actions: actions on masked tiles.
        actions: what the policy chose at each step.
        seconds_per_decision: wall time of the policy, mean over the steps.
    """

    policy: str
    seed: int
    episode: int
    env_seed: int
    incumbent_throughput: float
    throughput: float
    score: float | None
    random_throughput: float
    search_throughput: float
    illegal_actions: int
    actions: tuple[int, ...]
    seconds_per_decision: float


@dataclass(frozen=True)
class Evaluation:
    """What evaluate() found, and the settings that it takes to find it again.

    Attributes:
        env_id: as given to evaluate().
        env_kwargs: likewise.
        search_budget: likewise.
        random_schedules: likewise.
        rows: one per policy and episode.
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    search_budget: int
    random_schedules: int
    rows: list[EpisodeResult]


def episode_seed(seed: int, episode: int) -> int:
    """The environment's seed of an episode: the same for every policy."""
    return int(np.random.SeedSequence((seed, episode)).generate_state(1)[0])


def evaluate(
    env_kwargs: Mapping[str, Any],
    policies: Mapping[str, Policy | Callable[[int], Policy]],
    seeds: Sequence[int],
    episodes_per_seed: int = 10,
    search_budget: int = 2000,
    random_schedules: int = 100,
    progress: Progress | None = None,
    env_id: str = DEFAULT_ENV,
    references: MutableMapping[int, tuple[float, float]] | None = None,
) -> Evaluation:
    """Runs every policy through the same episodes.

    Args:
        env_kwargs: of the environment, plain JSON.
        policies: by name: a policy, or a function that gives the policy of a seed (an agent
            trained with it). All are asked for, and asked to check the environment, before the
            first episode.
        seeds: non-negative, at least five for a table.
        episodes_per_seed: each with its own workload instance, neighbours and incumbent.
        search_budget: model evaluations of the search that defines a score of 100; it asks the
            analytic model where the environment's backend cannot be asked after every move.
        random_schedules: how many define a score of 0.
        progress: called with (episodes done, episodes in all) after each.
        env_id: a registered id.
        references: throughputs of score 0 and 100 by the environment's seed, of earlier calls with
            the same environment, budget and number of schedules; new ones are added.

    Raises:
        UnsupportedError: a machine that cannot be searched because it has no model.
        DescriptionError: no seeds, episodes, schedules or policies; or an argument that the
            environment does not have.
        UnknownNameError: no such environment.
        PmossError: what a policy's check_env() raises, such as CheckpointError.
    """
    for name, count in (
        ("seeds", len(seeds)),
        ("episodes_per_seed", episodes_per_seed),
        ("random_schedules", random_schedules),
        ("policies", len(policies)),
    ):
        if count < 1:
            raise DescriptionError(f"{name} = {count}: must be at least 1")
    env = make_environment(env_id, env_kwargs)
    judge: _Judge | None = None
    known = {} if references is None else references
    rows: list[EpisodeResult] = []
    total = len(policies) * len(seeds) * episodes_per_seed
    try:
        of_seeds = [
            {name: _policy_of_seed(policy, seed) for name, policy in policies.items()}
            for seed in seeds
        ]
        for policy in {id(p): p for of_seed in of_seeds for p in of_seed.values()}.values():
            if (check_env := getattr(policy, "check_env", None)) is not None:
                check_env(env)
        for seed, of_seed in zip(seeds, of_seeds, strict=True):
            for episode in range(episodes_per_seed):
                env_seed = episode_seed(seed, episode)
                env.reset(seed=env_seed)
                if judge is None:
                    judge = _Judge(env)
                judge.set_instance(env.instance)
                if env_seed not in known:
                    known[env_seed] = judge.reference(
                        env, env_seed, search_budget, random_schedules
                    )
                low, high = known[env_seed]
                for name, policy in of_seed.items():
                    actions, info, seconds = rollout(env, policy, env_seed, judge.searchable)
                    final = judge.throughput(env.schedule)
                    rows.append(
                        EpisodeResult(
                            policy=name,
                            seed=seed,
                            episode=episode,
                            env_seed=env_seed,
                            incumbent_throughput=info["incumbent_throughput"],
                            throughput=info["throughput"],
                            score=_score(final, low, high),
                            random_throughput=low,
                            search_throughput=high,
                            illegal_actions=info["illegal_actions"],
                            actions=tuple(actions),
                            seconds_per_decision=seconds / len(actions),
                        )
                    )
                    if progress is not None:
                        progress(len(rows), total)
    finally:
        env.close()
        if judge is not None:
            judge.close()
    return Evaluation(env_id, dict(env_kwargs), search_budget, random_schedules, rows)


def _policy_of_seed(policy: Policy | Callable[[int], Policy], seed: int) -> Policy:
    # A class has the methods of its instances, but makes a policy instead of being one.
    if isinstance(policy, Policy) and not isinstance(policy, type):
        return policy
    return cast(Callable[[int], Policy], policy)(seed)


def rollout(
    env: SpatialSchedulingEnv,
    policy: Policy,
    seed: int,
    backend: Backend | None = None,
    incumbent: Schedule | None = None,
) -> tuple[list[int], dict[str, Any], float]:
    """Plays one episode.

    Args:
        env: the bare environment.
        policy: it is reset first; a SchedulePolicy also plans. See Policy on what else is called.
        seed: of the environment's reset.
        backend: for baselines that search; not the environment's own.
        incumbent: to start from, instead of one that the seed draws.

    Returns:
        The actions, the last info, and the policy's wall time in seconds.
    """
    options = None if incumbent is None else {"incumbent": incumbent}
    observation, info = env.reset(seed=seed, options=options)
    if backend is not None:
        backend.set_instance(env.instance)
    began = time.perf_counter()
    policy.reset()
    if isinstance(policy, SchedulePolicy):
        # A stream of its own: the reference schedules must not shift what a baseline draws.
        policy.plan(env.context(np.random.default_rng((seed, 2)), backend), env.order)
    seconds = time.perf_counter() - began
    observe: Callable[[float], None] | None = getattr(policy, "observe", None)
    actions: list[int] = []
    terminated = False
    while not terminated:
        began = time.perf_counter()
        action = int(policy.act(observation, info["action_mask"]))
        seconds += time.perf_counter() - began
        actions.append(action)
        before = info["throughput"]
        observation, _, terminated, _, info = env.step(action)
        if observe is not None:
            began = time.perf_counter()
            observe(info["throughput"] - before)
            seconds += time.perf_counter() - began
    return actions, info, seconds


class _Judge:
    """Scores schedules by a backend of the environment's kind, and has one that can be searched."""

    def __init__(self, env: SpatialSchedulingEnv) -> None:
        self._backend = env.new_backend()
        self.searchable = (
            self._backend
            if isinstance(self._backend, IncrementalBackend)
            else env.new_searchable_backend()
        )

    def set_instance(self, instance: Instance) -> None:
        self._backend.set_instance(instance)
        self.searchable.set_instance(instance)

    def throughput(self, schedule: Schedule) -> float:
        """Of the present instance, Mq/s."""
        if self._backend is self.searchable:
            return self.searchable.place(schedule)
        return self._backend.measure(schedule, seed=0).throughput

    def reference(
        self, env: SpatialSchedulingEnv, seed: int, budget: int, schedules: int
    ) -> tuple[float, float]:
        """Throughputs of the present episode that score 0 and 100."""
        context = env.context(np.random.default_rng((seed, 0)), self.searchable)
        drawn = [self.throughput(random(context)) for _ in range(schedules)]
        context = env.context(np.random.default_rng((seed, 1)), self.searchable)
        found = local_search(context, budget)
        if self._backend is self.searchable:
            return float(np.mean(drawn)), found.throughput
        return float(np.mean(drawn)), self.throughput(found.schedule)

    def close(self) -> None:
        self._backend.close()
        self.searchable.close()


def _score(final: float, low: float, high: float) -> float | None:
    return 100 * (final - low) / (high - low) if high > low else None


@dataclass(frozen=True)
class Summary:
    """One policy over all seeds.

    Attributes:
        policy: its name.
        seeds: how many, n.
        episodes: how many in all.
        score: mean over the seeds of the mean score of their episodes; None without scores.
        score_low: lower end of the 95 % interval, see bootstrap_interval(); None below two seeds.
        score_high: its upper end.
        score_std: standard deviation over seeds; None below two seeds.
        throughput: mean in the same way, Mq/s.
        throughput_low: lower end of the interval; None below two seeds.
        throughput_high: its upper end.
        illegal_actions: in all episodes together.
        seconds_per_decision: mean wall time of the policy.
    """

    policy: str
    seeds: int
    episodes: int
    score: float | None
    score_low: float | None
    score_high: float | None
    score_std: float | None
    throughput: float
    throughput_low: float | None
    throughput_high: float | None
    illegal_actions: int
    seconds_per_decision: float


def aggregate(rows: Iterable[EpisodeResult], bootstrap_seed: int = 0) -> list[Summary]:
    """Summarises each policy, in order of appearance.

    Episodes are averaged per seed first. The intervals hold the chance of both: seeds and episodes.

    Args:
        rows: of evaluate() or read_results().
        bootstrap_seed: of the resampling, so that a table can be made again to the digit.
    """
    of_policy: dict[str, list[EpisodeResult]] = {}
    for row in rows:
        of_policy.setdefault(row.policy, []).append(row)
    summaries = []
    for policy, mine in of_policy.items():
        score_groups = _by_seed([(r.seed, r.score) for r in mine if r.score is not None])
        throughput_groups = _by_seed([(r.seed, r.throughput) for r in mine])
        score_low, score_high = bootstrap_interval(score_groups, bootstrap_seed)
        low, high = bootstrap_interval(throughput_groups, bootstrap_seed)
        scores = np.array([group.mean() for group in score_groups])
        throughputs = np.array([group.mean() for group in throughput_groups])
        summaries.append(
            Summary(
                policy=policy,
                seeds=throughputs.size,
                episodes=len(mine),
                score=float(scores.mean()) if scores.size else None,
                score_low=score_low,
                score_high=score_high,
                score_std=float(scores.std(ddof=1)) if scores.size > 1 else None,
                throughput=float(throughputs.mean()),
                throughput_low=low,
                throughput_high=high,
                illegal_actions=sum(r.illegal_actions for r in mine),
                seconds_per_decision=float(np.mean([r.seconds_per_decision for r in mine])),
            )
        )
    return summaries


def bootstrap_interval(
    groups: Sequence[Float64Array], seed: int = 0
) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of the mean over seeds of the mean over episodes: a two-level bootstrap.

    Each repetition draws as many seeds as there are, with replacement, then within each drawn seed
    as many episodes as it has; the interval is the 2.5th to the 97.5th percentile of the means.

    To draw seeds alone covers too little: the variance of n seed means comes out a factor
    (n - 1) / n too small. The second level makes up for it only as far as episodes differ.
    Simulated with five seeds of four normal episodes, the interval covers the true mean in about
    97 % of cases where seeds do not differ at all, in 94 % where they spread half as far as the
    episodes of one seed, in 87 % where twice as far, and in 85 % where only seeds differ. So with
    five agents that differ much, read it as an interval of less than 95 %.

    Args:
        groups: the values of the episodes of each seed; none of them empty.
        seed: of the resampling.

    Returns:
        The lower and the upper end; None below two seeds.
    """
    count = len(groups)
    if count < 2:
        return None, None
    rng = np.random.default_rng(seed)
    picks = rng.integers(count, size=(BOOTSTRAPS, count))
    means = np.empty(picks.shape)
    for number, values in enumerate(groups):
        drawn = picks == number
        episodes = rng.integers(values.size, size=(np.count_nonzero(drawn), values.size))
        means[drawn] = values[episodes].mean(axis=1)
    low, high = np.percentile(means.mean(axis=1), INTERVAL)
    return float(low), float(high)


def _by_seed(pairs: list[tuple[int, float]]) -> list[Float64Array]:
    of_seed: dict[int, list[float]] = {}
    for seed, value in pairs:
        of_seed.setdefault(seed, []).append(value)
    return [np.array(values, dtype=np.float64) for values in of_seed.values()]


def command_line() -> str:
    """The command that this process runs, without the folder of the program."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def write_results(path: Path, evaluation: Evaluation, **notes: Any) -> None:
    """Writes a result file: JSON lines, the header first. Whole or not at all.

    Args:
        path: of the file.
        evaluation: of evaluate().
        **notes: further plain-JSON facts for the header, e.g. how the agents were trained.
    """
    lines = [json.dumps(_header(evaluation, notes), allow_nan=False)]
    lines += [json.dumps(asdict(row), allow_nan=False) for row in evaluation.rows]
    write_atomically(path, "\n".join(lines) + "\n")


def _header(evaluation: Evaluation, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The first line of a result file: all that is needed to run the episodes again."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "env_id": evaluation.env_id,
        "env_kwargs": dict(evaluation.env_kwargs),
        "search_budget": evaluation.search_budget,
        "random_schedules": evaluation.random_schedules,
        "rows": len(evaluation.rows),
        "notes": dict(notes),
        "command": command_line(),
        "versions": {
            "pmoss_env": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "gymnasium": gymnasium.__version__,
        },
        "host": {
            "cpu": _cpu_model(),
            "architecture": platform.machine(),
            "logical_cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.release()}",
        },
    }


def read_results(path: Path) -> tuple[dict[str, Any], list[EpisodeResult]]:
    """The header and the rows of a result file.

    Raises:
        DatasetError: no such file, another format or version, a damaged line, or another number
            of rows than the header says; names the line and the field.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    values = [_parse(path, number, line) for number, line in enumerate(lines, 1)]
    header = values[0] if values else {}
    if header.get("format") != FORMAT:
        raise DatasetError(f"{path}: line 1: is not the header of a {FORMAT} file")
    if header.get("format_version") != FORMAT_VERSION:
        raise DatasetError(
            f"{path}: line 1: format_version = {header.get('format_version')!r}: this version "
            f"reads {FORMAT_VERSION}"
        )
    for key, kind in (("env_id", str), ("env_kwargs", dict)):
        if not isinstance(header.get(key), kind):
            raise DatasetError(f"{path}: line 1: {key} = {header.get(key)!r}: must be a {kind}")
    for key in ("search_budget", "random_schedules", "rows"):
        value = header.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DatasetError(f"{path}: line 1: {key} = {value!r}: must be a whole number from 1")
    rows = [_row(path, number, value) for number, value in enumerate(values[1:], 2)]
    if len(rows) != header["rows"]:
        raise DatasetError(
            f"{path}: line 1: rows = {header['rows']}, but {len(rows)} follow: the file was cut "
            "or added to"
        )
    return header, rows


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Attributes:
        episodes: how many were run again.
        mismatches: one line for each value that came out different.
    """

    episodes: int
    mismatches: tuple[str, ...]


def replay(path: Path, progress: Progress | None = None, *, episodes: int | None = None) -> Replay:
    """Runs a result file's episodes again and compares every bit of what they recorded.

    That is all but ``policy`` and ``seconds_per_decision``: who chose the actions, and how fast,
    no file can prove. The random schedules and the search behind the scores are run again too.

    Args:
        path: of a result file.
        progress: called with (episodes done, episodes in all) after each.
        episodes: run only so many of the (seed, episode) pairs again, evenly spread over the file,
            with every policy that played them; None: all.

    Raises:
        DatasetError: the file is damaged.
        DescriptionError: no episode is asked for.
        UnknownNameError: it names an environment that is not there.
        DescriptionError: it names an argument that the environment does not have.
        UnsupportedError: a backend whose measurements do not repeat.
    """
    header, rows = read_results(path)
    chosen = _spread_over(list(dict.fromkeys((row.seed, row.episode) for row in rows)), episodes)
    lines = [n for n, row in enumerate(rows) if (row.seed, row.episode) in chosen]
    env = make_environment(header["env_id"], header["env_kwargs"])
    judge: _Judge | None = None
    references: dict[int, tuple[float, float]] = {}
    mismatches = _unequal_episodes(rows)
    try:
        for number, index in enumerate(lines, 1):
            row = rows[index]
            env_seed = episode_seed(row.seed, row.episode)
            _, info = env.reset(seed=env_seed)
            if judge is None:
                _must_repeat(env)
                judge = _Judge(env)
            judge.set_instance(env.instance)
            if env_seed not in references:
                references[env_seed] = judge.reference(
                    env, env_seed, header["search_budget"], header["random_schedules"]
                )
            low, high = references[env_seed]
            now: dict[str, Any] = {
                "env_seed": env_seed,
                "incumbent_throughput": info["incumbent_throughput"],
                "random_throughput": low,
                "search_throughput": high,
            }
            where = f"line {index + 2}: {row.policy}, seed {row.seed}, episode {row.episode}"
            try:
                done = False
                for action in row.actions:
                    _, _, done, _, info = env.step(action)
            except (IllegalActionError, ResetNeeded) as error:
                mismatches.append(f"{where}: the actions cannot be run again: {error}")
            else:
                if not done:
                    mismatches.append(f"{where}: {len(row.actions)} actions do not end the episode")
                now["throughput"] = info["throughput"]
                now["illegal_actions"] = info["illegal_actions"]
                now["score"] = _score(judge.throughput(env.schedule), low, high)
            mismatches += [
                f"{where}: {name}: recorded {getattr(row, name)!r}, now {value!r}"
                for name, value in now.items()
                if value != getattr(row, name)
            ]
            if progress is not None:
                progress(number, len(lines))
    finally:
        env.close()
        if judge is not None:
            judge.close()
    return Replay(len(lines), tuple(mismatches))


def _spread_over(pairs: Sequence[tuple[int, int]], count: int | None) -> set[tuple[int, int]]:
    """So many of the pairs, evenly spread; all if there are no more or None is asked for."""
    if count is None or count >= len(pairs):
        return set(pairs)
    if count < 1:
        raise DescriptionError(f"episodes = {count}: must be at least 1")
    return {pairs[i * len(pairs) // count] for i in range(count)}


def _unequal_episodes(rows: Sequence[EpisodeResult]) -> list[str]:
    """One line for each row that occurs twice, and for each episode that a policy did not play."""
    found = []
    played: dict[tuple[str, int, int], int] = {}
    for number, row in enumerate(rows, 2):
        first = played.setdefault((row.policy, row.seed, row.episode), number)
        if first != number:
            found.append(f"line {number}: the same policy and episode as line {first}")
    episodes = dict.fromkeys((row.seed, row.episode) for row in rows)
    for policy in dict.fromkeys(row.policy for row in rows):
        found += [
            f"{policy}, seed {seed}, episode {episode}: is missing"
            for seed, episode in episodes
            if (policy, seed, episode) not in played
        ]
    return found


def _must_repeat(env: SpatialSchedulingEnv) -> None:
    backend = env.incumbent_snapshot.provenance.get("backend")
    if backend == "hardware":
        raise UnsupportedError(
            f"results of the backend {backend!r} cannot be replayed: it measures, and never twice "
            "the same"
        )


def make_environment(env_id: str, env_kwargs: Mapping[str, Any]) -> SpatialSchedulingEnv:
    """The bare environment, without Gymnasium's wrappers.

    Raises:
        UnknownNameError: no such id.
        DescriptionError: an argument that the environment does not have.
    """
    place = f"{SpatialSchedulingEnv.__module__}:{SpatialSchedulingEnv.__qualname__}"
    ids = [name for name, spec in gymnasium.registry.items() if spec.entry_point == place]
    if env_id not in ids:
        raise UnknownNameError("environment", env_id, ids)
    known = sorted(inspect.signature(SpatialSchedulingEnv).parameters)
    for name in env_kwargs:
        if name not in known:
            raise DescriptionError(
                f"environment argument {name!r}: unknown; known are {', '.join(known)}"
            )
    # Without Gymnasium's wrappers: they check what the tests check, for each of 256 steps.
    return cast(SpatialSchedulingEnv, gymnasium.make(env_id, **env_kwargs).unwrapped)


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{path}: line {number}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DatasetError(f"{path}: line {number}: is not a JSON object")
    return value


def _row(path: Path, number: int, value: dict[str, Any]) -> EpisodeResult:
    kinds: dict[str, tuple[type, ...]] = {
        "str": (str,),
        "int": (int,),
        "float": (float, int),
        "float | None": (float, int, type(None)),
        "tuple[int, ...]": (list,),
    }
    names = [field.name for field in fields(EpisodeResult)]
    wrong = sorted(set(value) ^ set(names))
    if wrong:
        what = "is missing" if wrong[0] in names else "is not known"
        raise DatasetError(f"{path}: line {number}: field {wrong[0]!r} {what}")
    for field in fields(EpisodeResult):
        entry = value[field.name]
        if not isinstance(entry, kinds[str(field.type)]) or isinstance(entry, bool):
            raise DatasetError(
                f"{path}: line {number}: field {field.name!r} = {entry!r}: must be {field.type}"
            )
    for name in ("seed", "episode"):
        if value[name] < 0:
            raise DatasetError(f"{path}: line {number}: field {name!r} = {value[name]}: below 0")
    if not all(isinstance(action, int) for action in value["actions"]):
        raise DatasetError(f"{path}: line {number}: field 'actions': must be whole numbers")
    return EpisodeResult(**{**value, "actions": tuple(value["actions"])})


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model", "cpu model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"

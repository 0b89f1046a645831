"""Running the episodes of a result file again, and comparing every bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation.episodes import Progress, episode_seed
from pmoss_datasets.evaluation.results import EpisodeResult, read_results
from pmoss_datasets.interfaces import score_of
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes:
        episodes: how many were run again.
        mismatches: one line for each value that came out different.
    """

    episodes: int
    mismatches: tuple[str, ...]


def replay(path: Path, progress: Progress | None = None, *, episodes: int | None = None) -> Replay:
    """Runs a result file's episodes again and compares every bit of what they recorded.

    That is all but claims: ``policy``, ``seconds_per_decision``, ``evaluations`` and
    ``measurements``. Who chose the actions, how fast, and how often it asked before, no file can
    prove. The random schedules and the search behind the scores are run again too.

    Args:
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
    domain = domain_of_env(header["env_id"])
    if domain.measures_host(header["env_kwargs"]):
        raise UnsupportedError(
            f"{path}: results of this host cannot be replayed: no measurement repeats"
        )
    env = domain.make_env(header["env_kwargs"], header["env_id"])
    judge = domain.judge(env)
    references: dict[int, tuple[float, float]] = {}
    mismatches = _unequal_episodes(rows)
    try:
        for number, index in enumerate(lines, 1):
            row = rows[index]
            env_seed = episode_seed(row.seed, row.episode, header["seed_bits"])
            if env_seed not in references:
                env.reset(seed=env_seed)
                judge.begin()
                references[env_seed] = judge.reference(
                    env_seed, header["search_budget"], header["random_schedules"]
                )
            low, high = references[env_seed]
            now: dict[str, Any] = {
                "env_seed": env_seed,
                "random_throughput": low,
                "search_throughput": high,
            }
            where = f"line {index + 2}: {row.policy}, seed {row.seed}, episode {row.episode}"
            try:
                if not row.actions and row.policy in domain.unplaced:
                    played = domain.play(env, domain.policy(row.policy), env_seed)
                else:
                    played = domain.rerun(env, env_seed, row.actions)
            except DatasetError as error:
                mismatches.append(f"{where}: {error}")
            else:
                judge.begin()
                now["incumbent_throughput"] = played.start
                now["throughput"] = played.outcome
                now["illegal_actions"] = played.illegal_actions
                now["score"] = score_of(judge.outcome(played), low, high)
            mismatches += [
                f"{where}: {name}: recorded {getattr(row, name)!r}, now {value!r}"
                for name, value in now.items()
                if value != getattr(row, name)
            ]
            if progress is not None:
                progress(number, len(lines))
    finally:
        env.close()
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
    unequal = []
    played: dict[tuple[str, int, int], int] = {}
    for number, row in enumerate(rows, 2):
        first = played.setdefault((row.policy, row.seed, row.episode), number)
        if first != number:
            unequal.append(f"line {number}: the same policy and episode as line {first}")
    episodes = dict.fromkeys((row.seed, row.episode) for row in rows)
    return unequal + [
        f"{policy}, seed {seed}, episode {episode}: is missing"
        for policy in dict.fromkeys(row.policy for row in rows)
        for seed, episode in episodes
        if (policy, seed, episode) not in played
    ]

"""The rows of the leaderboard: how they are made, checked and compared.

Rows lie in ``ROUND/TIER/TASK/NAME.jsonl``: result files as ``pmoss evaluate`` writes them, which
``pmoss validate`` replays. ``house.jsonl`` holds the rules and searches of the project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents import find_policy
from pmoss_agents.checkpoints import SUFFIX
from pmoss_benchmarks.evaluation import (
    Difference,
    EpisodeResult,
    Evaluation,
    evaluate,
    paired_difference,
    read_results,
    replay,
    write_results,
)
from pmoss_benchmarks.leaderboard.rounds import Round, Tier, evaluation_seed, rounds_of
from pmoss_datasets.policies import Policy
from pmoss_env.errors import DatasetError, SubmissionError, UnsupportedError
from pmoss_env.files import read_bytes

HOUSE = "house"
Progress = Callable[[int, int], None]
#: progress(stage, episodes done, episodes in all)
Staged = Callable[[str, int, int], None]


def row_file(board: Path, round_: Round, tier: Tier, task: str, entrant: str) -> Path:
    """Where the rows of an entrant lie."""
    return board / round_.name / tier.name / task / f"{entrant}.jsonl"


def play(
    round_: Round,
    tier: Tier,
    task: str,
    policies: Mapping[str, Policy],
    *,
    references: MutableMapping[int, tuple[float, float]] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Plays the episodes of a task.

    Raises:
        SubmissionError: the round is not revealed.
    """
    if not round_.secret:
        raise SubmissionError(f"round {round_.name}: is not revealed, so it has no instances yet")
    return evaluate(
        tier.env_of(task),
        policies,
        [evaluation_seed(round_.secret, tier.name, task)],
        episodes_per_seed=tier.episodes,
        search_budget=tier.search_budget,
        random_schedules=tier.random_schedules,
        env_id=tier.domain_of(task).env_id,
        references=references,
        progress=progress,
    )


def written(path: Path, evaluation: Evaluation, notes: Mapping[str, Any]) -> Path:
    """Writes the rows of an entrant, whole or not at all."""
    write_results(path, evaluation, compact=True, entrant=dict(notes))
    return path


def known_references(
    board: Path, round_: Round, tier: Tier, task: str
) -> dict[int, tuple[float, float]]:
    """Throughputs of score 0 and 100 by the environment's seed, of the house's rows."""
    path = row_file(board, round_, tier, task, HOUSE)
    if not path.exists():
        return {}
    return {r.env_seed: (r.random_throughput, r.search_throughput) for r in read_results(path)[1]}


def play_house(
    board: Path,
    round_: Round,
    *,
    tiers: tuple[str, ...] = (),
    agents: Mapping[str, str] | None = None,
    progress: Staged = lambda stage, done, total: None,
) -> list[Path]:
    """Plays the project's rules, searches and agents where their rows are missing.

    Args:
        board: where the rounds lie.
        round_: a revealed round.
        tiers: by name; empty: all.
        agents: words of pmoss_agents.find_policy() by the names of their rows.
        progress: called with (stage, episodes done, episodes in all).

    Raises:
        SubmissionError: the round is not revealed.
        PmossError: what an agent's file or its check of the environment raises.
    """
    paths = []
    for tier in [round_.tier(name) for name in tiers] or round_.tiers:
        for task in tier.tasks:
            stage = f"{tier.name} {task}"
            told = _staged(progress, stage)
            path = row_file(board, round_, tier, task, HOUSE)
            if not path.exists():
                house = play(round_, tier, task, _opponents(tier, task), progress=told)
                written(path, house, {"name": HOUSE, "kind": HOUSE})
            paths.append(path)
            for name, word in (agents or {}).items():
                path = row_file(board, round_, tier, task, name)
                policy = None if path.exists() else _playing(word, tier, task)
                if policy is None:
                    continue
                references = known_references(board, round_, tier, task)
                found = play(
                    round_, tier, task, {name: policy}, references=references, progress=told
                )
                paths.append(written(path, found, {"name": name, "kind": "agent", **_digest(word)}))
    return paths


def _staged(progress: Staged, stage: str) -> Progress:
    return lambda done, total: progress(stage, done, total)


def _digest(word: str) -> dict[str, str]:
    import hashlib

    if not word.endswith(SUFFIX):
        return {}
    return {"digest": hashlib.sha256(read_bytes(word)).hexdigest()}


def _opponents(tier: Tier, task: str) -> dict[str, Policy]:
    """The domain's rules and searches that can play a task."""
    domain = tier.domain_of(task)
    found: dict[str, Policy] = {}
    with closing(domain.make_env(tier.env_of(task))) as env:
        env.reset(seed=0)
        for name in domain.opponents():
            if name in domain.unplaced or domain.absence(env, name, tier.search_budget) is not None:
                continue
            budget = tier.search_budget if domain.takes_budget(name) else None
            found[name] = domain.policy(name, budget=budget)
    return found


def _playing(word: str, tier: Tier, task: str) -> Policy | None:
    """An agent that can play a task; None if it was made for another one."""
    from pmoss_env.errors import CheckpointError

    policy = find_policy(word)
    check_env = getattr(policy, "check_env", None)
    if check_env is not None:
        with closing(tier.domain_of(task).make_env(tier.env_of(task))) as env:
            try:
                check_env(env)
            except (CheckpointError, UnsupportedError):
                return None
    return policy


@dataclass(frozen=True)
class Standing:
    """One entrant of a tier.

    Attributes:
        name: of the entrant.
        kind: "rule", "search", "agent" or "submission".
        sealed: whether it was registered before the secret was revealed and could not look it up
            when it played, as its row says, or learned nothing.
        scores: by task, with the 95 % interval over its episodes; tasks without rows are missing.
        mean: over all tasks of the tier; None where one is missing.
        seconds: per decision, mean over all episodes.
    """

    name: str
    kind: str
    sealed: bool
    scores: Mapping[str, Difference]
    mean: float | None
    seconds: float


def standings(board: Path, round_: Round, tier: Tier) -> list[Standing]:
    """Everybody with rows in a tier, the best mean first.

    Raises:
        DatasetError: a file of rows is damaged.
    """
    of: dict[str, dict[str, list[EpisodeResult]]] = {}
    told: dict[str, tuple[str, bool]] = {}
    for task in tier.tasks:
        domain = tier.domain_of(task)
        for path in sorted(row_file(board, round_, tier, task, "x").parent.glob("*.jsonl")):
            header, rows = read_results(path)
            entrant = (header.get("notes") or {}).get("entrant", {})
            for row in rows:
                of.setdefault(row.policy, {}).setdefault(task, []).append(row)
                if entrant.get("kind") == HOUSE:
                    kind = "search" if domain.takes_budget(row.policy) else "rule"
                    told[row.policy] = kind, True
                else:
                    known_before = entrant.get("digest") in round_.entries
                    sealed = known_before and entrant.get("confined") is True
                    told[row.policy] = str(entrant.get("kind", "")), sealed
    found = []
    for name, tasks in of.items():
        scores = {task: _score(rows) for task, rows in tasks.items()}
        whole = len(scores) == len(tier.tasks)
        mean = float(np.mean([s.value for s in scores.values()])) if whole else None
        seconds = [row.seconds_per_decision for rows in tasks.values() for row in rows]
        found.append(Standing(name, *told[name], scores, mean, float(np.mean(seconds))))
    return sorted(found, key=lambda s: (s.mean is None, -(s.mean or 0.0), s.name))


def _score(rows: list[EpisodeResult]) -> Difference:
    return paired_difference(np.array([[row.score for row in rows if row.score is not None]]))


def check_board(
    board: Path,
    *,
    episodes: int | None = None,
    tiers: tuple[str, ...] = (),
    progress: Staged = lambda stage, done, total: None,
) -> list[str]:
    """Proves every row: its seeds come from the revealed secret, and its actions replay.

    Args:
        board: where the rounds lie.
        episodes: only so many of each file; None: all.
        tiers: whose rows are replayed; empty: all. The seeds of all rows are checked.
        progress: called with (file, rows done, rows in all).

    Returns:
        One line for each thing that is wrong.

    Raises:
        SubmissionError: a round's file is damaged, or its secret is not the one committed to.
    """
    problems = []
    for round_ in rounds_of(board):
        for path in sorted((board / round_.name).rglob("*.jsonl")):
            name = path.relative_to(board).as_posix()
            found = _problems(board, round_, path)
            if not found and (not tiers or path.parts[-3] in tiers):
                found = list(replay(path, _staged(progress, name), episodes=episodes).mismatches)
            problems += [f"{name}: {text}" for text in found]
    return problems


def _problems(board: Path, round_: Round, path: Path) -> list[str]:
    """What is wrong with a file before its actions are replayed."""
    parts = path.relative_to(board).parts
    tiers = {tier.name: tier for tier in round_.tiers}
    if len(parts) != 4 or parts[1] not in tiers or parts[2] not in tiers[parts[1]].tasks:
        return ["is of no tier and task of its round"]
    if not round_.secret:
        return ["is there before the secret is revealed"]
    tier, task = tiers[parts[1]], parts[2]
    try:
        header, rows = read_results(path)
    except DatasetError as error:
        return [str(error)]
    wanted = {
        "env_id": tier.domain_of(task).env_id,
        "env_kwargs": tier.env_of(task),
        "search_budget": tier.search_budget,
        "random_schedules": tier.random_schedules,
    }
    found = [f"{key}: is not the round's" for key, value in wanted.items() if header[key] != value]
    notes = header.get("notes") or {}
    if unknown := set(notes) - {"entrant"}:
        found.append(f"notes: {', '.join(sorted(unknown))}: a row of the board has none")
    seed = evaluation_seed(round_.secret, tier.name, task)
    if any(row.seed != seed for row in rows):
        found.append("seed: does not come from the round's secret")
    for policy in dict.fromkeys(row.policy for row in rows):
        if [row.episode for row in rows if row.policy == policy] != list(range(tier.episodes)):
            found.append(f"{policy}: has not every episode once")
        if any(row.illegal_actions for row in rows if row.policy == policy):
            found.append(f"{policy}: illegal actions")
    own = notes.get("entrant", {})
    if own.get("kind") != HOUSE and {row.policy for row in rows} != {path.stem}:
        found.append(f"holds other rows than those of {path.stem}")
    return found

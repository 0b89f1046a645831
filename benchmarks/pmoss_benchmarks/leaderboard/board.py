"""The rows of the leaderboard: how they are made, checked and compared.

Rows lie in ``ROUND/TIER/TASK/NAME.jsonl``: result files as ``pmoss evaluate`` writes them, which
``pmoss study replay`` replays. ``house.jsonl`` holds the rules and searches of the project.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents import find_policy
from pmoss_agents.checkpoints import SUFFIX
from pmoss_benchmarks.leaderboard.rounds import (
    PRACTICE,
    Round,
    Tier,
    evaluation_seed,
    newest_round,
    rounds_of,
)
from pmoss_benchmarks.leaderboard.submissions import is_name
from pmoss_datasets.evaluation import (
    Difference,
    EpisodeResult,
    Evaluation,
    evaluate,
    paired_difference,
    read_results,
    replay,
    write_results,
)
from pmoss_datasets.policies import Policy
from pmoss_env.errors import DatasetError, SubmissionError, UnsupportedError
from pmoss_env.files import read_bytes

HOUSE = "house"
#: Of all who are not the house.
AGENT, SUBMISSION = KINDS = ("agent", "submission")
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
    practice: bool = False,
    references: MutableMapping[int, tuple[float, float]] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Plays the episodes of a task, or for practice one on an instance that anybody may know.

    Raises:
        SubmissionError: the round is not revealed.
    """
    secret = PRACTICE if practice else round_.secret
    if not secret:
        raise SubmissionError(f"round {round_.name}: is not revealed, so it has no instances yet")
    return evaluate(
        tier.env_of(task),
        policies,
        [evaluation_seed(secret, tier.name, task)],
        episodes_per_seed=1 if practice else tier.episodes,
        search_budget=tier.search_budget,
        random_schedules=tier.random_schedules,
        env_id=tier.domain_of(task).env_id,
        references=references,
        progress=progress,
        seed_bits=round_.seed_bits,
    )


def names_of_house(tier: Tier, task: str) -> set[str]:
    """Names of the project's rules and searches in a task: no other row may have one."""
    domain = tier.domain_of(task)
    return {*domain.policies(), *domain.unplaced}


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
        SubmissionError: the round is not revealed, or an agent has the name of a rule or search.
        PmossError: what an agent's file or its check of the environment raises.
    """
    paths = []
    chosen = [round_.tier(name) for name in tiers] or list(round_.tiers)
    for name in agents or {}:
        if not is_name(name):
            raise SubmissionError(f"{name!r}: take small letters, digits and hyphens for a name")
        if any(name in names_of_house(tier, task) for tier in chosen for task in tier.tasks):
            raise SubmissionError(f"{name}: plays in any case, as a rule or search of the project")
    for tier in chosen:
        for task in tier.tasks:
            stage = f"{tier.name} {task}"
            on_progress = _staged(progress, stage)
            path = row_file(board, round_, tier, task, HOUSE)
            if not path.exists():
                house = play(round_, tier, task, _opponents(tier, task), progress=on_progress)
                written(path, house, {"name": HOUSE, "kind": HOUSE})
            paths.append(path)
            for name, word in (agents or {}).items():
                path = row_file(board, round_, tier, task, name)
                policy = None if path.exists() else _playing(word, tier, task)
                if policy is None:
                    continue
                references = known_references(board, round_, tier, task)
                evaluation = play(
                    round_, tier, task, {name: policy}, references=references, progress=on_progress
                )
                notes = {"name": name, "kind": AGENT, **_digest(word)}
                paths.append(written(path, evaluation, notes))
    return paths


def _staged(progress: Staged, stage: str) -> Progress:
    return lambda done, total: progress(stage, done, total)


def _digest(word: str) -> dict[str, str]:
    if not word.endswith(SUFFIX):
        return {}
    return {"digest": hashlib.sha256(read_bytes(word)).hexdigest()}


def _opponents(tier: Tier, task: str) -> dict[str, Policy]:
    """The domain's rules and searches that can play a task."""
    domain = tier.domain_of(task)
    policies: dict[str, Policy] = {}
    with closing(domain.make_env(tier.env_of(task))) as env:
        env.reset(seed=0)
        for name in domain.opponents():
            if name in domain.unplaced or domain.absence(env, name, tier.search_budget) is not None:
                continue
            budget = tier.search_budget if domain.takes_budget(name) else None
            policies[name] = domain.policy(name, budget=budget)
    return policies


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
        kind: "rule", "search", "agent" or "submission", as its rows claim.
        sealed: whether it was registered before the secret was revealed and could not look it up
            when it played, as its rows claim, or learned nothing.
        scores: by task, with the 95 % interval over its episodes; tasks without rows are missing.
        mean: over all tasks of the tier; None where one is missing.
        seconds: per decision, mean over all episodes, as its rows claim.
    """

    name: str
    kind: str
    sealed: bool
    scores: Mapping[str, Difference]
    mean: float | None
    seconds: float


def standings(board: Path, round_: Round, tier: Tier) -> tuple[list[Standing], list[str]]:
    """Everybody with sound rows in a tier, the best mean first; and what is wrong with the others.

    No action is replayed for it.
    """
    rows_of: dict[str, dict[str, list[EpisodeResult]]] = {}
    kinds: dict[str, str] = {}
    unsealed: set[str] = set()
    problems: list[str] = []
    for file in _files(board, round_, tier.name):
        problems += file.problems
        for row in [] if file.problems else file.rows:
            rows_of.setdefault(row.policy, {}).setdefault(file.task, []).append(row)
            if not file.is_house:
                kinds[row.policy] = file.entrant["kind"]
                if not _is_sealed(file.entrant, round_):
                    unsealed.add(row.policy)
            elif tier.domain_of(file.task).takes_budget(row.policy):
                kinds[row.policy] = "search"
            else:
                kinds[row.policy] = "rule"
    table = []
    for name, tasks in rows_of.items():
        scores = {task: _score(rows) for task, rows in tasks.items()}
        whole = len(scores) == len(tier.tasks)
        mean = float(np.mean([s.value for s in scores.values()])) if whole else None
        seconds = [row.seconds_per_decision for rows in tasks.values() for row in rows]
        sealed = name not in unsealed
        table.append(Standing(name, kinds[name], sealed, scores, mean, float(np.mean(seconds))))
    return sorted(table, key=lambda s: (s.mean is None, -(s.mean or 0.0), s.name)), problems


def _is_sealed(entrant: Mapping[str, Any], round_: Round) -> bool:
    """Whether a row claims an entrant that could not know the round's secret."""
    return (
        entrant.get("kind") == SUBMISSION
        and entrant.get("digest") in round_.entries
        and entrant.get("confined") is True
    )


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
        SubmissionError: there is no round; or a round's file is damaged, or its secret is not the
            one committed to.
    """
    newest_round(board)
    problems = []
    for round_ in rounds_of(board):
        for file in _files(board, round_):
            problems += file.problems
            if file.problems or (tiers and file.tier not in tiers):
                continue
            on_progress = _staged(progress, file.name)
            replayed = replay(file.path, on_progress, episodes=episodes)
            problems += [f"{file.name}: {text}" for text in replayed.mismatches]
    return problems


@dataclass(frozen=True)
class _File:
    """A file of rows.

    Attributes:
        path: where it lies.
        name: that path, from the board on.
        tier: by name; empty where the path names no tier and task of the round.
        task: likewise.
        entrant: whose rows these are, by their own claim.
        rows: that it holds; empty where it cannot be read.
        problems: what is wrong with it, a line each; its actions are not replayed.
    """

    path: Path
    name: str
    tier: str
    task: str
    entrant: Mapping[str, Any]
    rows: list[EpisodeResult]
    problems: list[str]

    @property
    def is_house(self) -> bool:
        """Whether it is the one with the project's rules and searches: its name alone says so."""
        return self.path.stem == HOUSE


def _files(board: Path, round_: Round, tier: str = "") -> Iterator[_File]:
    """The files of rows of a round, or of one tier of it."""
    tiers = {each.name: each for each in round_.tiers}
    #: Kind and digest by name: an entrant is the same in all tasks.
    entrants: dict[str, tuple[Any, Any]] = {}
    for path in sorted((board / round_.name / tier).rglob("*.jsonl")):
        name = path.relative_to(board).as_posix()
        _, *folders, _ = path.relative_to(board).parts
        of_tier, task = folders if len(folders) == 2 else ("", "")
        if of_tier not in tiers or task not in tiers[of_tier].tasks:
            nowhere = f"{name}: is of no tier and task of its round"
            yield _File(path, name, "", "", {}, [], [nowhere])
            continue
        try:
            header, rows = read_results(path)
        except DatasetError as error:
            yield _File(path, name, of_tier, task, {}, [], [str(error)])
            continue
        entrant = entrant_of(header)
        problems = list(_problems(round_, tiers[of_tier], task, path.stem, header, rows))
        identity = entrant.get("kind"), entrant.get("digest")
        if entrants.setdefault(path.stem, identity) != identity:
            problems.append("entrant: kind or digest: is another one than in the files before")
        problems = [f"{name}: {text}" for text in problems]
        yield _File(path, name, of_tier, task, entrant, rows, problems)


def entrant_of(header: Mapping[str, Any]) -> Mapping[str, Any]:
    """Whose rows a file holds, by its own claim; empty where its header claims nothing sound."""
    notes = header.get("notes")
    entrant = notes.get("entrant") if isinstance(notes, Mapping) else None
    return entrant if isinstance(entrant, Mapping) else {}


def _problems(
    round_: Round,
    tier: Tier,
    task: str,
    stem: str,
    header: Mapping[str, Any],
    rows: list[EpisodeResult],
) -> Iterator[str]:
    """What is wrong with a file before its actions are replayed."""
    if not round_.secret:
        yield "is there before the secret is revealed"
        return
    wanted = {
        "env_id": tier.domain_of(task).env_id,
        "env_kwargs": tier.env_of(task),
        "search_budget": tier.search_budget,
        "random_schedules": tier.random_schedules,
        "seed_bits": round_.seed_bits,
    }
    yield from (
        f"{key}: is not the round's" for key, value in wanted.items() if header[key] != value
    )
    notes = header.get("notes")
    if not isinstance(notes, Mapping):
        yield "notes: must be a table"
    elif unknown := notes.keys() - {"entrant"}:
        yield f"notes: {', '.join(sorted(unknown))}: a row of the board has none"
    seed = evaluation_seed(round_.secret, tier.name, task)
    if any(row.seed != seed for row in rows):
        yield "seed: does not come from the round's secret"
    if any(row.score is None and row.search_throughput > row.random_throughput for row in rows):
        yield "score: is missing"
    policies = dict.fromkeys(row.policy for row in rows)
    for policy in policies:
        if [row.episode for row in rows if row.policy == policy] != list(range(tier.episodes)):
            yield f"{policy}: has not every episode once"
        if any(row.illegal_actions for row in rows if row.policy == policy):
            yield f"{policy}: illegal actions"
    entrant, of_house = entrant_of(header), names_of_house(tier, task)
    if entrant.get("name") != stem:
        yield f"entrant: name: is not that of the file, {stem}"
    if stem == HOUSE:
        if entrant.get("kind") != HOUSE:
            yield f"entrant: kind: must be {HOUSE}"
        if strange := policies.keys() - set(tier.domain_of(task).opponents()):
            yield f"{', '.join(sorted(strange))}: no rule or search of the project"
        return
    if entrant.get("kind") not in KINDS:
        yield f"entrant: kind: must be {' or '.join(KINDS)}; {HOUSE} is that of {HOUSE}.jsonl alone"
    if not is_name(stem):
        yield f"{stem!r}: is no name of a row: it has small letters, digits and hyphens alone"
    if stem in of_house:
        yield f"{stem}: is the name of a rule or a search of the project"
    if policies.keys() != {stem}:
        yield f"holds other rows than those of {stem}"

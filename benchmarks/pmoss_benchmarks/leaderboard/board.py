"""The rows of the leaderboard: how they are made, checked and compared.

Rows lie in ``ROUND/TIER/TASK/NAME.jsonl``: result files as ``pmoss evaluate`` writes them, which
``pmoss study replay`` replays. ``house.jsonl`` holds the rules and searches of the project.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
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
from pmoss_benchmarks.study.function import Progress, silent
from pmoss_datasets.domain import Domain
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
from pmoss_env.errors import CheckpointError, DatasetError, SubmissionError, UnsupportedError
from pmoss_env.files import read_bytes

HOUSE = "house"
#: Of all who are not the house.
AGENT, SUBMISSION = KINDS = ("agent", "submission")


@dataclass(frozen=True)
class Game:
    """A task of a tier in a round, and where its rows lie on a board."""

    board: Path
    round: Round
    tier: Tier
    task: str

    @property
    def name(self) -> str:
        """Tier and task."""
        return f"{self.tier.name} {self.task}"

    @property
    def domain(self) -> Domain:
        """Of the task."""
        return self.tier.domain_of(self.task)

    @property
    def env(self) -> dict[str, Any]:
        """Arguments of the environment."""
        return self.tier.env_of(self.task)

    @property
    def names_of_house(self) -> set[str]:
        """Names of the project's rules and searches: no other row may have one."""
        return {*self.domain.policies(), *self.domain.unplaced}

    def file(self, entrant: str) -> Path:
        """Where the rows of an entrant lie."""
        return self.board / self.round.name / self.tier.name / self.task / f"{entrant}.jsonl"

    def seed(self, secret: str) -> int:
        """Of the episodes, with a secret."""
        return evaluation_seed(secret, self.tier.name, self.task)

    def play(
        self, policies: Mapping[str, Policy], progress: Progress, *, practice: bool = False
    ) -> Evaluation:
        """Plays the episodes, or for practice one on an instance that anybody may know.

        What scores 0 and 100 is taken from the house's rows, where they are there.

        Raises:
            SubmissionError: the round is not revealed.
        """
        secret = PRACTICE if practice else self.round.secret
        if not secret:
            raise SubmissionError(f"round {self.round.name}: is not revealed: it has no instances")
        house = self.file(HOUSE)
        rows = read_results(house)[1] if not practice and house.exists() else []
        return evaluate(
            self.env,
            policies,
            [self.seed(secret)],
            episodes_per_seed=1 if practice else self.tier.episodes,
            search_budget=self.tier.search_budget,
            random_schedules=self.tier.random_schedules,
            env_id=self.domain.env_id,
            references={r.env_seed: (r.random_throughput, r.search_throughput) for r in rows},
            progress=partial(progress, self.name),
            seed_bits=self.round.seed_bits,
        )

    def write(self, evaluation: Evaluation, **notes: Any) -> Path:
        """Writes the rows of an entrant, whole or not at all; ``name`` is among the notes."""
        write_results(path := self.file(notes["name"]), evaluation, compact=True, entrant=notes)
        return path


def games_of(board: Path, round_: Round, tiers: Sequence[str] = ()) -> list[Game]:
    """The games of some tiers by name; of none: of all."""
    chosen = [round_.tier(name) for name in tiers] or round_.tiers
    return [Game(board, round_, tier, task) for tier in chosen for task in tier.tasks]


def play_house(
    board: Path,
    round_: Round,
    *,
    tiers: Sequence[str] = (),
    agents: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> list[Path]:
    """Plays the project's rules, searches and agents where their rows are missing.

    Args:
        round_: a revealed round.
        tiers: by name; empty: all.
        agents: words of pmoss_agents.find_policy() by the names of their rows.
        progress: called with (tier and task, episodes done, episodes in all).

    Returns:
        The files of the house, and those of agents that were written now.

    Raises:
        SubmissionError: the round is not revealed, or an agent has the name of a rule or search.
        PmossError: what an agent's file or its check of the environment raises.
    """
    paths = []
    games = games_of(board, round_, tiers)
    for name in agents or {}:
        if not is_name(name):
            raise SubmissionError(f"{name!r}: take small letters, digits and hyphens for a name")
        if any(name in game.names_of_house for game in games):
            raise SubmissionError(f"{name}: plays in any case, as a rule or search of the project")
    for game in games:
        if not game.file(HOUSE).exists():
            game.write(game.play(_opponents(game), progress), name=HOUSE, kind=HOUSE)
        paths.append(game.file(HOUSE))
        for name, word in (agents or {}).items():
            policy = None if game.file(name).exists() else _playing(word, game)
            if policy is not None:
                evaluation = game.play({name: policy}, progress)
                paths.append(game.write(evaluation, name=name, kind=AGENT, **_digest(word)))
    return paths


def _digest(word: str) -> dict[str, str]:
    if not word.endswith(SUFFIX):
        return {}
    return {"digest": hashlib.sha256(read_bytes(word)).hexdigest()}


def _opponents(game: Game) -> dict[str, Policy]:
    """The domain's rules and searches that can play a task."""
    domain, evaluations = game.domain, game.tier.search_budget
    policies: dict[str, Policy] = {}
    with closing(domain.make_env(game.env)) as env:
        env.reset(seed=0)
        for name in domain.opponents():
            if name not in domain.unplaced and domain.absence(env, name, evaluations) is None:
                budget = evaluations if domain.takes_budget(name) else None
                policies[name] = domain.policy(name, budget=budget)
    return policies


def _playing(word: str, game: Game) -> Policy | None:
    """An agent that can play a task; None if it was made for another one."""
    policy = find_policy(word)
    if hasattr(policy, "check_env"):
        with closing(game.domain.make_env(game.env)) as env:
            try:
                policy.check_env(env)
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
        scores = {
            task: paired_difference(np.array([[r.score for r in rows if r.score is not None]]))
            for task, rows in tasks.items()
        }
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


def check_board(
    board: Path,
    *,
    rounds: Sequence[Round] | None = None,
    tier: str = "",
    episodes: int | None = None,
    progress: Progress = silent,
) -> list[str]:
    """Proves every row: its seeds come from the revealed secret, and its actions replay.

    Where somebody played, the house must have played with all of its rules and searches.

    Args:
        rounds: whose rows are proved; None: all.
        tier: whose rows are proved; empty: all.
        episodes: only so many of each file; None: all.
        progress: called with (file, rows done, rows in all).

    Returns:
        One line for each thing that is wrong.

    Raises:
        SubmissionError: there is no round; or a round's file is damaged, or its secret is not the
            one committed to.
    """
    newest_round(board)
    problems: list[str] = []
    for round_ in rounds_of(board) if rounds is None else rounds:
        for game in games_of(board, round_):
            if tier in ("", game.tier.name) and any(game.file(HOUSE).parent.glob("*.jsonl")):
                problems += _lacking(game)
        for file in _files(board, round_, tier):
            problems += file.problems
            if file.problems:
                continue
            replayed = replay(file.path, partial(progress, file.name), episodes=episodes)
            problems += [f"{file.name}: {text}" for text in replayed.mismatches]
    return problems


def _lacking(game: Game) -> list[str]:
    """A line where the house is absent, or lacks rules or searches that can play."""
    path = game.file(HOUSE)
    name = path.relative_to(game.board).as_posix()
    if not path.exists():
        return [f"{name}: is missing: `pmoss dev play` plays the rules and searches"]
    try:
        played = {row.policy for row in read_results(path)[1]}
    except DatasetError:
        return []  # a problem of the file
    lacking = ", ".join(sorted(_opponents(game).keys() - played))
    again = "remove it, and `pmoss dev play` plays it anew"
    return [f"{name}: lacks {lacking}: {again}"] if lacking else []


@dataclass(frozen=True)
class _File:
    """A file of rows.

    Attributes:
        path: where it lies.
        name: that path, from the board on.
        task: whose rows; empty where the path names no tier and task of the round.
        entrant: whose rows these are, by their own claim.
        rows: that it holds; empty where it cannot be read.
        problems: what is wrong with it, a line each; its actions are not replayed.
    """

    path: Path
    name: str
    task: str = ""
    entrant: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[EpisodeResult] = ()
    problems: Sequence[str] = ()

    @property
    def is_house(self) -> bool:
        """Whether it is the one with the project's rules and searches: its name alone says so."""
        return self.path.stem == HOUSE


def _files(board: Path, round_: Round, tier: str = "") -> Iterator[_File]:
    """The files of rows of a round, or of one tier of it."""
    games = {game.file("").parent: game for game in games_of(board, round_)}
    #: Kind and digest by name: an entrant is the same in all tasks.
    entrants: dict[str, tuple[Any, Any]] = {}
    for path in sorted((board / round_.name / tier).rglob("*.jsonl")):
        name = path.relative_to(board).as_posix()
        if (game := games.get(path.parent)) is None:
            yield _File(path, name, problems=[f"{name}: is of no tier and task of its round"])
            continue
        try:
            header, rows = read_results(path)
        except DatasetError as error:
            yield _File(path, name, game.task, problems=[str(error)])
            continue
        entrant = entrant_of(header)
        problems = list(_problems(game, path.stem, header, rows))
        identity = entrant.get("kind"), entrant.get("digest")
        if entrants.setdefault(path.stem, identity) != identity:
            problems.append("entrant: kind or digest: is another one than in the files before")
        problems = [f"{name}: {text}" for text in problems]
        yield _File(path, name, game.task, entrant, rows, problems)


def entrant_of(header: Mapping[str, Any]) -> Mapping[str, Any]:
    """Whose rows a file holds, by its own claim; empty where its header claims nothing sound."""
    notes = header.get("notes")
    entrant = notes.get("entrant") if isinstance(notes, Mapping) else None
    return entrant if isinstance(entrant, Mapping) else {}


def _problems(
    game: Game, stem: str, header: Mapping[str, Any], rows: list[EpisodeResult]
) -> Iterator[str]:
    """What is wrong with a file before its actions are replayed."""
    if not game.round.secret:
        yield "is there before the secret is revealed"
        return
    wanted = {
        "env_id": game.domain.env_id,
        "env_kwargs": game.env,
        "search_budget": game.tier.search_budget,
        "random_schedules": game.tier.random_schedules,
        "seed_bits": game.round.seed_bits,
    }
    yield from (
        f"{key}: is not the round's" for key, value in wanted.items() if header[key] != value
    )
    if any(row.seed != game.seed(game.round.secret) for row in rows):
        yield "seed: does not come from the round's secret"
    if any(row.score is None and row.search_throughput > row.random_throughput for row in rows):
        yield "score: is missing"
    policies = dict.fromkeys(row.policy for row in rows)
    for policy in policies:
        if [row.episode for row in rows if row.policy == policy] != list(range(game.tier.episodes)):
            yield f"{policy}: has not every episode once"
        if all(row.score is None for row in rows if row.policy == policy):
            yield f"{policy}: score: no episode has one"
        if any(row.illegal_actions for row in rows if row.policy == policy):
            yield f"{policy}: illegal actions"
    entrant = entrant_of(header)
    if entrant.get("name") != stem:
        yield f"entrant: name: is not that of the file, {stem}"
    if stem == HOUSE:
        if entrant.get("kind") != HOUSE:
            yield f"entrant: kind: must be {HOUSE}"
        if strange := policies.keys() - set(game.domain.opponents()):
            yield f"{', '.join(sorted(strange))}: no rule or search of the project"
        return
    if entrant.get("kind") not in KINDS:
        yield f"entrant: kind: must be {' or '.join(KINDS)}; {HOUSE} is that of {HOUSE}.jsonl alone"
    if not is_name(stem):
        yield f"{stem!r}: is no name of a row: it has small letters, digits and hyphens alone"
    if stem in game.names_of_house:
        yield f"{stem}: is the name of a rule or a search of the project"
    if policies.keys() != {stem}:
        yield f"holds other rows than those of {stem}"

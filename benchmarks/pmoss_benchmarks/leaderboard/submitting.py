"""Playing a submission: an episode for practice, or all tasks of a round that is revealed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pmoss_benchmarks.leaderboard.board import Game, entrant_of, games_of
from pmoss_benchmarks.leaderboard.confinement import readable
from pmoss_benchmarks.leaderboard.players import IsolatedPolicy, Limits
from pmoss_benchmarks.leaderboard.rounds import PRACTICE, Round, chance_key, register
from pmoss_benchmarks.leaderboard.submissions import Submission
from pmoss_benchmarks.study.function import Progress, silent
from pmoss_datasets.evaluation import Evaluation, read_results
from pmoss_env.errors import SubmissionError


def practise(
    submission: Submission,
    round_: Round,
    tier: str = "analytic",
    limits: Limits | None = None,
    progress: Progress = silent,
) -> list[Evaluation]:
    """Plays one episode of each task on instances that anybody may know; nothing is written.

    Raises:
        SubmissionError: it plays no task of the tier.
        PolicyError: the policy failed.
    """
    evaluations = []
    games = _games(submission, Path(), round_, [tier])
    with submission.copied() as copy:
        for game in games:
            with closing(_player(copy, game, PRACTICE, limits)) as player:
                evaluations.append(game.play({submission.name: player}, progress, practice=True))
    return evaluations


def submit(
    submission: Submission,
    board: Path,
    round_: Round,
    *,
    tiers: Sequence[str] = (),
    limits: Limits | None = None,
    progress: Progress = silent,
) -> list[Path]:
    """Registers a submission, or plays it where the round is revealed and writes its rows.

    Rows that are there already, of the same folder, are not played again.

    Args:
        submission: a checked folder.
        tiers: by name; empty: all, in their order.
        progress: called with (stage, episodes done, episodes in all).

    Returns:
        The files of rows; none where the round is not revealed.

    Raises:
        SubmissionError: it plays no task, the name is another submission's, or a confined process
            could read the board.
        PolicyError: the policy failed; the rows of finished tasks stay.
    """
    _check_hidden(board)
    if not round_.secret:
        first = tiers[0] if tiers else round_.tiers[0].name
        practise(submission, round_, first, limits, progress)
        register(board, round_.name, submission.digest)
        return []
    games = _games(submission, board, round_, tiers)
    missing = [game for game in games if not _is_there(game.file(submission.name), submission)]
    if missing:
        with submission.copied() as copy:
            for game in missing:
                with closing(_player(copy, game, round_.secret, limits)) as player:
                    evaluation = game.play({submission.name: player}, progress)
                    confined = player.confined
                game.write(evaluation, **submission.notes, confined=confined)
    return [game.file(submission.name) for game in games]


def _check_hidden(board: Path) -> None:
    """Raises SubmissionError for a board below what a submission reads: it holds the secret."""
    for path in readable():
        if board.resolve().is_relative_to(path.resolve()):
            raise SubmissionError(
                f"{board}: lies below {path}, which submissions may read: move the board, or the "
                "checkout, elsewhere"
            )


def _games(submission: Submission, board: Path, round_: Round, tiers: Sequence[str]) -> list[Game]:
    """The games that it plays in some tiers; of none: in all."""
    games = games_of(board, round_, tiers)
    named = {task for task in (*submission.tasks, *submission.agents) if task}
    for tier in {game.tier.name: game.tier for game in games}.values():
        if strange := sorted(named - {*tier.tasks}):
            raise SubmissionError(
                f"{submission.name}: {', '.join(strange)}: no such task in tier {tier.name}; its "
                f"tasks are {', '.join(tier.tasks)}"
            )
    played = [game for game in games if submission.agent(game.task) is not None]
    if any(submission.name in game.names_of_house for game in played):
        raise SubmissionError(
            f"{submission.name!r}: is the name of a rule or a search of the project: take another"
        )
    return played


def _player(
    submission: Submission, game: Game, secret: str, limits: Limits | None
) -> IsolatedPolicy:
    """What plays a game, of a private copy."""
    agent = submission.agent(game.task)
    assert agent is not None
    key = chance_key(secret, game.tier.name, game.task)
    return IsolatedPolicy(agent, submission.folder, game.domain, game.env, key, limits)


def _is_there(path: Path, submission: Submission) -> bool:
    """Whether the rows of this very folder are there; SubmissionError if they are another's."""
    if not path.exists():
        return False
    if entrant_of(read_results(path)[0]).get("digest") != submission.digest:
        raise SubmissionError(
            f"{path}: holds rows of another submission named {submission.name!r}: take another "
            "name, or remove the file"
        )
    return True

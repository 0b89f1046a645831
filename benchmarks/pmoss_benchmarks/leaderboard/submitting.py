"""Playing a submission: an episode for practice, or all tasks of a round that is revealed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pmoss_benchmarks.leaderboard.board import (
    entrant_of,
    known_references,
    names_of_house,
    play,
    row_file,
    written,
)
from pmoss_benchmarks.leaderboard.players import IsolatedPolicy, Limits
from pmoss_benchmarks.leaderboard.rounds import (
    PRACTICE,
    Round,
    Tier,
    chance_key,
    register,
)
from pmoss_benchmarks.leaderboard.submissions import Submission
from pmoss_datasets.evaluation import Evaluation, read_results
from pmoss_env.errors import SubmissionError

#: progress(stage, episodes done, episodes in all)
Progress = Callable[[str, int, int], None]


def practise(
    submission: Submission,
    round_: Round,
    tier: str = "analytic",
    *,
    limits: Limits | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> list[Evaluation]:
    """Plays one episode of each task on instances that anybody may know; nothing is written.

    Raises:
        SubmissionError: it plays no task of the tier.
        PolicyError: the policy failed.
    """
    of_tier = round_.tier(tier)
    evaluations = []
    tasks = _tasks(submission, of_tier)
    with submission.copied() as copy:
        for task in tasks:
            with closing(_player(copy, of_tier, task, PRACTICE, limits)) as player:
                evaluations.append(
                    play(
                        round_,
                        of_tier,
                        task,
                        {submission.name: player},
                        practice=True,
                        progress=lambda done, total, task=task: progress(task, done, total),  # type: ignore[misc]
                    )
                )
    return evaluations


def submit(
    submission: Submission,
    board: Path,
    round_: Round,
    *,
    tiers: tuple[str, ...] = (),
    limits: Limits | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> list[Path]:
    """Registers a submission, or plays it where the round is revealed and writes its rows.

    Rows that are there already, of the same folder, are not played again.

    Args:
        submission: a checked folder.
        board: where the rounds lie.
        round_: of the board.
        tiers: by name; empty: all, in their order.
        limits: of the policy's process.
        progress: called with (stage, episodes done, episodes in all).

    Returns:
        The files of rows; none where the round is not revealed.

    Raises:
        SubmissionError: it plays no task, or the name is another submission's.
        PolicyError: the policy failed; the rows of finished tasks stay.
    """
    chosen = [round_.tier(name) for name in tiers] or list(round_.tiers)
    if not round_.secret:
        practise(submission, round_, chosen[0].name, limits=limits, progress=progress)
        register(board, round_, submission.digest)
        return []
    missing = {
        (tier.name, task): row_file(board, round_, tier, task, submission.name)
        for tier in chosen
        for task in _tasks(submission, tier)
    }
    paths = list(missing.values())
    missing = {at: path for at, path in missing.items() if not _is_there(path, submission)}
    if not missing:
        return paths
    with submission.copied() as copy:
        for (name, task), path in missing.items():
            tier = round_.tier(name)
            with closing(_player(copy, tier, task, round_.secret, limits)) as player:
                evaluation = play(
                    round_,
                    tier,
                    task,
                    {submission.name: player},
                    references=known_references(board, round_, tier, task),
                    progress=lambda done, total, stage=f"{name} {task}": progress(  # type: ignore[misc]
                        stage, done, total
                    ),
                )
                notes = {**submission.notes, "confined": player.confined}
            written(path, evaluation, notes)
    return paths


def _tasks(submission: Submission, tier: Tier) -> list[str]:
    tasks = [task for task in tier.tasks if submission.agent(task) is not None]
    if any(submission.name in names_of_house(tier, task) for task in tasks):
        raise SubmissionError(
            f"{submission.name!r}: is the name of a rule or a search of the project: take another"
        )
    unknown = [task for task in (*submission.tasks, *submission.agents) if task]
    if strange := [task for task in unknown if task not in tier.tasks]:
        raise SubmissionError(
            f"{submission.name}: {', '.join(strange)}: no such task in tier {tier.name}; its "
            f"tasks are {', '.join(tier.tasks)}"
        )
    return tasks


def _player(
    submission: Submission, tier: Tier, task: str, secret: str, limits: Limits | None
) -> IsolatedPolicy:
    """What plays a task, of a private copy."""
    agent = submission.agent(task)
    assert agent is not None
    return IsolatedPolicy(
        agent,
        submission.folder,
        tier.domain_of(task),
        tier.env_of(task),
        chance_key(secret, tier.name, task),
        limits,
    )


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

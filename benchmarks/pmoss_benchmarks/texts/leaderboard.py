"""The blocks of the leaderboard: one for each tier of the newest round, and one for all rounds."""

from __future__ import annotations

from pmoss_benchmarks.leaderboard.board import Standing, standings
from pmoss_benchmarks.leaderboard.rounds import Tier, newest_round, rounds_of
from pmoss_benchmarks.texts.stored import Stored, counted, interval, table
from pmoss_env.errors import SubmissionError

FOLDER = "leaderboard"


def rounds(stored: Stored) -> str:
    """Every round with its digest and its secret."""
    rows = [
        [
            round_.name,
            f"`{round_.digest}`",
            f"`{round_.secret}`" if round_.secret else "not revealed yet",
            str(len(round_.entries)),
        ]
        for round_ in rounds_of(stored.folder / FOLDER)
    ]
    return table(["round", "digest", "secret", "registered before"], rows)


def analytic(stored: Stored) -> str:
    """Who stands where in the analytic tier."""
    return _tier(stored, "analytic")


def simulated(stored: Stored) -> str:
    """Who stands where in the simulated tier."""
    return _tier(stored, "simulated")


def _tier(stored: Stored, name: str) -> str:
    board = stored.folder / FOLDER
    # A round that has only begun has no rows: those of the one before stay on the page.
    revealed = [each for each in rounds_of(board) if each.secret]
    round_ = revealed[-1] if revealed else newest_round(board)
    tier = round_.tier(name)
    ranked, problems = standings(board, round_, tier)
    if problems:
        raise SubmissionError(problems[0])
    intro = (
        f"Round {round_.name}, {counted(tier.episodes, 'episode')} of each task. Score 0 is the "
        f"mean of {tier.random_schedules} random schedules, 100 what a search with "
        f"{tier.search_budget:,} evaluations of the model finds."
    )
    if not ranked:
        return f"{intro}\n\nThe round is not revealed yet, so that there are no rows."
    rows = [_row(standing, tier) for standing in ranked]
    claims = ["claimed kind", "claimed seal"]
    columns = ["name", *claims, *tier.tasks, "mean", "claimed ms per decision"]
    return f"{intro}\n\n{table(columns, rows)}"


def _row(standing: Standing, tier: Tier) -> list[str]:
    scores = [standing.scores.get(task) for task in tier.tasks]
    return [
        standing.name,
        standing.kind,
        "yes" if standing.sealed else "no",
        *(
            "" if score is None else interval(score.value, score.low, score.high)
            for score in scores
        ),
        "" if standing.mean is None else f"{standing.mean:.1f}",
        f"{standing.seconds * 1e3:.2f}",
    ]


BLOCKS = {
    "leaderboard-rounds": rounds,
    "leaderboard-analytic": analytic,
    "leaderboard-simulated": simulated,
}

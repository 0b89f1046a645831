"""The leaderboard: agents on instances that are secret until a release.

A round begins with the digest of a secret. The seeds of its instances derive from the secret, which
is revealed with a release. Every row holds its actions, so that anybody can replay it.
"""

from pmoss_benchmarks.leaderboard.board import Standing, check_board, play_house, standings
from pmoss_benchmarks.leaderboard.rounds import (
    Round,
    commit,
    evaluation_seed,
    newest_round,
    read_round,
    reveal,
    rounds_of,
)
from pmoss_benchmarks.leaderboard.submissions import Submission, read_submission
from pmoss_benchmarks.leaderboard.submitting import practise, submit

__all__ = [
    "Round",
    "Standing",
    "Submission",
    "check_board",
    "commit",
    "evaluation_seed",
    "newest_round",
    "play_house",
    "practise",
    "read_round",
    "read_submission",
    "reveal",
    "rounds_of",
    "standings",
    "submit",
]

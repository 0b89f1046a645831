import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_benchmarks.leaderboard import (
    Round,
    check_board,
    play_house,
    read_round,
    read_submission,
    reveal,
    standings,
    submit,
)
from pmoss_env.errors import SubmissionError

HandIn = Callable[..., Path]


def test_a_round_from_the_digest_to_the_table(
    sealed: Round, board: Path, tmp_path: Path, hand_in: HandIn, confined: bool
) -> None:
    submission = read_submission(hand_in())
    with pytest.raises(SubmissionError, match="is not revealed"):
        play_house(board, sealed)
    # Registered before, played after.
    assert submit(submission, board, sealed) == []
    assert read_round(board, "r1").entries == (submission.digest,)
    revealed = reveal(board, "r1", tmp_path / "secret")
    (house,) = play_house(board, revealed)
    (path,) = submit(submission, board, revealed)
    assert check_board(board) == []
    found = {s.name: s for s in standings(board, revealed, revealed.tiers[0])}
    # Who could look the secret up when it played is not sealed.
    assert found["mine"].sealed == confined and found["mine"].kind == "submission"
    assert found["local-search"].kind == "search" and found["lpt"].kind == "rule"
    means = [s.mean for s in standings(board, revealed, revealed.tiers[0])]
    assert means == sorted(means, key=lambda mean: -(mean or 0.0))
    _wrong_rows_are_found(board, path)
    # The same folder again plays nothing; another one of the same name is refused.
    before = house.stat().st_mtime_ns, path.stat().st_mtime_ns
    assert submit(submission, board, revealed) == [path]
    assert play_house(board, revealed) == [house]
    assert (house.stat().st_mtime_ns, path.stat().st_mtime_ns) == before
    other = read_submission(hand_in("submitted_module:Plans"))
    with pytest.raises(SubmissionError, match="another submission"):
        submit(other, board, revealed)


def _wrong_rows_are_found(board: Path, path: Path) -> None:
    good = path.read_text()
    header, *rows = [json.loads(line) for line in good.splitlines()]

    def problems(*lines: object) -> str:
        path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
        return "\n".join(check_board(board))

    assert "throughput" in problems(header, {**rows[0], "throughput": 1e3}, rows[1])
    assert "does not come from" in problems(header, {**rows[0], "seed": 7}, rows[1])
    assert "every episode once" in problems({**header, "rows": 1}, rows[0])
    assert "search_budget" in problems({**header, "search_budget": 3}, *rows)
    notes = {**header["notes"], "long_search": 5}
    assert "long_search" in problems({**header, "notes": notes}, *rows)
    path.write_text(good)


def test_a_submission_for_another_task_is_refused(
    sealed: Round, board: Path, hand_in: HandIn
) -> None:
    submission = read_submission(hand_in(tasks='["elsewhere"]'))
    with pytest.raises(SubmissionError, match="elsewhere"):
        submit(submission, board, sealed)

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_benchmarks.leaderboard.board import check_board, play_house, standings
from pmoss_benchmarks.leaderboard.rounds import read_round, reveal
from pmoss_benchmarks.leaderboard.submissions import read_submission
from pmoss_benchmarks.leaderboard.submitting import submit
from pmoss_env.errors import SubmissionError

HandIn = Callable[..., Path]


def test_a_round_from_the_digest_to_the_table(sealed, board, tmp_path, hand_in, confined):
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
    by_name = {s.name: s for s in standings(board, revealed, revealed.tiers[0])[0]}
    # Who could look the secret up when it played is not sealed.
    assert by_name["mine"].sealed == confined and by_name["mine"].kind == "submission"
    assert by_name["local-search"].kind == "search" and by_name["lpt"].kind == "rule"
    means = [standing.mean for standing in by_name.values()]
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
    assert "score: is missing" in problems(header, {**rows[0], "score": None}, rows[1])
    assert "does not come from" in problems(header, {**rows[0], "seed": 7}, rows[1])
    assert "every episode once" in problems({**header, "rows": 1}, rows[0])
    assert "search_budget" in problems({**header, "search_budget": 3}, *rows)
    path.write_text(good)


def test_a_submission_for_another_task_is_refused(sealed, board, hand_in):
    submission = read_submission(hand_in(tasks='["elsewhere"]'))
    with pytest.raises(SubmissionError, match="elsewhere"):
        submit(submission, board, sealed)


@pytest.mark.parametrize("content", ["nothing", "a file", "an empty folder"])
def test_a_board_without_rounds_proves_nothing(tmp_path: Path, content: str) -> None:
    board = tmp_path / "board"
    if content == "a file":
        board.write_text("")
    elif content == "an empty folder":
        board.mkdir()
    with pytest.raises(SubmissionError, match="holds no round"):
        check_board(board)


def test_bad_files_leave_the_others_standing(played, board):
    revealed, house = played
    header, *rows = [json.loads(line) for line in house.read_text().splitlines()]
    (empty := house.with_name("other.jsonl")).write_text("")
    bad = [empty]
    for notes in ("text", [], ["entrant"], {"entrant": 5}, {"entrant": ["house"]}, None, 7):
        bad.append(house.with_name(f"mine{len(bad)}.jsonl"))
        lines = [{**header, "notes": notes}, *rows]
        bad[-1].write_text("\n".join(json.dumps(line) for line in lines))
    ranked, problems = standings(board, revealed, revealed.tiers[0])
    assert "lpt" in {standing.name for standing in ranked}
    for path in bad:
        assert any(path.name in text for text in problems)
    assert len(check_board(board)) == len(problems)


def test_a_submission_does_not_take_the_name_of_a_rule(sealed, board, hand_in):
    with pytest.raises(SubmissionError, match="'local-search': is the name of a rule"):
        submit(read_submission(hand_in(name='"local-search"')), board, sealed)

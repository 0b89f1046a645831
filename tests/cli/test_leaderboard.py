from pathlib import Path

import pytest

from tests.cli.invoking import pmoss


def test_a_round_begins_and_is_shown(tmp_path: Path) -> None:
    board = ("--board", str(tmp_path / "board"))
    output = pmoss("dev", "round", "r1", "--secret", str(tmp_path / "secret"), *board)
    assert "digest" in output
    assert (tmp_path / "secret").read_text().strip() not in output
    assert "1 rounds, 0 problems" in pmoss("study", "leaderboard", "--check", *board)
    assert "round r1" in pmoss("study", "leaderboard", "--tier", "analytic", *board)


def test_a_bad_file_of_rows_is_named_and_the_round_is_shown(tmp_path: Path) -> None:
    board, secret = ("--board", str(tmp_path / "board")), str(tmp_path / "secret")
    pmoss("dev", "round", "r1", "--secret", secret, *board)
    pmoss("dev", "round", "r1", "--secret", secret, "--reveal", *board)
    path = tmp_path / "board" / "r1" / "analytic" / "skylake-x-8n-btree-ycsb-a-busy-core"
    path.mkdir(parents=True)
    (path / "mine.jsonl").write_text("{}")
    shown = pmoss("study", "leaderboard", *board, status=1)
    assert "round r1" in shown and "left out: " in shown and "mine.jsonl: line 1" in shown


def test_a_bad_folder_is_refused_in_a_line(tmp_path: Path) -> None:
    assert "submission.toml" in pmoss("study", "submit", str(tmp_path), "--practice", status=2)


def test_outside_a_checkout_the_option_that_helps_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "name it with --board" in pmoss("study", "leaderboard", status=2)


def test_a_board_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for option in ([], ["--check"]):
        words = ["study", "leaderboard", *option, "--board", str(tmp_path / "nowhere")]
        output = pmoss(*words, status=2)
        assert "holds no round" in output


@pytest.mark.parametrize("option", [("--seconds", "1e20"), ("--memory", "99999999999999999999")])
def test_limits_of_a_submission_are_bounded(tmp_path: Path, option: tuple[str, str]) -> None:
    board = ("--board", str(tmp_path / "board"))
    pmoss("dev", "round", "r1", "--secret", str(tmp_path / "secret"), *board)
    (tmp_path / "it.py").write_text("")
    (tmp_path / "submission.toml").write_text(
        'name = "it"\nauthors = ["A"]\nlicence = "MIT"\nagent = "it:It"\n'
    )
    output = pmoss("study", "submit", str(tmp_path), "--practice", *option, *board, status=2)
    assert "must be from" in output

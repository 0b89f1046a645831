from pathlib import Path

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


def test_outside_a_checkout_the_option_that_helps_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name it with --board" in pmoss("study", "leaderboard", status=2)

from pathlib import Path

import pytest

from pmoss_benchmarks.leaderboard.rounds import (
    Round,
    _tiers,
    commit,
    digest_of,
    evaluation_seed,
    newest_round,
    read_round,
    reveal,
)
from pmoss_benchmarks.texts.leaderboard import analytic
from pmoss_benchmarks.texts.stored import Stored
from pmoss_env.errors import SubmissionError
from tests.benchmarks.leaderboard.conftest import TIER


def test_a_round_publishes_the_digest_alone(sealed: Round, board: Path, tmp_path: Path) -> None:
    secret = (tmp_path / "secret").read_text().strip()
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert sealed.digest == digest_of("r1", secret)
    assert secret not in (board / "r1" / "round.toml").read_text()
    assert read_round(board, "r1") == sealed


def test_the_secret_of_a_round_is_revealed_and_no_other(
    sealed: Round, board: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("1" * 64)
    with pytest.raises(SubmissionError, match="another secret"):
        reveal(board, "r1", tmp_path / "other")
    revealed = reveal(board, "r1", tmp_path / "secret")
    assert revealed.secret == (tmp_path / "secret").read_text().strip()
    assert newest_round(board) == revealed


def test_a_secret_that_was_changed_is_refused(sealed: Round, board: Path, tmp_path: Path) -> None:
    reveal(board, "r1", tmp_path / "secret")
    path = board / "r1" / "round.toml"
    path.write_text(path.read_text().replace('secret = "', 'secret = "0')[:-1])
    with pytest.raises(SubmissionError, match="secret"):
        read_round(board, "r1")


def test_a_round_that_begins_leaves_the_tables_of_the_last(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    board = stored.folder / "leaderboard"
    commit(board, "r1", tmp_path / "first", (TIER,))
    assert analytic(stored).startswith("Round r1")
    reveal(board, "r1", tmp_path / "first")
    commit(board, "r2", tmp_path / "second", (TIER,))
    assert analytic(stored).startswith("Round r1")


@pytest.mark.parametrize("name", ["", "Big", "../up", "a b"])
def test_a_bad_name_is_refused(board: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(SubmissionError):
        commit(board, name, tmp_path / "s")


def test_a_secret_serves_once(sealed: Round, board: Path, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="is there already"):
        commit(board, "r1", tmp_path / "s")
    with pytest.raises(SubmissionError, match="serves once"):
        commit(board, "r2", tmp_path / "secret")


def test_seeds_depend_on_secret_tier_and_task() -> None:
    seeds = {evaluation_seed(s, tier, task) for s in "ab" for tier in "cd" for task in "ef"}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_missing_round_is_named(board: Path) -> None:
    with pytest.raises(SubmissionError, match="holds no round"):
        newest_round(board)
    with pytest.raises(SubmissionError, match="'r9'"):
        read_round(board, "r9")


def test_a_damaged_file_names_its_key(sealed: Round, board: Path) -> None:
    path = board / "r1" / "round.toml"
    good = path.read_text()
    for before, after in (("episodes = 2", "episodes = 0"), ('digest = "', 'digest = "x')):
        path.write_text(good.replace(before, after))
        with pytest.raises(SubmissionError, match=before.partition(" ")[0]):
            read_round(board, "r1")


def test_the_committed_tiers_are_sound() -> None:
    assert [tier.name for tier in _tiers()] == ["analytic", "simulated"]
    assert all(tier.env_of(task) for tier in _tiers() for task in tier.tasks)

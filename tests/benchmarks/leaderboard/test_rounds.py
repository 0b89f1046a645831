import hashlib
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.leaderboard.board import check_board, play_house
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
from pmoss_datasets.evaluation import WIDE, episode_seed, read_results, replay
from pmoss_env.errors import SubmissionError
from tests.benchmarks.leaderboard.conftest import TIER


def test_a_round_publishes_the_digest_alone(sealed: Round, board: Path, tmp_path: Path) -> None:
    secret = (tmp_path / "secret").read_text().strip()
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    # So anybody can check it.
    published = hashlib.sha256(f"pmoss leaderboard\0r1\0{secret}".encode())
    assert sealed.digest == digest_of("r1", secret) == published.hexdigest()
    assert secret not in (board / "r1" / "round.toml").read_text()
    assert read_round(board, "r1") == sealed


def test_the_secret_of_a_round_is_revealed_and_no_other(sealed, board, tmp_path):
    (tmp_path / "other").write_text("1" * 64)
    with pytest.raises(SubmissionError, match="another secret"):
        reveal(board, "r1", tmp_path / "other")
    revealed = reveal(board, "r1", tmp_path / "secret")
    assert revealed.secret == (tmp_path / "secret").read_text().strip()
    assert newest_round(board) == revealed
    path = board / "r1" / "round.toml"
    path.write_text(path.read_text().replace(revealed.secret, "1" * 64))
    with pytest.raises(SubmissionError, match="the secret is not the one behind the digest"):
        read_round(board, "r1")


def test_a_round_that_begins_leaves_the_tables_of_the_last(tmp_path: Path) -> None:
    board = tmp_path / "board"
    commit(board, "r1", tmp_path / "first", (TIER,))
    assert newest_round(board, revealed=True).name == "r1"
    reveal(board, "r1", tmp_path / "first")
    commit(board, "r2", tmp_path / "second", (TIER,))
    assert newest_round(board, revealed=True).name == "r1"
    assert newest_round(board).name == "r2"


def test_a_secret_serves_once(sealed: Round, board: Path, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="is there already"):
        commit(board, "r1", tmp_path / "s")
    with pytest.raises(SubmissionError, match="serves once"):
        commit(board, "r2", tmp_path / "secret")


def test_new_rounds_have_seeds_that_cannot_be_tried(played, board):
    revealed, house = played
    seeds = {row.env_seed for row in read_results(house)[1]}
    seed = evaluation_seed(revealed.secret, "analytic", TIER.tasks[0])
    assert seeds == {episode_seed(seed, episode, WIDE) for episode in range(TIER.episodes)}
    assert max(episode_seed(seed, episode, WIDE) for episode in range(50)) > 2**62
    # Rows of the narrow seeds are none of this round's, and its file replays by itself.
    assert replay(house).mismatches == ()
    narrow = house.read_text().replace('"seed_bits": 63, ', "")
    house.write_text(narrow)
    assert any("seed_bits: is not the round's" in text for text in check_board(board))
    assert any("env_seed" in text for text in replay(house).mismatches)


def test_an_old_round_keeps_its_seeds(sealed: Round, board: Path, tmp_path: Path) -> None:
    file = board / "r1" / "round.toml"
    file.write_text(file.read_text().replace("scheme = 2\n", ""))
    revealed = reveal(board, "r1", tmp_path / "secret")
    (house,) = play_house(board, revealed)
    rows = read_results(house)[1]
    for row in rows:
        sequence = np.random.SeedSequence((row.seed, row.episode))
        assert row.env_seed == sequence.generate_state(1)[0]
    assert "seed_bits" not in house.read_text()
    assert check_board(board) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("episodes = 2", "episodes = 0", "episodes"),
        ('digest = "', 'digest = "x', "digest = .*: must be 64 hexadecimal digits"),
        ("scheme = 2", "scheme = 3", "scheme = 3: this version knows 1, 2"),
        ('secret = "', 'secret = "0', "secret = .*: must be 64 hexadecimal digits"),
    ],
)
def test_a_damaged_file_names_its_key(sealed, board, tmp_path, before, after, message):
    reveal(board, "r1", tmp_path / "secret")
    path = board / "r1" / "round.toml"
    good = path.read_text()
    assert before in good
    path.write_text(good.replace(before, after))
    with pytest.raises(SubmissionError, match=message):
        read_round(board, "r1")


def test_the_committed_tiers_are_sound() -> None:
    assert [tier.name for tier in _tiers()] == ["analytic", "simulated"]
    analytic, simulated = _tiers()
    assert analytic.tasks == simulated.tasks
    for task in analytic.tasks:
        # The same tasks to the last record: fewer records make others of them.
        assert simulated.env_of(task) == {**analytic.env_of(task), "backend": "simulated"}

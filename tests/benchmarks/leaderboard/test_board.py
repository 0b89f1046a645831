"""Rounds, submissions and the board that is made of them."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.leaderboard.board import check_board, play_house, standings
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
from pmoss_benchmarks.leaderboard.submissions import read_submission
from pmoss_benchmarks.leaderboard.submitting import submit
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
    house.write_text(house.read_text().replace('"seed_bits": 63, ', ""))
    assert any("seed_bits: is not the round's" in text for text in check_board(board))
    assert any("env_seed" in text for text in replay(house).mismatches)


def test_an_old_round_keeps_its_seeds(sealed: Round, board: Path, tmp_path: Path) -> None:
    file = board / "r1" / "round.toml"
    file.write_text(file.read_text().replace("scheme = 2\n", ""))
    (house,) = play_house(board, reveal(board, "r1", tmp_path / "secret"))
    for row in read_results(house)[1]:
        assert row.env_seed == np.random.SeedSequence((row.seed, row.episode)).generate_state(1)[0]
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


HandIn = Callable[..., Path]


def test_a_folder_is_checked_and_nothing_of_it_runs(hand_in: HandIn) -> None:
    folder = hand_in()
    (folder / "submitted_module.py").write_text("raise SystemExit('executed')\nclass First: pass\n")
    submission = read_submission(folder)
    assert submission.name == "mine"
    assert submission.executed == [folder.resolve() / "submitted_module.py"]
    agent = submission.agent("any")
    assert agent is not None and agent.word == "submitted_module:First"


def test_the_digest_is_of_every_file(hand_in: HandIn) -> None:
    folder = hand_in()
    before = read_submission(folder).digest
    (folder / "notes.txt").write_text("more")
    assert read_submission(folder).digest != before


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": '"Big Name"'}, "name"),
        ({"name": '"house"'}, "name"),
        ({"authors": "[]"}, "authors"),
        ({"licence": '""'}, "licence"),
        ({"licence": "3"}, "licence"),
        ({"colour": '"red"'}, "colour"),
        ({"agent": ""}, "agent"),
        ({"agent": "../outside.safetensors"}, "is no file of the folder"),
        ({"agent": "missing.safetensors"}, "is no file of the folder"),
        ({"agent": "submission.toml"}, "must be a checkpoint"),
        ({"agent": f"{'a' * 5000}.safetensors"}, "is no file of the folder"),
        ({"agent": "nothing:Here"}, "there is no nothing.py"),
        ({"agent": f"{'a' * 5000}:First"}, "there is no a"),
        ({"agent": "a\\u0000b.safetensors"}, "must be printable"),
        ({"agent": "submitted_module:First@a\\u0000b.safetensors"}, "must be printable"),
        ({"name": '"a\\u0000b"'}, "name"),
    ],
)
def test_a_bad_file_names_what_is_wrong(hand_in, keys, message):
    with pytest.raises(SubmissionError, match=message):
        read_submission(hand_in(**keys))


@pytest.mark.parametrize("module", ["json", "__main__", "pytest"])
def test_a_module_does_not_stand_in_for_an_installed_one(hand_in: HandIn, module: str) -> None:
    folder = hand_in(agent=f"{module}:First")
    (folder / f"{module}.py").write_text("")
    with pytest.raises(SubmissionError, match="is installed"):
        read_submission(folder)


def test_a_folder_without_what_it_needs_is_refused(hand_in: HandIn, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="is no folder"):
        read_submission(tmp_path / "nowhere")
    folder = hand_in()
    os.symlink("/etc/passwd", folder / "link")
    with pytest.raises(SubmissionError, match="is a link"):
        read_submission(folder)
    (folder / "link").unlink()
    (folder / "submission.toml").unlink()
    with pytest.raises(SubmissionError, match="has no submission"):
        read_submission(folder)


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
    ends = {"score": None, "random_throughput": 1.0, "search_throughput": 1.0}
    assert "no episode has one" in problems(header, *({**row, **ends} for row in rows))
    assert "score = nan: must" in problems(header, {**rows[0], "score": float("nan")}, rows[1])
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


def test_a_house_has_all_of_its_rules_and_searches(played, board):
    _, house = played
    header, *rows = [json.loads(line) for line in house.read_text().splitlines()]
    few = [row for row in rows if row["policy"] in ("random", "lpt")]
    lines = [{**header, "rows": len(few)}, *few]
    house.write_text("\n".join(map(json.dumps, lines)) + "\n")
    (problem,) = check_board(board)
    assert "house.jsonl: lacks annealing, best-fit" in problem and "local-search" in problem
    assert check_board(board, tier="simulated") == []
    mine = [{**row, "policy": "mine"} for row in few if row["policy"] == "lpt"]
    notes = {"entrant": {"name": "mine", "kind": "agent"}}
    lines = [{**header, "rows": len(mine), "notes": notes}, *mine]
    house.rename(mine_file := house.with_name("mine.jsonl"))
    mine_file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    (problem,) = check_board(board)
    assert "house.jsonl: is missing: `pmoss dev play`" in problem


def test_a_submission_does_not_take_the_name_of_a_rule(sealed, board, hand_in):
    with pytest.raises(SubmissionError, match="'local-search': is the name of a rule"):
        submit(read_submission(hand_in(name='"local-search"')), board, sealed)

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_benchmarks.leaderboard.submissions import read_submission
from pmoss_env.errors import SubmissionError

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
        ({"agent": "nothing:Here"}, "there is no nothing.py"),
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

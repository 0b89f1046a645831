"""`pmoss run threads` and `pmoss leaderboard`, run as a user runs them."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.invoking import PMOSS, pmoss

#: An agent that a signal reaches while it decides for the third time.
_STOPPED = """
import signal
from pmoss_agents.threads.fixed import ThreadRule

class Stopped(ThreadRule):
    decisions = 0

    def act(self, observation, action_mask=None):
        self.decisions += 1
        if self.decisions == 3:
            signal.raise_signal({number})
        return super().act(observation, action_mask)
"""


def run_stopped(folder: Path, text: str) -> tuple[subprocess.CompletedProcess, Path, Path]:
    """`pmoss run threads` with an agent of this text; its log, and where the agent is saved."""
    (folder / "stopped.py").write_text(text)
    log, saved = folder / "log.jsonl", folder / "agent.safetensors"
    words = ["run", "threads", "stopped:Stopped", "--epoch", "0.05", "--log", log]
    done = subprocess.run(
        [PMOSS, *words, "--save", saved, "--", "sleep", "600"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
    )
    return done, log, saved


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_its_status_and_what_was_learned(number, tmp_path):
    done, log, saved = run_stopped(tmp_path, _STOPPED.format(number=int(number)))
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr and "s observed" in done.stdout
    assert f"interrupted: {saved} holds what the agent has learned" in done.stderr
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 2
    assert saved.exists()


def test_an_error_loses_neither_the_log_nor_what_was_learned(tmp_path):
    text = _STOPPED.format(number=0).replace("signal.raise_signal(0)", "raise RuntimeError('mine')")
    done, log, saved = run_stopped(tmp_path, text)
    assert done.returncode and "mine" in done.stderr
    assert len(log.read_text().splitlines()) == 2 and saved.exists()


def test_what_is_refused_keeps_the_files_that_are_there(tmp_path):
    log, saved = tmp_path / "log.jsonl", tmp_path / "agent.safetensors"
    words = ["run", "threads", "linucb", "--log", log, "--save", saved]
    for path in (log, saved):
        path.write_text("mine")
    assert "epoch_seconds" in pmoss(*words, "--epoch", "0", "--", "sleep", "600", status=2)
    assert [path.read_text() for path in (log, saved)] == ["mine", "mine"]
    log = tmp_path / "new" / "log.jsonl"
    words = ["run", "threads", "linucb", "--log", log, "--epoch", "0.05", "--seconds", "0.2"]
    pmoss(*words, "--", "sleep", "600")
    assert log.exists()  # how many epochs pass depends on the host


def test_a_round_begins_and_is_shown(tmp_path: Path) -> None:
    board = ("--board", str(tmp_path / "board"))
    output = pmoss("dev", "round", "r1", "--secret", str(tmp_path / "secret"), *board)
    assert "digest" in output
    assert (tmp_path / "secret").read_text().strip() not in output
    assert "1 rounds, 0 problems" in pmoss("study", "leaderboard", "--check", *board)
    assert "round r1" in pmoss("study", "leaderboard", "--tier", "analytic", *board)
    for words, message in (
        (("--episodes", "1"), "applies to --check"),
        (("--check", "--tier", "analitic"), "did you mean 'analytic'"),
        (("--check", "--round", "r2"), "r2"),
    ):
        refused = pmoss("study", "leaderboard", *words, *board, status=2)
        assert message.lower() in " ".join(refused.split()).lower()


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

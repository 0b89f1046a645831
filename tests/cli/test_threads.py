"""`pmoss run threads`, run as a user runs it."""

import json
import os
import signal
import subprocess

import pytest

from tests.cli.invoking import PMOSS

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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_its_status_and_what_was_learned(number, tmp_path):
    (tmp_path / "stopped.py").write_text(_STOPPED.format(number=int(number)))
    log, saved = tmp_path / "log.jsonl", tmp_path / "agent.safetensors"
    words = ["run", "threads", "stopped:Stopped", "--epoch", "0.05", "--log", log]
    done = subprocess.run(
        [PMOSS, *words, "--save", saved, "--", "sleep", "600"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    assert "s observed" in done.stdout
    assert f"interrupted: {saved} holds what the agent has learned" in done.stderr
    assert len([json.loads(line) for line in log.read_text().splitlines()]) == 2
    assert saved.exists()

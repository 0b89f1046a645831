"""What ends early, or well, leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

import pmoss_agents

#: A command that writes a file without end, until a signal ends it.
_WRITES = """
import os, signal, sys
from pmoss_env.cli import _clean_up_on_sigterm
from pmoss_env.files import write_atomically
_clean_up_on_sigterm()
real = os.fsync
def sync(file):
    os.kill(os.getpid(), signal.SIGTERM)
    real(file)
os.fsync = sync
try:
    write_atomically(sys.argv[1], "text")
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_sigterm_leaves_no_temporary_file(tmp_path):
    words = [sys.executable, "-c", _WRITES, str(tmp_path / "file")]
    assert subprocess.run(words, check=False).returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_forked_worker_ends_by_itself(monkeypatch):
    from pmoss_env.cli import _clean_up_on_sigterm

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        _clean_up_on_sigterm()
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


def test_training_by_playing_leaves_no_folder(tmp_path, monkeypatch):
    pytest.importorskip("sb3_contrib")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    agent = pmoss_agents.make("maskable-ppo", updates=1, envs=2)
    agent.fit({"machine": "toy", "slices": 4})  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []

"""The loop as a process of its own: what ends it, and what stays."""

import json
import signal
import subprocess

import pytest

from pmoss_env.machines import load_machine
from tests.cli.invoking import PMOSS, pmoss

SMALL = ["--records", "5000", "--slices", "8", "--epoch-seconds", "0.08"]

pytestmark = pytest.mark.skipif(
    load_machine("host").workers.size < 2, reason="needs two worker cores"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_every_epoch_is_whole(tmp_path, number):
    path, page = tmp_path / "epochs.jsonl", tmp_path / "report.html"
    words = [PMOSS, "autopilot", *SMALL, "--drift", "busy-cores", "--out", path, "--html", page]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if line.startswith("epoch 2"):
                break
        running.send_signal(number)
        running.communicate()
    kill = number == signal.SIGKILL
    assert running.returncode == (-number if kill else 128 + number)
    assert page.exists() != kill
    lines = path.read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines[1:] if line.endswith("\n")]
    assert [row["epoch"] for row in rows[:2]] == [1, 2]


def test_what_is_impossible_is_told_before_it_runs(tmp_path):
    told = pmoss("autopilot", "nobody", *SMALL, status=2)
    assert "nobody" in told
    told = pmoss("autopilot", *SMALL, "--drift", "moving-load", status=2)
    assert "only co-tenants come and go" in told
    told = pmoss("autopilot", "planner", *SMALL, "--epochs", "1", status=2)
    assert "no parameters" in told

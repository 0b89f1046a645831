"""The loop as a process of its own: what ends it, and what stays."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_env.machines import load_machine
from tests.cli.invoking import PMOSS, SESSION, pmoss, running

AUTOPILOT = (PMOSS, "run", "autopilot")
SMALL = ["--records", "5000", "--slices", "8", "--epoch-seconds", "0.08"]

pytestmark = pytest.mark.skipif(
    load_machine("host").workers.size < 2, reason="needs two worker cores"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_every_epoch_is_whole(tmp_path, number):
    path, page = tmp_path / "epochs.jsonl", tmp_path / "report.html"
    words = [*AUTOPILOT, *SMALL, "--drift", "busy-cores", "--out", path, "--html", page]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if line.startswith("epoch 2"):
                break
        child.send_signal(number)
        child.communicate()
    kill = number == signal.SIGKILL
    assert child.returncode == (-number if kill else 128 + number)
    assert page.exists() != kill
    lines = path.read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines[1:] if line.endswith("\n")]
    assert [row["epoch"] for row in rows[:2]] == [1, 2]


@pytest.mark.parametrize(("room", "whole"), [(7000, 1), (1000, 0)])
def test_a_full_disk_stops_nothing(tmp_path, room, whole):
    path, page = tmp_path / "epochs.jsonl", tmp_path / "report.html"
    words = [*AUTOPILOT, *SMALL, "--epochs", "4", "--out", path, "--html", page]
    # No file may grow beyond this: what a full disk says, the kernel says.
    code = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; os.execv(sys.argv[1], sys.argv[1:])", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert "epoch 4" in done.stdout and "the loop goes on without" in done.stdout
    assert f"{4 - whole} epochs were not written" in done.stdout
    kept = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [row["epoch"] for row in kept] == list(range(1, 1 + whole))
    # The page is small: it has room beside an epoch, or nothing has. Lost epochs are no success.
    assert page.exists() == bool(whole)
    assert done.returncode == (1 if whole else 2)
    assert whole or (str(page) in done.stderr and "of its epochs" not in done.stderr)


LIBRARY = ["--workload", "lookups", *SMALL]


@pytest.mark.parametrize("fault", ["crashes_later", "exits_later"])
def test_a_library_that_ends_its_process_is_one_error(faulty, tmp_path, fault):
    path, page = tmp_path / "epochs.jsonl", tmp_path / "report.html"
    words = [*AUTOPILOT, "--index", f"plugin:{faulty(fault)}", *LIBRARY, "--out", path]
    done = subprocess.run([*words, "--html", page], capture_output=True, text=True)
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("error: ") and f"pmoss index check {faulty(fault)}" in line
    # It may have died before the first epoch was over.
    assert not path.exists() or all(map(json.loads, path.read_text().splitlines()))


def test_a_library_is_served_and_changes_of_it_are_another_index(faulty, tmp_path):
    library = tmp_path / "index.so"
    shutil.copy(faulty("good"), library)
    words = ["--index", f"plugin:{library}", *LIBRARY, "--epochs", "2"]
    out = ("--out", str(tmp_path / "epochs.jsonl"))
    assert "epoch 2" in pmoss("run", "autopilot", *words, *out)
    library.write_bytes(library.read_bytes() + b"other")
    assert "settings.library" in pmoss("run", "autopilot", *words, *out, status=2)


def test_a_library_that_hangs_can_be_stopped(faulty):
    words = [*AUTOPILOT, "--index", f"plugin:{faulty('hangs_later')}", *LIBRARY]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout.readline().startswith(b"loading")
        time.sleep(2.0)  # until it hangs, mostly
        child.terminate()
        assert child.wait() == 128 + signal.SIGTERM
    while running(SESSION, child.pid):
        time.sleep(0.02)


def test_what_is_impossible_is_refused_before_it_runs(tmp_path):
    output = pmoss("run", "autopilot", "no-such-agent", *SMALL, status=2)
    assert "no-such-agent" in output
    output = pmoss("run", "autopilot", *SMALL, "--drift", "moving-load", status=2)
    assert "only co-tenants change" in output
    output = pmoss("run", "autopilot", "planner", *SMALL, "--epochs", "1", status=2)
    assert "no parameters" in output


def test_outputs_and_arguments_that_contradict_each_other_are_refused(tmp_path):
    path = tmp_path / "same.html"
    output = pmoss("run", "autopilot", *SMALL, "--out", str(path), "--html", str(path), status=2)
    assert "each a file of its own" in output and not path.exists()
    output = pmoss("run", "autopilot", *SMALL, "--html", str(tmp_path / "report.json"), status=2)
    assert "must end in .html" in output
    output = pmoss("run", "autopilot", *SMALL, "-e", "slices=4", status=2)
    assert "-e slices=4: give --slices" in output


class Talks(RoundPolicy):
    """Raises more than a line of a terminal can hold."""

    def plan(self, cores):
        raise RuntimeError("first\nsecond\r\n\tthird\x85fourth " + "long " * 200 + "end")


def test_an_agents_error_is_one_line_and_whole_in_the_file(tmp_path):
    path, page = tmp_path / "epochs.jsonl", tmp_path / "page.html"
    # Without inserts: an index that grows is loaded anew, as often as the host is fast.
    words = [*LIBRARY, "--epochs", "4", "--out", str(path), "--html", str(page)]
    output = pmoss("run", "autopilot", f"{__name__}:Talks", *words)
    epochs = [line for line in output.splitlines() if line.startswith("epoch ")]
    assert len(epochs) == 4 and all(len(line) < 190 for line in epochs)
    assert "RuntimeError: first second third fourth long" in epochs[0]
    assert epochs[0].endswith("long end; nothing moves")
    assert epochs[2].endswith("nothing moves; it is asked no more")
    rest = [line for line in output.splitlines() if line not in epochs]
    assert len(rest) == len(pmoss("run", "autopilot", *LIBRARY, "--epochs", "1").splitlines()) - 1
    kept = json.loads(path.read_text().splitlines()[1])["trouble"]
    assert "first\nsecond\r\n\tthird\x85fourth" in kept and kept.count("long ") == 200
    assert page.read_text().count("long ") == 3 * 200

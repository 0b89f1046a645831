"""Campaigns of mutations and of kills, and what ends early: nothing is left behind."""

import os
import signal
import subprocess
import sys

import pytest

from pmoss_datasets import write_dataset
from pmoss_env.cli.signals import end_at_once, end_like_ctrl_c
from pmoss_env.errors import DescriptionError
from pmoss_env.machines.importing import read_lstopo
from pmoss_env.processes import ENDING
from tests.faults import campaign, inputs, kills


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign") / "sound"
    folder.mkdir()
    inputs.make(folder)
    return folder


def test_every_sound_file_is_accepted_and_what_goes_wrong_is_reported(sound, monkeypatch):
    monkeypatch.setattr(campaign, "mutated", lambda data, *_: data)
    for number, name in enumerate(inputs.KINDS):
        row = campaign.run_one(sound, number)
        assert (row["kind"], row["outcome"], row["same"]) == (name, "accepted", True), row
    kinds = {
        "foreign": lambda folder: 1 // 0,
        "executed": lambda folder: os.system("true"),
        "crash": lambda folder: os.abort(),
        "memory": lambda folder: bytearray(1 << 40),
        "hang": lambda folder: _spin(),
        "wrong data": lambda folder: str(folder),
    }
    monkeypatch.setattr(campaign, "SECONDS", 1)
    for outcome, read in kinds.items():
        kind = inputs.Kind("schedule/schedule.json", read, sealed=outcome == "wrong data")
        monkeypatch.setattr(campaign, "KINDS", {"schedule": kind})
        assert campaign.run_one(sound, 0)["outcome"] == outcome


def _spin():
    while True:
        pass


@pytest.mark.parametrize("mutations", [60, pytest.param(2400, marks=pytest.mark.heavy)])
def test_a_mutated_file_is_accepted_or_refused(sound, mutations):
    for number in range(mutations):
        row = campaign.run_one(sound, number)
        assert row["outcome"] in ("accepted", "refused"), row


WORKS = len(kills.WORKS)
FEW = [n for n in range(3 * WORKS) if [*kills.WORKS][n % WORKS] in ("collect", "evaluate")]


@pytest.mark.parametrize("numbers", [FEW, pytest.param(range(200), marks=pytest.mark.heavy)])
def test_what_is_killed_goes_on(tmp_path, numbers):
    whole: dict[str, str] = {}
    for number in numbers:
        row = kills.run_one(number, tmp_path, whole)
        assert row["faults"] == [], row


#: A command that writes a file without end, until a signal ends it.
_WRITES = """
import os, signal, sys
from pmoss_env.cli.signals import end_like_ctrl_c, status
from pmoss_env.files import write_atomically
end_like_ctrl_c()
real = os.fsync
def sync(file):
    os.kill(os.getpid(), signal.SIGTERM)
    real(file)
os.fsync = sync
try:
    write_atomically(sys.argv[1], "text")
except KeyboardInterrupt:
    sys.exit(status())
"""


def test_sigterm_leaves_no_temporary_file(tmp_path):
    words = [sys.executable, "-c", _WRITES, str(tmp_path / "file")]
    assert subprocess.run(words, check=False).returncode == 143
    assert list(tmp_path.iterdir()) == []


#: A command that a signal reaches where Python drops what is raised.
_DROPS = """
import os, signal
import pmoss_env.cli.app
from pmoss_env.cli import main

class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass

def work():
    Dropping()
    while True:
        pass

pmoss_env.cli.app.make_app = lambda: lambda **_: work()
main()
"""


def test_a_signal_in_a_destructor_is_not_lost():
    done = subprocess.run([sys.executable, "-c", _DROPS], capture_output=True, text=True)
    assert done.returncode == 143
    assert done.stderr.startswith("interrupted") and done.stderr.count("\n") == 1


#: A command that a signal reaches in native work, which would end as the interpreter is torn down.
_SIMULATES = """
import atexit, os, signal
import pmoss_env.cli.app
from pmoss_env.backends import make_backend, reporting
from pmoss_env.cli import main

atexit.register(print, "torn down")
reporting.REPORT_AFTER, reporting.REPORT_EVERY = 0.0, 0.001
sizes = {"workload": "ycsb-a", "load": "closed", "records": 500_000, "queries": 500_000}

def work():
    stop = lambda what, seconds: os.kill(os.getpid(), signal.SIGTERM)
    make_backend("simulated", machine="toy", slices=8, progress=stop, **sizes).trace()

pmoss_env.cli.app.make_app = lambda: lambda **_: work()
main()
"""


def test_a_signal_in_native_work_does_not_abort_the_process():
    done = subprocess.run([sys.executable, "-c", _SIMULATES], capture_output=True, text=True)
    assert done.returncode == 143, done.stderr
    assert done.stderr.startswith("interrupted") and done.stderr.count("\n") == 1
    assert not done.stdout


def test_a_forked_worker_ends_by_itself(monkeypatch):
    before = {number: signal.getsignal(number) for number in ENDING}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        end_like_ctrl_c()
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGTERM
    finally:
        end_at_once()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_dataset_has_the_mode_that_the_user_wants(whole, tmp_path):
    before = os.umask(0o027)
    try:
        write_dataset(tmp_path / "new", list(whole), whole.metadata)
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "new" / "data.hdf5").stat().st_mode & 0o777 == 0o640


def test_a_server_of_absurd_size_is_refused_at_once(tmp_path):
    path = tmp_path / "server.xml"
    objects = "".join(f'<object type="PU" os_index="{i}"/>' for i in range(40_000))
    node = '<object type="NUMANode" os_index="0"/>'
    path.write_text(
        f'<topology version="2.0"><object type="Machine">{node}{objects}</object></topology>'
    )
    with pytest.raises(DescriptionError, match="has 40000 PUs: must be at most 8192"):
        read_lstopo(path)

"""What ends early, or well, leaves nothing behind."""

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

"""Backends by name, children that fall silent, and settings of the kernel that are in the way."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from pmoss_env.backends import (
    Backend,
    backend_class,
    backend_names,
    backend_options,
    incremental,
    make_backend,
)
from pmoss_env.backends.child_process import Child, Wording
from pmoss_env.backends.data_facts import placement_lines
from pmoss_env.backends.kernel_settings import (
    check_settings,
    pages_balanced,
    switched,
    why_no_balancing,
)
from pmoss_env.backends.process_lock import ForkGuard, ProcessLock
from pmoss_env.errors import BackendError, ForkedError, UnknownNameError, UnsupportedError
from pmoss_env.workloads import load_workload
from tests.forked import in_child

MINE = """
from pmoss_env.backends.analytic import AnalyticBackend

class Slow(AnalyticBackend):
    name = "slow"
    incremental = False

    def __init__(self, subject, *, patience=1):
        super().__init__(subject)
        self.patience = patience
"""


def test_a_backend_says_what_it_can_do() -> None:
    for name, *abilities in (
        ("analytic", True, False, True),
        ("simulated", True, False, False),
        ("hardware", False, True, False),
    ):
        kind = backend_class(name)
        assert [kind.repeatable, kind.measures_host, kind.incremental] == abilities


def test_a_backend_of_another_package_is_used_by_its_name(install_package: Any) -> None:
    install_package("slow_backend", {"pmoss.backends": {"slow": "slow_backend:Slow"}}, MINE)
    assert backend_names() == ["analytic", "simulated", "hardware", "slow"]
    assert backend_options("slow") == ["patience"]
    backend = make_backend("slow", machine="toy", workload="ycsb-a", slices=8, patience=3)
    assert isinstance(backend, Backend) and incremental(backend) is None
    with pytest.raises(UnsupportedError, match="takes no option 'x'; it takes patience"):
        make_backend("slow", machine="toy", workload="ycsb-a", x=1)
    env = gymnasium.make("pmoss/toy-v0", backend="slow", incumbent="grouped")
    _, info = env.reset(seed=1)
    fast = gymnasium.make("pmoss/toy-v0", incumbent="grouped").reset(seed=1)[1]
    assert info["throughput"] == fast["throughput"]
    # It cannot be asked after every move, so that the end is what it pays.
    assert env.unwrapped.reward == "terminal"  # type: ignore[attr-defined]


def test_what_no_package_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown backend 'slow'"):
        make_backend("slow", machine="toy", workload="ycsb-a")
    with pytest.raises(UnknownNameError, match="unknown backend 7"):
        backend_class(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["analytic", "simulated"])
def test_models_know_values_of_eight_bytes(backend: str) -> None:
    large = replace(load_workload("lookups"), value_bytes=64)
    with pytest.raises(UnsupportedError, match=f"value_bytes = 64: the {backend} backend models"):
        make_backend(backend, machine="toy", workload=large, slices=16)


SILENT = "the child fell silent and was killed"


def silent_child(**wording: Any) -> closing[Child]:
    """A child that neither reads nor answers."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    return closing(Child(command, Wording("the child", **wording), environment={**os.environ}))


def test_a_child_that_reads_nothing_does_not_hold_its_parent() -> None:
    with silent_child() as child:
        with pytest.raises(BackendError, match=SILENT):
            child.ask({"more than a pipe holds": "x" * (1 << 20)}, 0.1)
        with pytest.raises(ProcessLookupError):
            os.kill(child.process_id, 0)


def test_a_child_is_heard_beside_a_thousand_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2000), hard), hard))
    try:
        with ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(open(os.devnull))
            with silent_child() as child, pytest.raises(BackendError, match=SILENT):
                child.ask({}, 0.1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_silent_child_is_reported_before_it_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    with silent_child(warn_seconds=0.1) as child, pytest.raises(BackendError, match=SILENT):
        child.ask({}, 0.4, expected=0.2)
    [message] = caplog.messages
    assert message == "the child has given no sign of life for 0.1 s; it is killed after 0.4 s"


def test_sending_and_answering_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_child() as child:
        read, deadlines = child._read, []
        monkeypatch.setattr(child, "_write", lambda frame, deadline: deadlines.append(deadline))
        monkeypatch.setattr(
            child, "_read", lambda size, end: deadlines.append(end) or read(size, end)
        )
        with pytest.raises(BackendError, match=SILENT):
            child.ask({}, 0.1)
    assert len(deadlines) == 2 and deadlines[0] == deadlines[1]


def test_a_forked_child_does_not_wait_for_its_parents_threads():
    lock, guard = ProcessLock(), ForkGuard()
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock, guard:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with guard:  # another thread is inside, and stays there
        pass

    def enter_in_child() -> int:
        with lock, pytest.raises(ForkedError), guard:
            pass
        return 0

    status = in_child(enter_in_child)
    over.set()
    thread.join()
    assert status == 0


def settings(kernel: Path) -> tuple[str, str]:
    return (
        (kernel / "proc/sys/kernel/numa_balancing").read_text(),
        (kernel / "sys/kernel/mm/transparent_hugepage/enabled").read_text(),
    )


def test_nothing_is_switched_unless_asked(kernel: Path) -> None:
    before = settings(kernel)
    with switched({"numa_balancing": None, "transparent_hugepages": "madvise"}, kernel):
        assert settings(kernel) == before


def test_a_setting_that_cannot_be_switched_leaves_all_as_they_were(kernel: Path) -> None:
    (kernel / "sys/kernel/mm/transparent_hugepage/enabled").unlink()
    with (
        pytest.raises(BackendError, match=r"transparent_hugepages = .never.: .*run as root"),
        switched({"numa_balancing": "0", "transparent_hugepages": "never"}, kernel),
    ):
        pass
    assert (kernel / "proc/sys/kernel/numa_balancing").read_text() == "1"


def test_the_guard_puts_back_what_we_cannot(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with switched({"numa_balancing": "0"}, kernel):

        def fails(*_: object) -> None:
            raise OSError("busy")

        monkeypatch.setattr(Path, "write_text", fails)
    assert settings(kernel) == ("1", "always [madvise] never\n")


def test_what_cannot_be_put_back_is_reported(kernel: Path) -> None:
    balancing = kernel / "proc/sys/kernel/numa_balancing"
    with (
        pytest.raises(BackendError, match=r"numa_balancing cannot be put back to .1.: as root"),
        switched({"numa_balancing": "0"}, kernel),
    ):
        balancing.unlink()
        balancing.mkdir()


def test_values_are_those_of_the_kernel() -> None:
    check_settings({"numa_balancing": "1", "transparent_hugepages": None})
    with pytest.raises(BackendError, match="numa_balancing = 'on': must be one of 0, 1"):
        check_settings({"numa_balancing": "on"})


def test_a_kill_puts_them_back(kernel: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from pmoss_env.backends.kernel_settings import switched\n"
        "with switched({'transparent_hugepages': 'never'}, Path(sys.argv[1])):\n"
        "    forked = os.fork()  # lives on, and held the guard's pipe open\n"
        "    if forked: print(forked, flush=True)\n"
        "    time.sleep(600)\n"
    )
    enabled = kernel / "sys/kernel/mm/transparent_hugepage/enabled"
    with subprocess.Popen([sys.executable, "-c", code, kernel], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        forked = int(child.stdout.readline())
        assert enabled.read_text() == "never"
        child.kill()
    until = time.monotonic() + 60
    while enabled.read_text() != "madvise" and time.monotonic() < until:
        time.sleep(0.01)
    assert enabled.read_text() == "madvise"
    os.kill(forked, signal.SIGKILL)


def test_pages_that_the_kernel_moved_are_counted(kernel: Path) -> None:
    assert pages_balanced(kernel) == 0
    (kernel / "proc/vmstat").write_text("numa_hint_faults 9\nnuma_pages_migrated 1234\n")
    assert pages_balanced(kernel) == 1234
    [line] = placement_lines({"data": {"pages_balanced": 1234}})
    assert "moved 1,234 pages" in line


def test_balancing_is_measured_where_it_can_be_switched(kernel: Path) -> None:
    file = kernel / "proc/sys/kernel/numa_balancing"
    assert why_no_balancing(2, kernel) == ""
    assert why_no_balancing(1, kernel) == "this host has one NUMA node"
    file.unlink()
    assert f"{file} cannot be read" in why_no_balancing(2, kernel)

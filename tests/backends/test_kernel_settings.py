import subprocess
import sys
import time
from pathlib import Path

import pytest

from pmoss_env.backends.kernel_settings import check_settings, switched, why_no_balancing
from pmoss_env.errors import BackendError


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
        "import sys, time; from pathlib import Path\n"
        "from pmoss_env.backends.kernel_settings import switched\n"
        "with switched({'transparent_hugepages': 'never'}, Path(sys.argv[1])):\n"
        "    print('switched', flush=True); time.sleep(600)\n"
    )
    enabled = kernel / "sys/kernel/mm/transparent_hugepage/enabled"
    words = [sys.executable, "-c", code, kernel]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert enabled.read_text() == "never"
        child.kill()
    until = time.monotonic() + 60
    while enabled.read_text() != "madvise" and time.monotonic() < until:
        time.sleep(0.01)
    assert enabled.read_text() == "madvise"


def test_balancing_is_measured_where_it_can_be_switched(kernel: Path) -> None:
    file = kernel / "proc/sys/kernel/numa_balancing"
    assert why_no_balancing(2, kernel) == ""
    assert why_no_balancing(1, kernel) == "this host has one NUMA node"
    file.unlink()
    assert f"{file} cannot be read" in why_no_balancing(2, kernel)

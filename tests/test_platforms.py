"""A portable build, whose refusals are typed, and systems that are not Linux."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest

from pmoss_benchmarks.host_report import host_report
from pmoss_benchmarks.provenance import describe_machine
from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.envs.access_path.real import engine_absence, make_engine
from pmoss_env.envs.threads.live.process import ProcessServer
from pmoss_env.errors import PlatformError, PmossError
from pmoss_env.index_check import check_index
from pmoss_env.machines import catalog, load_machine
from pmoss_env.platforms import looks_at_host, refuse_absent_names

NATIVE = Path(__file__).resolve().parents[1] / "native"


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native module as a portable build has it."""
    for name in _native.HOST_NAMES:
        monkeypatch.delattr(_native, name)
    monkeypatch.setattr(_native, "HOST_NAMES", ())
    monkeypatch.setitem(vars(_native), "__getattr__", None)  # goes when the test ends
    catalog._load.cache_clear()  # another test may have looked at this host
    refuse_absent_names()


@pytest.mark.parametrize(
    "asked",
    [
        lambda: make_backend("hardware", machine="toy", workload="ycsb-a", slices=8),
        lambda: gymnasium.make("pmoss/toy-v0", backend="hardware"),
        lambda: gymnasium.make("pmoss/ContinualScheduling-v0", backend="hardware"),
        lambda: ProcessServer(1, slow_node=0),
        lambda: load_machine("host"),
        lambda: make_engine("thread"),
        lambda: check_index("index.so"),
        lambda: host_report(),
        lambda: _native.Runner,
    ],
)
def test_what_needs_linux_is_a_typed_error(portable: None, asked: Callable[[], object]) -> None:
    with pytest.raises(PlatformError, match=r"'analytic' and 'simulated' work here"):
        asked()


def test_the_rest_goes_on(portable: None) -> None:
    assert not looks_at_host()
    assert "not available" in engine_absence("thread")
    assert describe_machine()["cpus"]
    with pytest.raises(AttributeError):
        getattr(_native, "__path__")  # noqa: B009
    env = gymnasium.make("pmoss/toy-v0")
    _, info = env.reset(seed=0)
    env.step(int(info["action_mask"].argmax()))


def test_every_class_of_the_host_goes_through_the_door() -> None:
    assert looks_at_host()
    assert issubclass(PlatformError, PmossError)
    assert {"Runner", "LiveRun", "host_topology", "register_plugin"} <= set(_native.HOST_NAMES)
    assert not {"BTree", "AnalyticModel", "SimulatedServer"} & set(_native.HOST_NAMES)


def test_a_portable_build_lacks_sources_that_are_there() -> None:
    """Each name in the list is a file, and each stand-in stands in for one of them."""
    text = (NATIVE / "portable" / "parts.cmake").read_text()
    listed = {word.rstrip(")") for word in text.split() if word.rstrip(")").endswith(".cpp")}
    listed = {name for name in listed if "*" not in name}
    assert listed and all((NATIVE / name).is_file() for name in listed)
    stand_ins = list((NATIVE / "portable").rglob("*.cpp"))
    assert stand_ins
    for path in stand_ins:
        assert f"{path.parent.name}/{path.name}" in listed, path


WITHOUT_POSIX = """
import os, signal, sys
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for module, names in (
    (os, ("O_NONBLOCK", "O_CLOEXEC", "getuid", "sched_getaffinity", "sysconf", "killpg", "fork")),
    (signal, ("SIGHUP", "SIGALRM", "SIGKILL", "setitimer", "pthread_sigmask")),
):
    for name in names:
        delattr(module, name)
import pathlib
import pmoss_agents, pmoss_benchmarks
from pmoss_datasets.result_files import ResultFile
from pmoss_env.cli import main
from pmoss_env.files import write_atomically
for row in ({"n": 1}, {"n": 2}):
    with ResultFile(pathlib.Path("rows.jsonl"), {"of": "test"}, ["n"]) as file:
        file.append(row)
write_atomically("done", str(len(file.rows)))
sys.argv = ["pmoss", "envs"]
main()
"""


def test_files_and_commands_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pmoss/toy-v0" in done.stdout
    assert (tmp_path / "done").read_text() == "2"

"""A portable build, whose refusals are typed, and systems that are not Linux."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

import pmoss_agents
import pmoss_datasets
import pmoss_env
from pmoss_benchmarks.leaderboard.players import IsolatedPolicy
from pmoss_benchmarks.leaderboard.submissions import Agent
from pmoss_datasets.domain import find_domain
from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.cli.catalogs import machines
from pmoss_env.envs.access_path.real import make_engine
from pmoss_env.envs.threads.live.process import ProcessServer
from pmoss_env.errors import PlatformError, PmossError
from pmoss_env.host_report import host_report
from pmoss_env.index_check import check_index
from pmoss_env.machines import catalog, load_machine
from pmoss_env.platforms import looks_at_host, refuse_absent_names
from pmoss_env.provenance import describe_machine
from tests import without_posix

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
        lambda: gymnasium.make("pmoss/ContinualScheduling-v1", backend="hardware"),
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


@pytest.mark.parametrize("asked", [host_report, lambda: load_machine("host")])
def test_a_sandbox_without_sys_is_a_typed_error(monkeypatch, tmp_path, asked):
    read = _native.host_topology
    monkeypatch.setattr(_native, "host_topology", lambda root: read(str(tmp_path)))
    catalog._load.cache_clear()  # another test may have looked at this host
    with pytest.raises(PlatformError, match=r"no online CPU under .* Make /sys of the host"):
        asked()


def test_machines_are_listed_where_the_host_cannot_be_read(portable, capsys):
    machines(as_json=True)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["host"]["cores"] == "" and rows["toy"]["cores"] > 0


def test_the_rest_goes_on(portable: None) -> None:
    assert not looks_at_host()
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


#: Modules that serve Linux alone, or ask first whether the system has what they call.
OF_SYSTEMS = {
    "pmoss_env/backends/child_process.py": "IsolatedPolicy and hardware ask first",
    "pmoss_env/cli/doctor.py": "behind host_report",
    "pmoss_env/cli/signals.py": "asks for setitimer",
    "pmoss_env/envs/threads/live/affinity.py": "behind ProcessServer",
    "pmoss_env/envs/threads/live/guardian.py": "behind ProcessServer",
    "pmoss_env/envs/threads/live/process.py": "asks require_host()",
    "pmoss_env/envs/threads/key_value_load.py": "asks require_host()",
    "pmoss_env/machines/importing/sysfs.py": "asks require_host()",
    "pmoss_env/processes.py": "asks for each",
    "pmoss_env/provenance.py": "asks looks_at_host()",
    "pmoss_env/record.py": "behind register_plugin",
    "pmoss_env/files.py": "asks for fcntl",
}


def _of_unix(tree: ast.Module) -> Iterator[str]:
    """What of Unix a module names."""
    names = {module.__name__: set(names) for module, names in without_posix.NAMES.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & set(without_posix.MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in without_posix.MODULES:
            yield node.module
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of_unix = {node.attr} & names.get(node.value.id, set())
            yield from (f"{node.value.id}.{name}" for name in of_unix)


def test_what_windows_lacks_is_named_where_it_cannot_be_missed() -> None:
    used_by = {}
    for package in (pmoss_env, pmoss_datasets, pmoss_agents):  # benchmarks may ask for this host
        folder = Path(package.__file__).parent
        for path in folder.rglob("*.py"):
            if used := set(_of_unix(ast.parse(path.read_text("utf-8")))):
                used_by[path.relative_to(folder.parent).as_posix()] = used
    new = {path: used for path, used in used_by.items() if path not in OF_SYSTEMS}
    assert not new, "ask hasattr() or require_host() first, and list the module above"


def test_models_data_and_commands_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    script = Path(without_posix.__file__).resolve()
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    modules, *commands = done.stdout.splitlines()
    assert int(modules.split()[0]) > 150
    assert commands == [f"pmoss {words}" for words in without_posix.COMMANDS]


def test_a_submission_is_refused_where_it_could_not_be_ended(monkeypatch):
    monkeypatch.delattr(os, "killpg")
    agent = Agent("", "lpt", None)
    with pytest.raises(PlatformError, match="pmoss evaluate"):
        IsolatedPolicy(agent, None, find_domain("spatial"), {"machine": "toy"}, bytes(32))

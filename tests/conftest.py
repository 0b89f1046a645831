"""What all tests share."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Nothing that is drawn depends on how busy the host is.
settings.register_profile("any host", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any host")


def pytest_configure() -> None:
    """Lets signals work in the background and under nohup, where some are ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


#: Files that take longest. The C++ builds take as long as most of the rest together.
_LONGEST = (
    *("native/test_cpp.py", "tests/test_contributing.py", "tests/test_docs.py", "cli/test_cli.py"),
    *("spatial/test_d3rlpy_agents.py", "tests/test_style.py"),
    *("guest/test_numa.py", "guest/test_arm.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, so that no process waits for the other at the end."""

    def rank(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((i for i, name in enumerate(_LONGEST) if path.endswith(name)), len(_LONGEST))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def faulty(tmp_path_factory):
    """Libraries of users by their fault (tests/native/faulty.py)."""
    from tests.native.faulty import faulty_in

    return faulty_in(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def install_package(tmp_path, monkeypatch):
    """Puts a package of one module with entry points on the path, as pip would."""

    def put(package: str, groups: dict[str, dict[str, str]], code: str = "") -> None:
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = []
        for group, entries in groups.items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        (folder / f"{package}.py").write_text(code)
        monkeypatch.syspath_prepend(folder)

    return put


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiers of four episodes, so that a suite is built in no time."""
    from pmoss_datasets import suite

    tier, small = suite.tier, {"episodes": 4, "reference_episodes": 2, "reference_budget": 20}
    monkeypatch.setattr(suite, "tier", lambda *names: tier(*names) | small)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A root whose settings of the kernel may be switched."""
    root = tmp_path / "kernel"
    for name, text in (
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ):
        file = root / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return root

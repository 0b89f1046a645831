"""What all tests share."""

import signal

import pytest


def pytest_configure() -> None:
    """Lets Ctrl-C work where the tests run in the background, whose shells ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the C++ builds first: they take longest, and the other process does the rest."""
    items.sort(key=lambda item: item.path.name != "test_cpp.py")


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

import os

import pytest

from pmoss_env import entry_points
from pmoss_env.errors import MissingExtraError, PluginError

GROUP = "pmoss.tests"


@pytest.fixture
def install(install_package):
    """Puts a package with entry points of the tests' group on the path, as pip would."""

    def put(package, entries, code=""):
        install_package(package, {GROUP: entries}, code)

    return put


def test_entries_are_found_and_loaded_only_when_asked(install):
    install("doors_good", {"b": "doors_good:SEVEN", "a": "doors_good:nothing"}, "SEVEN = 7")
    doors = entry_points.entries(GROUP)
    assert list(doors) == ["a", "b"]
    assert entry_points.load(doors["b"]) == 7
    with pytest.raises(
        PluginError, match=r"'a' of 'pmoss.tests': 'doors_good:nothing' of the pack"
    ):
        entry_points.load(doors["a"])
    assert entry_points.entries("pmoss.none") == {}


def test_a_package_that_is_installed_meanwhile_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert entry_points.entries(GROUP) == {}
    info = tmp_path / "doors_later-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: doors-later\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nlater = doors_later:X\n")
    # What a folder holds is kept by its time, of which two changes in one tick have the same.
    os.utime(tmp_path, ns=(1, 1))
    assert list(entry_points.entries(GROUP)) == ["later"]


@pytest.mark.parametrize(
    ("code", "error"), [("1 / 0", "ZeroDivisionError"), ("raise SystemExit(0)", "SystemExit: 0")]
)
def test_a_broken_package_is_named(install, code, error):
    name = f"doors_{error[:4].lower()}"
    install(name, {"x": f"{name}:X"}, code)
    with pytest.raises(PluginError, match=rf"package {name} .*{error}"):
        entry_points.load(entry_points.entries(GROUP)["x"])


def test_our_own_errors_stay(install):
    code = (
        "from pmoss_env.errors import MissingExtraError\nraise MissingExtraError('torch', 'agents')"
    )
    install("doors_extra", {"x": "doors_extra:X"}, code)
    with pytest.raises(MissingExtraError, match="torch"):
        entry_points.load(entry_points.entries(GROUP)["x"])


def test_one_name_has_one_meaning(install):
    install("doors_one", {"x": "doors_one:X"})
    with pytest.raises(PluginError, match=r"'x' .* has itself"):
        entry_points.entries(GROUP, own=["x"])
    install("doors_two", {"x": "doors_two:X"})
    with pytest.raises(PluginError, match=r"is both 'doors_.*uninstall one"):
        entry_points.entries(GROUP)

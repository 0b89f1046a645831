"""Machines, workloads and entry points of others: found, never in place of ours."""

import os
from pathlib import Path

import pytest

from pmoss_env import entry_points
from pmoss_env.errors import DescriptionError, MissingExtraError, PluginError, UnknownNameError
from pmoss_env.machines import load_machine, machine_names
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.registration import environments
from pmoss_env.workloads import load_workload, workload_names
from pmoss_env.workloads.catalog import PRESETS as WORKLOADS


def copy_of(preset: Path, folder: Path, name: str, old: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(preset.read_text().replace(f'name = "{old}"', f'name = "{name}"'))
    return path


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return copy_of(PRESETS / "toy.toml", tmp_path / "machines", "desk", "toy")


def test_a_folder_of_the_user_adds_machines_and_workloads(desk, tmp_path, monkeypatch):
    copy_of(WORKLOADS / "lookups.toml", tmp_path / "w", "mine", "lookups")
    ids = environments()
    monkeypatch.setenv("PMOSS_MACHINES_PATH", f"{desk.parent}:")
    monkeypatch.setenv("PMOSS_WORKLOADS_PATH", str(tmp_path / "w"))
    assert "desk" in machine_names() and "toy" in machine_names()
    assert load_machine("desk").name == "desk"
    assert "mine" in workload_names()
    assert load_workload("mine").name == "mine"
    assert environments() == ids
    monkeypatch.delenv("PMOSS_MACHINES_PATH")
    with pytest.raises(UnknownNameError, match="unknown machine 'desk'"):
        load_machine("desk")


def test_a_package_adds_machines(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = desk.parent.parent
    info = root / "desks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: desks\nVersion: 1.0\n")
    entries = info / "entry_points.txt"
    entries.write_text("[pmoss.machines]\ndesks = machines_of_desks\n")
    monkeypatch.syspath_prepend(root)
    for ask in (machine_names, lambda: load_machine("toy")):
        with pytest.raises(PluginError, match="'machines_of_desks' is no package"):
            ask()
    package = desk.parent.rename(root / "machines_of_desks")
    (package / "__init__.py").write_text("raise RuntimeError('nothing is executed')\n")
    monkeypatch.syspath_prepend(root)
    assert load_machine("desk").name == "desk"


def test_a_name_has_one_file(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMOSS_MACHINES_PATH", str(desk.parent))
    copy_of(PRESETS / "toy.toml", desk.parent, "toy", "toy").write_text("no machine")
    for ask in (machine_names, lambda: load_machine("toy")):
        with pytest.raises(DescriptionError, match=r"'toy' is both .*presets/toy.toml and"):
            ask()
    # By its path either is had, and other names and the registered ids are as they were.
    assert load_machine(str(PRESETS / "toy.toml")).name == "toy"
    assert load_machine("desk").name == "desk"
    monkeypatch.setenv("PMOSS_WORKLOADS_PATH", str(desk.parent))
    copy_of(WORKLOADS / "lookups.toml", desk.parent, "lookups", "lookups")
    with pytest.raises(DescriptionError, match="'lookups' is both"):
        load_workload("lookups")
    assert environments()


def test_a_missing_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMOSS_WORKLOADS_PATH", "/nowhere")
    with pytest.raises(DescriptionError, match=r"PMOSS_WORKLOADS_PATH names '/nowhere'"):
        load_workload("mine")


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

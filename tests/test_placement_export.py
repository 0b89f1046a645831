"""Exported placements, read by what will read them at an operator's: shell, systemd, kubectl."""

import configparser
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pmoss_env.baselines import SHARED_BASELINES, Context, make_baseline
from pmoss_env.cli.pairs import export_placements
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.description import ranges
from pmoss_env.placement_export import (
    MECHANISMS,
    Unit,
    export_placement,
    placement_name,
    units_of,
)
from pmoss_env.types import Schedule
from tests.cli.invoking import pmoss

#: Of a unit: its name, and the lists of its CPUs and nodes.
Placed = tuple[str, str, str]
SLICES = 32
RULES = ("grouped", "random", *SHARED_BASELINES)


def numbers(text: str) -> list[int]:
    """What the kernel understands by a list of CPUs or nodes."""
    ends = [part.split("-") for part in text.split(",")]
    return [number for part in ends for number in range(int(part[0]), int(part[-1]) + 1)]


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("milan-nps4")


def schedule_of(machine: Machine, rule: str) -> Schedule:
    rng = np.random.default_rng(1)
    return make_baseline(rule, shared=True)(Context(machine, SLICES, rng=rng))


@pytest.mark.parametrize("rule", RULES)
def test_units_hold_every_slice_once_with_the_cpus_that_may_serve_it(machine, rule):
    schedule = schedule_of(machine, rule)
    units = units_of(machine, schedule)
    assert sorted(slice_ for unit in units for slice_ in unit.slices) == [*range(SLICES)]
    assert len({unit.name for unit in units}) == len(units)
    for unit in units:
        for slice_ in unit.slices:
            own = int(machine.cpu_of_core[schedule.cores[slice_]])
            node = machine.node_of_core[schedule.cores[slice_]]
            allowed = {
                "core": {own},
                "node": set(machine.cpu_of_core[machine.workers_of_node[node]].tolist()),
                "any": set(machine.cpu_of_core[machine.workers].tolist()),
            }[schedule.routing]
            assert allowed <= set(unit.cpus)
            if schedule.data == "slice":
                assert unit.nodes == (schedule.nodes[slice_],) and unit.memory == "bind"
    shared = {"os-default": "local", "os-interleave": "interleave"}
    if rule in shared:
        assert [unit.memory for unit in units] == [shared[rule]]
        assert units[0].nodes == (*range(machine.nodes),)


def test_data_on_another_node_than_the_core_are_a_unit_of_their_own(machine: Machine) -> None:
    local = schedule_of(machine, "grouped")
    away = Schedule(local.cores, (local.nodes + 1) % machine.nodes)
    assert [unit.name for unit in units_of(machine, away)][:2] == ["node0-memory1", "node1-memory2"]


@pytest.mark.parametrize("routing", ["core", "node"])
def test_data_that_belong_to_no_slice_lie_where_the_schedule_says(machine, routing) -> None:
    cores = schedule_of(machine, "grouped").cores
    for data, memory in (("interleaved", "interleave"), ("first_touch", "local")):
        units = units_of(machine, Schedule(cores, np.zeros_like(cores), routing, data))
        assert [unit.name for unit in units] == [f"node{n}" for n in range(machine.nodes)]
        everywhere = (*range(machine.nodes),)
        assert {(unit.memory, unit.nodes) for unit in units} == {(memory, everywhere)}


def test_names_are_those_of_kubernetes() -> None:
    assert placement_name("a" * 49 + " b") == "a" * 49 and placement_name("ä") == "placement"


def test_lists_are_those_of_the_kernel() -> None:
    assert ranges([0, 1, 2, 3, 8]) == "0-3,8" and ranges([5]) == "5"
    assert ranges([]) == ""
    assert numbers(ranges([0, 2, 3, 9, 10])) == [0, 2, 3, 9, 10]


def exported(
    mechanism: str, machine: Machine, rule: str, folder: Path
) -> tuple[list[Unit], list[Path]]:
    schedule = schedule_of(machine, rule)
    name = f"My {rule}\n$(rm) 'x'"
    return units_of(machine, schedule), export_placement(mechanism, machine, schedule, folder, name)


def of_numactl(units: list[Unit], files: list[Path], folder: Path) -> Iterator[Placed]:
    """In its place a program that prints its words."""
    (script,) = files
    fake = folder / "bin" / "numactl"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    path = {"PATH": f"{fake.parent}:/usr/bin:/bin"}
    for unit in units:
        words = [str(script), unit.name, "db", "two words"]
        done = subprocess.run(words, env=path, capture_output=True, text=True, check=True)
        cpus, memory, *command = done.stdout.splitlines()
        option, _, nodes = memory.partition("=")
        expected = {"bind": "--membind", "interleave": "--interleave", "local": "--localalloc"}
        assert option == expected[unit.memory] and bool(nodes) == (unit.memory != "local")
        assert command == ["--", "db", "two words"]
        yield unit.name, cpus.removeprefix("--physcpubind="), nodes or ranges(unit.nodes)
    for wrong in ([], [units[0].name], ["node99", "db"]):
        done = subprocess.run(["sh", script, *wrong], env=path, capture_output=True, text=True)
        assert done.returncode == 2 and units[0].name in done.stderr


def of_cgroup(units: list[Unit], files: list[Path], folder: Path) -> Iterator[Placed]:
    (script,) = files
    parent = folder / "with space"  # a folder in place of the kernel's file system
    parent.mkdir()
    (parent / "cgroup.controllers").write_text("cpu cpuset io\n")
    subprocess.run([script, parent], check=True)
    for group in (parent, parent / script.stem):
        assert (group / "cgroup.subtree_control").read_text() == "+cpuset\n"
    for group in (parent / script.stem).iterdir():
        if group.is_dir():
            yield group.name, *((group / f"cpuset.{n}").read_text() for n in ("cpus", "mems"))


@pytest.mark.parametrize("controllers", [None, "", "cpu io cpusets\n"])
def test_where_a_cgroup_places_nothing_the_script_fails(controllers, machine, tmp_path):
    _, (script,) = exported("cgroup", machine, "grouped", tmp_path / "out")
    parent = tmp_path / "cgroup"
    parent.mkdir()
    if controllers is not None:
        (parent / "cgroup.controllers").write_text(controllers)
    before = [*parent.iterdir()]
    done = subprocess.run([script, parent], capture_output=True, text=True)
    assert done.returncode == 1 and "no cgroup of version 2 with cpuset" in done.stderr
    assert [*parent.iterdir()] == before


def of_systemd(units: list[Unit], files: list[Path], folder: Path) -> Iterator[Placed]:
    for unit, file in zip(units, files, strict=True):
        parser = configparser.ConfigParser()
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(file)
        service = dict(parser["Service"])
        assert service["NUMAPolicy"] == unit.memory
        assert ("NUMAMask" in service) == (unit.memory != "local")
        yield unit.name, service["AllowedCPUs"], service["AllowedMemoryNodes"]
    if shutil.which("systemd-analyze") is None:
        return
    (folder / "db.service").write_text("[Service]\nExecStart=/bin/true\n")
    drop_in = folder / "db.service.d" / files[0].name
    drop_in.parent.mkdir()
    drop_in.write_text(files[0].read_text())
    words = ["systemd-analyze", "verify", "--man=no", str(folder / "db.service")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert drop_in.name not in done.stderr, done.stderr


def of_kubernetes(units: list[Unit], files: list[Path], folder: Path) -> Iterator[Placed]:
    (file,) = files
    for unit, pod in zip(units, json.loads(file.read_text())["items"], strict=True):
        (container,) = pod["spec"]["containers"]
        assert container["command"] == [*unit.numactl, "YOUR-COMMAND"]
        assert container["resources"]["requests"]["cpu"] == str(len(unit.cpus))
        assert "limits" not in container["resources"]
        assert pod["metadata"]["name"] == f"{file.stem}-{unit.name}"
        assert len(pod["metadata"]["name"]) <= 63
        cpus, nodes = (word.partition("=")[2] for word in container["command"][1:3])
        yield unit.name, cpus, nodes or ranges(unit.nodes)
    if shutil.which("kubectl") is not None:
        words = ["kubectl", "label", "--local", "-f", str(file), "read=back", "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.count('"read": "back"') == len(units)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("read", [of_numactl, of_cgroup, of_systemd, of_kubernetes])
def test_what_is_exported_holds_the_cpus_and_nodes_of_each_unit(machine, read, rule, tmp_path):
    units, files = exported(read.__name__.removeprefix("of_"), machine, rule, tmp_path / "out")
    assert files[0].name.startswith(f"my-{rule}-rm-x")
    placed = {name: (cpus, nodes) for name, cpus, nodes in read(units, files, tmp_path)}
    assert placed.keys() == {unit.name for unit in units}
    for unit in units:
        assert [*map(numbers, placed[unit.name])] == [[*unit.cpus], [*unit.nodes]]


def test_another_export_of_a_placement_leaves_no_unit_of_the_one_before(machine, tmp_path):
    spread = schedule_of(machine, "random")
    crowded = machine.local_schedule(np.full(SLICES, spread.cores[0]))
    others = [tmp_path / f"mine-{name}.conf" for name in ("own", "too-node1", "folder")]
    others[0].write_bytes(b"[Service]\n\xff")
    others[2].mkdir()
    export_placement("systemd", machine, spread, tmp_path, "mine-too")
    assert len(export_placement("systemd", machine, spread, tmp_path, "mine")) > 1
    (left,) = export_placement("systemd", machine, crowded, tmp_path, "mine")
    assert {*tmp_path.glob("mine-*.conf")} >= {left, *others}
    assert {*tmp_path.glob("mine-node*.conf")} == {left}


def test_what_cannot_be_exported_is_refused_before_a_file_is_written(machine, tmp_path):
    schedule = schedule_of(machine, "grouped")
    with pytest.raises(UnknownNameError, match="mechanism 'slurm'"):
        export_placement("slurm", machine, schedule, tmp_path / "out", "x")
    with pytest.raises(ScheduleError):
        export_placement("numactl", load_machine("toy"), schedule, tmp_path / "out", "x")
    alike = {"my_agent": schedule, "my-agent": schedule}
    with pytest.raises(DescriptionError, match="my_agent and my-agent have the same name in files"):
        export_placements("numactl", machine, alike, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_this_hosts_cpus_and_nodes_are_the_kernels(tmp_path: Path) -> None:
    host = load_machine("host")
    units = units_of(host, schedule_of(host, "random"))
    online = Path("/sys/devices/system/node/online")
    nodes = numbers(online.read_text()) if online.exists() else [0]
    for unit in units:
        assert set(unit.cpus) <= set(host.cpu_of_core.tolist()) and set(unit.nodes) <= set(nodes)
    if shutil.which("taskset"):
        subprocess.run(["taskset", "--cpu-list", ranges(units[0].cpus), "true"], check=True)


@pytest.mark.skipif(shutil.which("numactl") is None, reason="needs numactl")
@pytest.mark.parametrize("rule", ["random", "os-default", "os-interleave"])
def test_numactl_itself_runs_a_command_in_a_unit_of_this_host(rule: str, tmp_path: Path) -> None:
    units, (script,) = exported("numactl", load_machine("host"), rule, tmp_path)
    for unit in units:
        words = ["sh", str(script), unit.name, "cat", "/proc/self/status"]
        status = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert numbers(facts["Cpus_allowed_list"]) == [*unit.cpus]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_commands_export(mechanism: str, tmp_path: Path) -> None:
    task = ["--machine", "toy", "--backend", "analytic"]
    export = ["--export", mechanism, "--export-to", str(tmp_path)]
    text = pmoss("measure", *task, "--slices", "8", "lpt", "os-default", *export)
    assert f"the placement of os-default by {mechanism}" in " ".join(text.split())
    pmoss("explain", "grouped", "spread", "--machine", "toy", "-e", "slices=8", *export)
    pmoss("run", "rollout", "best-fit", *task, "-e", "slices=8", "--episodes", "1", *export)
    stems = {path.name.replace(".", "-").rpartition("-")[0] for path in tmp_path.iterdir()}
    for name in ("lpt", "os-default", "spread", "best-fit"):
        assert any(stem.startswith(name) for stem in stems), (name, stems)

import copy
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError
from pmoss_env.machines import Machine, load_machine, machine_names
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.types import Schedule


@pytest.fixture
def toy() -> dict[str, Any]:
    return copy.deepcopy(tomllib.loads((PRESETS / "toy.toml").read_text()))


def test_skylake_is_the_papers_machine() -> None:
    machine = load_machine("skylake-x-8n")
    assert (machine.sockets, machine.nodes, machine.cores) == (4, 8, 96)
    assert len(machine.workers) == 56  # 7 per node, as in the authors' hw.cfg
    assert machine.roles() == {"other": 24, "router": 8, "sweeper": 8, "worker": 56}
    assert machine.parameter("l2_kib") * 96 == 96 * 1024
    assert machine.parameter("llc_kib") * 8 == 132 * 1024


def test_milan_has_two_workers_on_one_ccd_of_a_node_and_four_on_the_other() -> None:
    machine = load_machine("milan-nps4")
    assert len(machine.workers) == 48
    per_ccd = np.bincount(machine.llc_of_core[machine.workers])
    assert per_ccd.tolist() == [2, 4] * 8


@pytest.mark.parametrize("name", [n for n in machine_names() if n != "host"])
def test_every_preset_loads_and_names_itself(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine.core_of_tile[machine.tile_of_core].tolist() == list(range(machine.cores))
    assert machine.worker_tiles.sum() == len(machine.workers)


def test_unknown_machine_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"'skylake'.*Known: .*skylake-x-8n"):
        load_machine("skylake")
    with pytest.raises(UnknownNameError):
        load_machine("../presets/toy")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("topology", "sockets"), 0, "topology.sockets = 0"),
        (("topology", "cores_per_llc"), 3, "must divide the 8 cores"),
        (("topology", "grid"), [1, 4], "fewer tiles than 8 cores"),
        (("topology", "grid"), "2x4", r"must be \[rows, columns\]"),
        (("roles", "worker"), [0, 9], "core 9 is not in 0 to 3"),
        (("roles", "router"), [1], "core 1 has two roles"),
        (("roles", "boss"), [0], "roles.boss"),
        (("parameters", "clock_ghz", "value"), -1.0, "clock_ghz.value = -1.0: must be positive"),
        (("parameters", "clock_ghz", "value"), float("nan"), "must be a finite number"),
        (("parameters", "clock_ghz", "unit"), "MHz", "must be 'GHz'"),
        (("parameters", "clock_ghz", "confidence"), "sure", "confidence"),
        (("parameters", "clok_ghz"), {}, "parameters.clok_ghz: unknown"),
        (("name",), 7, "name = 7"),
    ],
)
def test_impossible_values_are_refused_by_key(
    toy: dict[str, Any], path: tuple[str, ...], value: object, complaint: str
) -> None:
    table = toy
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    with pytest.raises(DescriptionError, match=complaint):
        Machine.from_dict(toy)


def test_missing_values_are_refused_by_key(toy: dict[str, Any]) -> None:
    del toy["parameters"]["llc_ns"]
    with pytest.raises(DescriptionError, match=r"parameters.llc_ns: is missing"):
        Machine.from_dict(toy)
    del toy["parameters"]
    with pytest.raises(DescriptionError, match=r"\[parameters\]: is missing"):
        Machine.from_dict(toy)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(DescriptionError, match=r"mine.toml: cannot be read"):
        load_machine(str(path))
    path.write_text("name = ")
    with pytest.raises(DescriptionError, match=r"mine.toml: is not valid TOML"):
        load_machine(str(path))
    path.write_text('name = "x"\ndescription = "y"')
    with pytest.raises(DescriptionError, match=r"mine.toml: \[topology\]: is missing"):
        load_machine(str(path))


def test_schedules_are_checked_against_the_machine() -> None:
    machine = load_machine("toy")
    machine.check_schedule(machine.local_schedule([1, 2, 3, 5]), 4)
    with pytest.raises(ScheduleError, match="must place exactly 5"):
        machine.check_schedule(machine.local_schedule([1, 2, 3, 5]), 5)
    with pytest.raises(ScheduleError, match=r"slice 1 is on core 4.*workers are 1-3, 5-7"):
        machine.check_schedule(Schedule([1, 4], [0, 1]), 2)
    with pytest.raises(ScheduleError, match=r"slice 0 is on core -1"):
        machine.check_schedule(Schedule([-1, 1], [0, 0]), 2)
    with pytest.raises(ScheduleError, match=r"slice 1 has its data on node 2"):
        machine.check_schedule(Schedule([1, 1], [0, 2]), 2)
    with pytest.raises(ScheduleError, match="core 8 does not exist"):
        machine.local_schedule([8])


def test_cores_count_only_where_queries_are_routed_by_them() -> None:
    machine = load_machine("toy")
    for routing in ("node", "any"):
        machine.check_schedule(Schedule([-1, 99], [0, 1], routing), 2)
        with pytest.raises(ScheduleError, match="node 2, which does not exist"):
            machine.check_schedule(Schedule([1, 1], [0, 2], routing), 2)
    roles = tuple("worker" if core == 1 else "other" for core in range(machine.cores))
    lopsided = replace(machine, role_of_core=roles)
    lopsided.check_schedule(Schedule([1, 1], [0, 1], "any"), 2)
    with pytest.raises(ScheduleError, match="slice 1 is routed to the workers of node 1"):
        lopsided.check_schedule(Schedule([1, 1], [0, 1], "node"), 2)

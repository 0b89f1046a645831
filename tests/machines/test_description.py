"""Machine files: what they may say of cores and mesh, and machines that a seed draws."""

import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError
from pmoss_env.machines import Machine, load_machine, machine_names, random_machine
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.types import Schedule

MODELLED = [name for name in machine_names() if name != "host"]


@pytest.fixture
def toy() -> dict[str, Any]:
    return tomllib.loads((PRESETS / "toy.toml").read_text())


@pytest.mark.parametrize("name", MODELLED)
def test_every_preset_loads_and_names_itself(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine.core_of_tile[machine.tile_of_core].tolist() == list(range(machine.cores))
    assert machine.worker_tiles.sum() == len(machine.workers)
    for domain in np.unique(machine.domain_of_core):
        inside = machine.domain_of_core == domain
        assert np.unique(machine.node_of_core[inside]).size == 1
        assert np.unique(machine.llc_of_core[inside]).size == 1


def arrays_of(thing: object, depth: int = 4) -> list[np.ndarray]:
    """The arrays that public names lead to."""
    if isinstance(thing, np.ndarray):
        return [thing]
    if isinstance(thing, tuple):
        return [values for part in thing for values in arrays_of(part, depth)]
    if depth == 0 or not type(thing).__module__.startswith("pmoss_env"):
        return []
    arrays = []
    for name in dir(thing):
        if name[0] != "_":
            with suppress(AssertionError):  # properties of a mesh, without one
                arrays += arrays_of(getattr(thing, name), depth - 1)
    return arrays


@pytest.mark.parametrize("name", MODELLED)
def test_policies_cannot_change_the_machine_that_they_share(name: str) -> None:
    arrays = arrays_of(load_machine(name))
    assert len(arrays) > 10
    assert not any(values.flags.writeable for values in arrays if values.size)


def test_unknown_machine_is_named() -> None:
    message = r"'skylake'\. Did you mean 'skylake-x-8n'\? Known: .* and \d+ more"
    with pytest.raises(UnknownNameError, match=message):
        load_machine("skylake")
    with pytest.raises(UnknownNameError):
        load_machine("../presets/toy")


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


def test_a_file_that_was_edited_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (PRESETS / "toy.toml").read_text()
    path.write_text(text)
    before = load_machine(str(path))
    path.write_text(text.replace(before.description, "another machine"))
    assert load_machine(str(path)).description == "another machine" != before.description


def test_schedules_are_checked_against_the_machine() -> None:
    machine = load_machine("toy")
    machine.check_schedule(machine.local_schedule([1, 2, 3, 5]), 4)
    with pytest.raises(ScheduleError, match="must place exactly 5"):
        machine.check_schedule(machine.local_schedule([1, 2, 3, 5]), 5)
    with pytest.raises(ScheduleError, match=r"slice 1 is on core 4.*workers are 1-3,5-7"):
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


@pytest.mark.parametrize(
    ("table", "key", "value", "complaint"),
    [
        ("", "name", 7, "name = 7"),
        ("topology", "sockets", 0, "topology.sockets = 0"),
        ("topology", "grid", [1, 4], "fewer tiles than 8 cores"),
        ("topology", "grid", "2x4", r"must be \[rows, columns\]"),
        ("topology", "cores_per_node", [4, 0], "cores_per_node: node 1 has no cores: list"),
        ("topology", "memory_only", [2], "must list nodes between 0 and 1"),
        ("topology", "memory_only", [0, 1], "leaves no node with cores"),
        ("topology", "cores_per_llc", 3, "must divide the 8 cores"),
        ("topology", "cores_per_llc", 8, "last-level cache 0 spans sockets 0 and 1"),
        ("topology", "socket_of_node", [0, 1], "topology.sockets: cannot be given beside"),
        ("topology", "threads_per_core", 3, "must divide the 4 cores of node 0"),
        ("topology", "physical_of_core", [0, 1, 2, 3, 0, 4, 5, 6], "physical core 0 spans nodes"),
        ("topology", "physical_of_core", [0, 1], "has 2 entries: must be 8"),
        ("topology", "physical_of_core", [0, 9, 1, 2, 3, 4, 5, 6], "without gaps"),
        ("topology", "speed", 1, "topology.speed: unknown"),
        ("roles", "worker", [], "must name at least one core"),
        ("roles", "worker", [0, 9], "core 9 is not in 0 to 3"),
        ("roles", "worker", [[1], [1], [1]], "has 3 lists"),
        ("roles", "router", [1], "core 1 has two roles"),
        ("roles", "boss", [0], "roles.boss"),
        ("parameters", "clok_ghz", {}, "parameters.clok_ghz: unknown"),
        ("clock_ghz", "value", -1.0, "parameters.clock_ghz.value = -1.0: must be positive"),
        ("clock_ghz", "value", float("nan"), "must be a finite number"),
        ("clock_ghz", "value", True, "must be a finite number"),
        ("clock_ghz", "value", [2.0, 3.0], "must be a number"),
        ("clock_ghz", "unit", "MHz", "must be 'GHz'"),
        ("clock_ghz", "confidence", "sure", "confidence"),
        ("clock_ghz", "source", " ", "must say where it is from"),
        ("l2_ways", "value", 7, "l2_ways.value = 7: must divide the 4096 lines"),
        ("l2_ways", "value", 1.5, "must be a whole number"),
        ("l2_kib", "value", 768, "with 16 ways has 768 sets: must be a power of two"),
        ("llc_kib", "value", 2047.5, "llc_ways.value = 16: must divide"),
        ("llc_inclusive", "value", 2, "must be at most 1"),
        ("page_bytes", "value", 5000, "must be a power of two"),
        ("dram_gb_per_s", "value", [46.0], "has 1 entries"),
        ("link_gb_per_s", "value", [[0, 17], [17, 0], [1, 1]], "is 3 x 2: must be 2 x 2"),
        ("link_gb_per_s", "value", [[0, 17], [17]], "is ragged: must be 2 x 2"),
        ("link_gb_per_s", "value", [[0, 0], [17, 0]], "no links lead from socket 0 to socket 1"),
    ],
)
def test_impossible_values_are_refused_by_key(toy, table, key, value, complaint):
    ({"": toy} | toy["parameters"] | toy)[table][key] = value
    with pytest.raises(DescriptionError, match=complaint):
        Machine.from_dict(toy)


def test_a_node_may_be_memory_alone(toy: dict[str, Any]) -> None:
    toy["topology"]["memory_only"] = [1]
    assert Machine.from_dict(toy).cores == 4


def test_a_latency_matrix_must_fit_and_stand_alone(toy: dict[str, Any]) -> None:
    toy["parameters"]["dram_ns"] = {**toy["parameters"]["dram_local_ns"], "value": [[80, 90]]}
    with pytest.raises(DescriptionError, match=r"dram_local_ns: cannot be given beside"):
        Machine.from_dict(toy)
    for name in ("local", "same_socket", "other_socket"):
        del toy["parameters"][f"dram_{name}_ns"]
    with pytest.raises(DescriptionError, match=r"dram_ns.value: is 1 x 2: must be 2 x 2"):
        Machine.from_dict(toy)
    toy["parameters"]["dram_ns"]["value"] = [[80, 0], [90, 80]]
    with pytest.raises(DescriptionError, match=r"dram_ns.value\[0\]\[1\] = 0: must be positive"):
        Machine.from_dict(toy)


def test_the_same_seed_gives_the_same_machine_and_others_differ() -> None:
    first, again = random_machine(7), random_machine(7)
    assert first.parameters == again.parameters
    assert first.node_of_core.tolist() == again.node_of_core.tolist()
    assert len({random_machine(seed).parameter("dram_local_ns") for seed in range(20)}) > 15
    assert {random_machine(seed).sockets for seed in range(40)} == {1, 2, 4}
    assert any(random_machine(seed).distances.hops.max() == 2 for seed in range(40))


@pytest.mark.parametrize("name", ["random:", "random:x", "random:-1", "random-smt:1.5"])
def test_a_seed_that_is_no_whole_number_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match=name):
        load_machine(name)


_HOP = {"value": 2.0, "unit": "ns", "source": "made up for this test", "confidence": "low"}


@pytest.fixture
def meshed() -> dict[str, Any]:
    """The toy, whose domains have four cores each, on meshes of two stops in a row."""
    toy = tomllib.loads((PRESETS / "toy.toml").read_text())
    toy["parameters"]["llc_at_home_cluster"]["value"] = 0.0
    return {**toy, "mesh": {"grid": [1, 2], "cores_per_stop": 2, "hop_ns": _HOP}}


def test_ways_on_a_mesh_are_counted_by_hops(meshed: dict[str, Any]) -> None:
    meshed["mesh"]["grid"] = [1, 4]
    meshed["mesh"]["cores_per_stop"] = 1
    machine = Machine.from_dict(meshed)
    to_line, from_core = machine.mesh_ns
    # Of four stops in a row the outer ones are 1.5 hops from a home in the mean, the inner ones 1.
    assert to_line[:4].tolist() == [1.0, -1.0, -1.0, 1.0]
    # Reader to home, home to owner, owner to reader: 3, 2 and 1 hops between the two.
    near, far = from_core[1, 2], from_core[0, 3]
    assert far - near == 2.0 * ((1.5 + 1.5 + 3) - (1 + 1 + 1))
    assert np.array_equal(from_core, from_core.T)
    assert machine.mesh_ends[0] == (0, 3) and machine.mesh_ends[1] == (1, 2)


def test_a_mesh_without_distance_changes_no_bit(meshed: dict[str, Any]) -> None:
    meshed["mesh"]["hop_ns"] = {**_HOP, "value": 0.0}
    flat = Machine.from_dict(meshed)
    plain = Machine.from_dict({key: value for key, value in meshed.items() if key != "mesh"})
    small = {"queries": 2000, "records": 50_000}
    for fidelity, options in (("analytic", {}), ("simulated", small)):
        schedule = plain.local_schedule(plain.workers[np.arange(8) % 6])
        snapshots = [
            make_backend(
                fidelity, machine=machine, workload="lookups", slices=8, **options
            ).measure(schedule, seed=0)
            for machine in (flat, plain)
        ]
        assert snapshots[0].throughput == snapshots[1].throughput


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("grid", [1, 1], r"has 1 stops: must have at least 2, with 2 cores on each"),
        ("grid", [2], r"must be \[rows, columns\]"),
        ("grid", [0, 2], r"must be \[rows, columns\]"),
        ("cores_per_stop", 0, "mesh.cores_per_stop = 0: must be a whole number above 0"),
        ("hop_ns", {**_HOP, "value": -1.0}, "mesh.hop_ns.value = -1.0: must be at least 0"),
        ("hop_ns", {**_HOP, "value": 99.0}, "mesh.hop_ns: brings parameters"),
        ("hops", 3, "mesh.hops: unknown"),
    ],
)
def test_an_impossible_mesh_is_refused_by_key(meshed, key, value, complaint):
    meshed["mesh"][key] = value
    with pytest.raises(DescriptionError, match=complaint):
        Machine.from_dict(meshed)


def test_a_mesh_needs_all_keys_and_no_home_clusters(meshed: dict[str, Any]) -> None:
    hop = meshed["mesh"].pop("hop_ns")
    with pytest.raises(DescriptionError, match=r"mesh.hop_ns: is missing"):
        Machine.from_dict(meshed)
    meshed["mesh"]["hop_ns"] = hop
    meshed["parameters"]["llc_at_home_cluster"]["value"] = 1.0
    with pytest.raises(DescriptionError, match=r"\[mesh\]: cannot be given"):
        Machine.from_dict(meshed)

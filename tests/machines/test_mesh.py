"""The mesh of a machine file: what it adds to latencies, and what it refuses."""

import tomllib
from typing import Any

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import Machine
from pmoss_env.machines.catalog import PRESETS

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

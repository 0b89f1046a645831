"""The kinds of index, how much memory their slices take, and what interferes with them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pmoss_env
from pmoss_env import _native, indexes
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.context import Context
from pmoss_env.errors import (
    DescriptionError,
    PluginError,
    ScheduleError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.files import read_toml
from pmoss_env.indexes import DEFAULT, holds_points, index_kind, index_names
from pmoss_env.interference import (
    INTERFERENCE,
    check_co_tenants,
    draw_co_tenants,
    possible_targets,
    target_count,
)
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.memory import memory_gib, nearest_nodes, relocated, slice_gib, slices_of_node
from pmoss_env.types import CO_TENANT_FAMILIES, CoTenant, Schedule
from pmoss_env.workloads import load_workload, resized
from tests.native.builds import REPOSITORY


def test_kinds_are_found_by_name() -> None:
    assert index_names() == sorted(index_names())
    assert DEFAULT in index_names()
    with pytest.raises(UnknownNameError, match=r"index 'rtre'.*rtree"):
        index_kind("rtre")


@pytest.mark.parametrize("name", index_names())
def test_a_kind_serves_records_and_profiles_its_usual_workload(name: str) -> None:
    kind = index_kind(name)
    workload = load_workload(kind.usual_workload)
    assert workload.index == kind.name == name
    assert holds_points(name) == (kind.records == "points")
    native = native_workload(resized(workload, 20_000), seed=1)
    runner = _native.Runner(native, name, slices=16, huge_pages=False)
    runner.load()
    assert runner.size == 20_000
    trace = kind.record(native, 16, queries=1_000, line_sampling=1, page_sampling=1)
    assert (trace.size, trace.slices) == (1_000, 16)
    profiler = kind.make_profiler(native, 16, queries=1_000, line_sampling=1, page_sampling=1)
    np.testing.assert_allclose(profiler.profiles(1).share.sum(), 1.0)


def test_the_header_is_the_one_of_the_source() -> None:
    folder = Path(pmoss_env.get_include())
    assert folder.is_absolute()
    source = REPOSITORY / "native" / "include" / "pmoss" / "index.h"
    assert (folder / "pmoss" / "index.h").read_text() == source.read_text()


def test_an_installation_has_it_beside_the_extension(tmp_path, monkeypatch) -> None:
    header = tmp_path / "include" / "pmoss" / "index.h"
    header.parent.mkdir(parents=True)
    header.touch()
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    assert pmoss_env.get_include() == str(tmp_path / "include")


def test_an_installation_without_it_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    monkeypatch.setattr(indexes, "__file__", str(tmp_path / "pmoss_env" / "indexes.py"))
    with pytest.raises(PluginError, match="install pmoss-env again"):
        pmoss_env.get_include()


SKX = load_machine("skylake-x-8n")


def test_memory_is_the_parameter_or_derived_from_channels():
    data = read_toml(PRESETS / "toy.toml", dict)
    derived = load_machine("toy")
    assert set(derived.node_memory_gib) == {derived.memory_channels_per_node * 16.0 or np.inf}
    entry = {"value": [1.0, 2.0], "unit": "GiB", "source": "a test", "confidence": "high"}
    data["parameters"]["node_memory_gib"] = entry
    assert Machine.from_dict(data).node_memory_gib.tolist() == [1.0, 2.0]
    entry["value"] = [1.0]
    with pytest.raises(DescriptionError, match="node_memory_gib"):
        Machine.from_dict(data)


def test_the_constraint_stands_for_the_machines_memory():
    assert memory_gib(SKX, {"node_memory_gib": 2}) == [2.0] * 8
    assert memory_gib(SKX, None) == SKX.node_memory_gib.tolist()
    workload = load_workload("ycsb-a")
    assert slices_of_node(SKX, workload, 256, None) is None
    size = slice_gib(workload, 256)
    room = slices_of_node(SKX, workload, 256, {"node_memory_gib": [3 * size] + [40 * size] * 7})
    assert room.tolist() == [3] + [40] * 7
    with pytest.raises(ScheduleError, match="give at least"):
        slices_of_node(SKX, workload, 256, {"node_memory_gib": 31 * size})


def test_large_values_take_memory():
    words = load_workload("lookups")
    of_word = slice_gib(words, 16)
    kilobytes = replace(words, value_bytes=1024)
    values = words.records * 1024 / 2**30 / 16
    assert slice_gib(kilobytes, 16) - of_word == pytest.approx(values, rel=0.1)
    with pytest.raises(ScheduleError, match="give at least"):
        slices_of_node(SKX, kilobytes, 16, {"node_memory_gib": 2 * of_word})


def test_the_nearest_node_is_ones_own_then_that_of_the_socket():
    near = nearest_nodes(SKX)
    assert near[:, 0].tolist() == list(range(8))
    assert near[:, 1].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_slices_move_where_their_data_must_be_local():
    cores = SKX.workers[np.zeros(4, dtype=np.int64)]
    room = np.array([1, 0, 0, 2, 0, 0, 0, 1], dtype=np.int32)
    load = np.array([1.0, 4.0, 2.0, 3.0])
    schedule = relocated(SKX, cores, room, load)
    assert schedule.cores[1] == cores[1], "the heaviest one stays"
    assert np.array_equal(schedule.nodes, SKX.node_of_core[schedule.cores])
    assert np.bincount(schedule.nodes, minlength=8).tolist() == room.tolist()
    with pytest.raises(ScheduleError, match="actions='core_node'"):
        relocated(SKX, cores, np.array([1, 0, 0, 2, 0, 0, 0, 0], np.int32), load)


def test_a_context_knows_what_an_episode_allows():
    cores = SKX.workers[:8]
    room = np.array([3, 5, 0, 0, 0, 0, 0, 0], dtype=np.int32)
    free = Context(SKX, 8, slices_of_node=room, chooses_node=True)
    local = Context(SKX, 8, slices_of_node=room)
    assert free.allows(free.local_schedule(cores)) and local.allows(local.local_schedule(cores))
    assert not local.allows(free.local_schedule(cores))
    assert not free.allows(SKX.local_schedule(cores))
    few = Context(SKX, 8, max_slices_per_core=1)
    assert not few.allows(Schedule(cores[[0] * 8], SKX.node_of_core[cores[[0] * 8]]))


MACHINES = ("toy", "milan-nps4", "skylake-x-8n", "sandy-bridge")
SINGLE = [name for name in INTERFERENCE if name in CO_TENANT_FAMILIES]


def drawn(interference, machine, seed):
    return draw_co_tenants(interference, machine, np.random.default_rng(seed))


@pytest.mark.parametrize("family", SINGLE)
@pytest.mark.parametrize("machine", MACHINES)
def test_co_tenants_have_distinct_targets_within_the_stated_ranges(machine, family):
    machine = load_machine(machine)
    (draw,) = INTERFERENCE[family].draws
    targets = possible_targets(family, machine)
    counts, strengths = set(), []
    for seed in range(300):
        co_tenants = drawn(family, machine, seed)
        hit = [co_tenant.target for co_tenant in co_tenants]
        assert len(set(hit)) == len(hit) and set(hit) <= set(targets.tolist())
        assert {co_tenant.family for co_tenant in co_tenants} == {family}
        check_co_tenants(co_tenants, machine, {family}, "any")
        counts.add(len(hit))
        strengths += [co_tenant.strength for co_tenant in co_tenants]
    assert counts == set(range(1, max(1, targets.size // draw.one_in) + 1))
    low, high = draw.strength
    margin = (high - low) / 8
    assert low <= min(strengths) < low + margin
    assert high - margin < max(strengths) < high


def test_a_machine_without_links_has_no_stream_on_one():
    toy = load_machine("toy")
    single = replace(toy, socket_of_node=np.zeros_like(toy.socket_of_node))
    with pytest.raises(UnsupportedError, match="'link_stream': toy has no link"):
        drawn("link_stream", single, 0)
    for seed in range(20):
        for name in ("mixed", "all"):
            assert "link_stream" not in {n.family for n in drawn(name, single, seed)}


def test_families_are_described_and_unknown_ones_refused():
    assert all(name == f.name and f.description for name, f in INTERFERENCE.items())
    with pytest.raises(UnknownNameError, match="Did you mean 'busy_core'"):
        drawn("busy_cores", load_machine("toy"), 0)
    with pytest.raises(UnknownNameError, match="co-tenant family 'noise'"):
        CoTenant("noise", 0, 0.5)
    for strength in (1.0, -0.1, float("nan")):
        with pytest.raises(DescriptionError, match="strength = "):
            CoTenant("busy_core", 1, strength)


def test_what_a_backend_or_machine_lacks_is_refused_by_name():
    toy = load_machine("toy")
    with pytest.raises(UnsupportedError, match="'memory_stream': the backend 'x' runs only busy_c"):
        check_co_tenants([CoTenant("memory_stream", 0, 0.5)], toy, ("busy_core",), "x")
    for family in CO_TENANT_FAMILIES:
        for target in (-1, target_count(family, toy)):
            with pytest.raises(DescriptionError, match=f"{family!r} on .* {target}: must lie"):
                check_co_tenants([CoTenant(family, target, 0.5)], toy, CO_TENANT_FAMILIES, "x")

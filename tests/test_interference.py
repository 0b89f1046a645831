from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.interference import (
    INTERFERENCE,
    check_co_tenants,
    draw_co_tenants,
    possible_targets,
    target_count,
)
from pmoss_env.machines import load_machine
from pmoss_env.types import CO_TENANT_FAMILIES, CoTenant

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
        assert len(set(hit)) == len(hit)
        assert set(hit) <= set(targets.tolist())
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
    assert all(name == f.name and f.takes for name, f in CO_TENANT_FAMILIES.items())
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

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_datasets.policies import SchedulePolicy
from pmoss_env.baselines import (
    BASELINES,
    NOTHING,
    SEARCHES,
    SHARED_BASELINES,
    STATIC_BASELINES,
    Context,
    baseline_names,
    has_budget,
    information_of,
    local_search,
    make_baseline,
    needs_backend,
)
from pmoss_env.errors import DescriptionError, PluginError, UnknownNameError, UnsupportedError
from pmoss_env.machines import load_machine

MACHINES = ("toy", "milan-nps4", "skylake-x-8n")
machines = st.sampled_from(MACHINES).map(load_machine)
slice_counts = st.integers(1, 300)
seeds = st.integers(0, 2**32)


@given(
    st.sampled_from(sorted(set(BASELINES) - {"exact"})),
    st.sampled_from(MACHINES),
    st.integers(1, 80),
    seeds,
)
@settings(deadline=None, max_examples=60)
def test_every_baseline_gives_a_legal_schedule(a_context, name, machine, slices, seed):
    context = a_context(machine, slices, seed)
    schedule = make_baseline(name)(context)
    context.machine.check_schedule(schedule, slices)
    assert np.array_equal(schedule.nodes, context.machine.node_of_core[schedule.cores])


@given(machines, slice_counts, seeds)
@settings(deadline=None)
def test_static_baselines_need_no_measurement_and_repeat(machine, slices, seed):
    for name in STATIC_BASELINES:
        first, second = (
            make_baseline(name)(Context(machine, slices, rng=np.random.default_rng(seed)))
            for _ in range(2)
        )
        assert first == second
        machine.check_schedule(first, slices)


@pytest.mark.parametrize(
    "name",
    [
        "random",
        "lpt",
        "greedy",
        "greedy-capacity",
        "best-fit",
        "two-level",
        "counter-threshold",
        *SEARCHES,
    ],
)
@pytest.mark.parametrize("limit", [2, 3])
def test_baselines_obey_the_constraint(a_context, name, limit):
    for seed in range(5):
        context = a_context(slices=12, seed=seed, max_slices_per_core=limit)
        counts = np.bincount(make_baseline(name)(context).cores)
        assert counts.max() <= limit
        assert counts.sum() == 12


def test_what_is_missing_is_named(a_context):
    bare = Context(load_machine("toy"), 8)
    for name, words in (("lpt", "snapshot"), ("incumbent", "incumbent"), ("local-search", "move")):
        with pytest.raises(UnsupportedError, match=words):
            make_baseline(name)(bare)
    with pytest.raises(UnknownNameError, match="Did you mean 'grouped'"):
        make_baseline("group")
    with pytest.raises(UnsupportedError, match="no budget"):
        make_baseline("lpt", budget=5)
    with pytest.raises(DescriptionError, match="budget = 0"):
        local_search(a_context(), 0)
    backend = a_context().backend
    assert make_baseline("local-search", budget=7)(replace(a_context(), backend=backend))
    assert backend.calls <= 7


def test_every_baseline_declares_what_it_uses():
    for name, baseline in {**BASELINES, **SHARED_BASELINES}.items():
        assert baseline.information and needs_backend(baseline) == (
            "the model" in baseline.information
        ), name
        assert has_budget(name) == (name in SEARCHES)
    assert {n for n in BASELINES if information_of(n) == NOTHING} == {
        *STATIC_BASELINES,
        "incumbent",
    }


OUTSIDE = """
from pmoss_env.baselines import MODEL, grouped, uses

def plain(context):
    return grouped(context)

@uses(MODEL, needs_backend=True)
def deep(context, budget=3):
    return grouped(context)
"""


def test_baselines_of_other_packages_play_as_ours(a_context, tmp_path, monkeypatch):
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    entries = {"plain": "plain", "deep": "deep", "broken": "nothing"}
    lines = [f"{name} = outside_baselines:{function}" for name, function in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pmoss.baselines]", *lines]) + "\n")
    (tmp_path / "outside_baselines.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    assert baseline_names() == [*BASELINES, "broken", "deep", "plain"]
    assert make_baseline("plain")(a_context()) == make_baseline("grouped")(a_context())
    assert information_of("plain") == "the incumbent's counters"
    deep = make_baseline("deep", budget=9)
    assert deep.keywords == {"budget": 9} and SchedulePolicy(deep).searches
    with pytest.raises(UnsupportedError, match="no budget"):
        make_baseline("plain", budget=9)
    with pytest.raises(PluginError, match=r"'broken' of 'pmoss\.baselines'"):
        make_baseline("broken")

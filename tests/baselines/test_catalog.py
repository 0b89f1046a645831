import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.baselines import (
    BASELINES,
    NOTHING,
    SEARCHES,
    SHARED_BASELINES,
    STATIC_BASELINES,
    Context,
    has_budget,
    information_of,
    local_search,
    make_baseline,
    needs_backend,
)
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.machines import load_machine

MACHINES = ("toy", "milan-nps4", "skylake-x-8n")
seeds = st.integers(0, 2**32)


@given(
    st.sampled_from(sorted(set(BASELINES) - {"exact"})),
    st.sampled_from(MACHINES),
    st.integers(1, 80),
    seeds,
)
@settings(max_examples=60)
def test_every_baseline_gives_a_legal_schedule(a_context, name, machine, slices, seed):
    context = a_context(machine, slices, seed)
    schedule = make_baseline(name)(context)
    context.machine.check_schedule(schedule, slices)
    assert np.array_equal(schedule.nodes, context.machine.node_of_core[schedule.cores])


#: Of the cores that each baseline chooses: stored rows replay only as long as these stay.
DIGESTS = {
    "grouped": "689514dc62",
    "spread": "c0c8ff8cc5",
    "mixed": "d3e2455462",
    "random": "4b4fbb5d73",
    "incumbent": "ab82c507f7",
    "lpt": "7ea3428127",
    "lpt-capacity": "99da21b611",
    "greedy": "0db6e43cbd",
    "greedy-capacity": "1b3dd93b4b",
    "best-fit": "0c9cab221f",
    "two-level": "8c8d5a84c2",
    "counter-threshold": "55b4ce79f3",
    "local-search": "090a6bd7f4",
    "annealing": "a9652f2187",
    "greedy-marginal": "d1065723c7",
    "exact": "6de1895e13",
}
WORLDS: tuple[dict, ...] = (
    {"machine": "toy", "slices": 7},
    {"machine": "milan-nps4", "slices": 40, "interference": "cache_thrash", "seed": 3},
    {"machine": "skylake-x-8n", "slices": 96, "interference": "memory_stream", "seed": 4},
    {"machine": "toy", "slices": 12, "seed": 5, "max_slices_per_core": 3},
)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_keeps_its_schedules(a_context, name):
    digest = hashlib.sha256()
    budget = 300 if has_budget(name) else None
    for world in WORLDS[:1] if name == "exact" else WORLDS:
        schedule = make_baseline(name, budget=budget)(a_context(**world))
        for placed in (schedule.cores, schedule.nodes):
            digest.update(placed.astype(np.int32).tobytes())
    digest = digest.hexdigest()[:10]
    assert name in DIGESTS, f"new baseline: add {name!r}: {digest!r}"
    assert digest == DIGESTS[name]


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
        assert counts.max() <= limit and counts.sum() == 12


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
    unmeasured = {name for name in BASELINES if information_of(name) == NOTHING}
    assert unmeasured >= {*STATIC_BASELINES, "incumbent"}
    context = Context(load_machine("toy"), 8)
    bare = replace(context, incumbent=make_baseline("grouped")(context))
    for name in BASELINES:
        if name in unmeasured:
            assert context.allows(make_baseline(name)(bare)), name
        else:
            with pytest.raises(UnsupportedError):
                make_baseline(name)(bare)

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmoss_env.baselines import BASELINES, SHARED_BASELINES, Context, in_runs, make_baseline
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import load_machine

machines = st.sampled_from(("toy", "milan-nps4", "skylake-x-8n")).map(load_machine)
slice_counts = st.integers(1, 300)


def test_mixed_is_the_papers_for_its_256_slices_and_between_the_others():
    machine = load_machine("skylake-x-8n")
    context = Context(machine, 256)
    mixed = make_baseline("mixed")(context)
    assert mixed == in_runs(context, 16)
    lengths = [len(list(run)) for _, run in itertools.groupby(mixed.nodes)]
    assert lengths == [16] * 16
    assert list(mixed.nodes[::16]) == list(range(8)) * 2
    # 56 workers, 256 slices: 4 or 5 slices per core, as in the published files.
    assert set(np.bincount(mixed.cores)[machine.workers]) == {4, 5}
    changes = [
        np.count_nonzero(np.diff(make_baseline(name)(context).nodes))
        for name in ("grouped", "mixed", "spread")
    ]
    assert changes == [7, 15, 255]
    with pytest.raises(DescriptionError, match="run = 0"):
        in_runs(context, 0)


@given(machines, slice_counts)
def test_shared_schedules_route_and_lay_out_as_in_the_paper(machine, slices):
    context = Context(machine, slices)
    shared = {name: make_baseline(name, shared=True)(context) for name in SHARED_BASELINES}
    assert {name: (s.routing, s.data) for name, s in shared.items()} == {
        "os-default": ("any", "first_touch"),
        "os-interleave": ("any", "interleaved"),
        "shared-everything": ("any", "slice"),
        "shared-nothing-node": ("node", "slice"),
    }
    assert not shared["os-default"].nodes.any()
    grouped = make_baseline("grouped")(context)
    for name in ("shared-everything", "shared-nothing-node"):
        assert np.array_equal(shared[name].nodes, grouped.nodes)
    for schedule in shared.values():
        machine.check_schedule(schedule, slices)


def test_shared_schedules_are_measured_and_never_placed():
    assert not set(SHARED_BASELINES) & set(BASELINES)
    for name in SHARED_BASELINES:
        with pytest.raises(UnsupportedError, match=f"'{name}' lets workers share slices"):
            make_baseline(name)

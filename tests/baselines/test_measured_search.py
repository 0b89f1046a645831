from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.baselines import Measurements, answer_after, lpt, measured_search
from pmoss_env.errors import UnsupportedError


def searched(a_context, budget, noise=0.0, machine="toy", slices=16, **more):
    context = a_context(machine, slices, seed=4, **more)
    asked = Measurements(context.backend, budget, noise=noise, seed=(7, 3))
    context = replace(context, measurements=asked, rng=np.random.default_rng(1))
    start = lpt(context)
    return measured_search(context, start), asked, start, context


def test_a_smaller_budget_gives_the_same_answers_so_far(a_context):
    long, *_ = searched(a_context, 200)
    for budget in (0, 1, 3, 10, 77):
        short, asked, start, _ = searched(a_context, budget)
        assert asked.used == budget
        assert short == [answer for answer in long if answer.used <= budget]
    assert answer_after(long, 0) == start


def test_every_evaluation_is_another_schedule_and_tiny_instances_end(a_context):
    asked = searched(a_context, 10_000, slices=3)[1]
    workers = asked._backend.machine.workers.size
    assert asked.used <= workers**3 < 10_000


def test_what_lacks_is_named(a_context):
    context = a_context()
    with pytest.raises(UnsupportedError, match="needs measurements"):
        measured_search(context, lpt(context))

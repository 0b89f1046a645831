"""Searches and rules where data need not lie on the nodes of their cores."""

import hashlib

import numpy as np
import pytest

from pmoss_env.backends import make_backend
from pmoss_env.baselines import (
    BASELINES,
    Context,
    branch_and_bound,
    grouped,
    local_search,
    make_baseline,
)
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import CoTenant, Instance

SLICES = 128
ROOM = np.array([4, 4, 20, 20, 20, 20, 20, 20], dtype=np.int32)


@pytest.fixture(scope="module")
def backend():
    backend = make_backend("analytic", machine="skylake-x-8n", workload="ycsb-a", slices=SLICES)
    streams = [CoTenant("memory_stream", node, 0.95) for node in (0, 2, 4, 6)]
    backend.set_instance(Instance(3, tuple(streams)))
    return backend


def context_of(backend, **more):
    incumbent = grouped(Context(backend.machine, SLICES))
    snapshot = backend.measure(incumbent, seed=0)
    rng = np.random.default_rng(0)
    return Context(backend.machine, SLICES, incumbent, snapshot, rng, backend, **more)


def test_data_leave_a_node_without_bandwidth(backend):
    at_home = local_search(context_of(backend), 1000)
    free = local_search(context_of(backend, chooses_node=True), 1000)
    assert free.throughput > 1.05 * at_home.throughput
    assert free.throughput == backend.place(free.schedule)
    home = backend.machine.node_of_core[free.schedule.cores]
    assert set(home[home != free.schedule.nodes]) & {0, 2, 4, 6}
    assert free.evaluations <= 1000


#: Of what each baseline places where nodes have little room: on its cores' nodes, and anywhere.
DIGESTS = {
    "annealing": ("ce24ae9cd5", "b6ab769c7c"),
    "best-fit": ("f4deb06d3f", "c4d47543de"),
    "counter-threshold": ("39b63be3cb", "59f45fa75e"),
    "greedy": ("4f212526a1", "237f3cb242"),
    "greedy-capacity": ("4f212526a1", "237f3cb242"),
    "greedy-marginal": ("20c61f2a4a", "ab0c4b16c2"),
    "grouped": ("39b63be3cb", "59f45fa75e"),
    "local-search": ("55f910b00e", "1164bc2a5f"),
    "lpt": ("5e1d9fd0f8", "e9db181aad"),
    "lpt-capacity": ("5e1d9fd0f8", "e9db181aad"),
    "mixed": ("3f8730cbb5", "031cea86b3"),
    "random": ("6585d41023", "6439039b91"),
    "spread": ("b3aaa181e2", "a28002bfa5"),
    "two-level": ("97d60e8662", "649606b152"),
}


@pytest.mark.parametrize("chooses_node", [False, True])
@pytest.mark.parametrize("name", sorted(set(BASELINES) - {"exact", "incumbent"}))
def test_every_rule_keeps_within_the_memory(backend, name, chooses_node):
    context = context_of(backend, slices_of_node=ROOM, chooses_node=chooses_node)
    schedule = make_baseline(name)(context)
    assert context.allows(schedule)
    placed = np.concatenate([schedule.cores, schedule.nodes]).astype(np.int32)
    digest = hashlib.sha256(placed.tobytes()).hexdigest()[:10]
    where = "with" if chooses_node else "without"
    assert name in DIGESTS, f"new baseline: add {name!r}: {digest!r}, {where} chooses_node"
    assert digest == DIGESTS[name][chooses_node]


def test_the_exact_search_says_that_it_cannot(backend):
    with pytest.raises(UnsupportedError, match="places data on their cores' nodes"):
        branch_and_bound(context_of(backend, chooses_node=True))

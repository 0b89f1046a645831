"""The simulated server as Python sees it; native/tests/simulator has the proofs."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pmoss_env._native import SimulatedServer, WorkloadSpec
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.indexes import DEFAULT, index_kind
from pmoss_env.machines import load_machine

SLICES = 16
TRACE = index_kind(DEFAULT).record(
    WorkloadSpec(records=50_000), SLICES, queries=20_000, line_sampling=1
)
TOY = load_machine("toy")
WORKERS = np.flatnonzero(np.asarray(native_machine(TOY).is_worker)).astype(np.int32)
NODES = np.asarray(native_machine(TOY).node_of_core, dtype=np.int32)


def server(**options: Any) -> SimulatedServer:
    made = SimulatedServer(native_machine(TOY), **options)
    made.set_instance(TRACE)
    return made


def test_a_run_gives_the_same_snapshot_from_every_thread() -> None:
    made = server()
    cores = WORKERS[np.arange(SLICES) % WORKERS.size]
    nodes = NODES[cores]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: made.run(cores, nodes, seed=3), range(4)))
    first = runs[0]
    assert first["throughput"] > 0
    assert first["counters"]["queries"].sum() == pytest.approx(first["throughput"])
    for other in runs[1:]:
        assert other["throughput"] == first["throughput"]
        np.testing.assert_array_equal(other["counters"]["cycles"], first["counters"]["cycles"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"routing": "near"}, "routing is 'near'"),
        ({"data": "near"}, "data is 'near'"),
        ({"nodes": np.zeros(3, dtype=np.int32)}, "length of nodes = 3"),
        ({"cores": np.full(SLICES, 999, dtype=np.int32)}, "core of a slice = 999"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    zeros = np.zeros(SLICES, dtype=np.int32)
    arguments = {"cores": zeros + WORKERS[0], "nodes": zeros, **change}
    with pytest.raises(ValueError, match=message):
        server().run(**arguments)
    with pytest.raises(ValueError, match="dispatch 'fast'"):
        server(dispatch="fast")

import numpy as np
import pytest

from pmoss_env.backends import Backend, make_backend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.interference import draw_co_tenants
from pmoss_env.machines import load_machine
from pmoss_env.types import Instance


def make_context(
    machine="toy", slices=12, seed=0, load="closed", interference="busy_core", **constraints
):
    """A context with an incumbent, its snapshot and a counting backend."""
    machine = load_machine(machine)
    backend = make_backend("analytic", machine=machine, workload="ycsb-a", slices=slices, load=load)
    rng = np.random.default_rng(seed)
    backend.set_instance(Instance(seed, draw_co_tenants(interference, machine, rng)))
    incumbent = make_baseline("random")(Context(machine, slices, rng=rng))
    snapshot = backend.measure(incumbent, seed=0)
    return Context(machine, slices, incumbent, snapshot, rng, Counting(backend), **constraints)


class Counting:
    """Counts what a search asks of a backend."""

    def __init__(self, backend):
        self._backend = backend
        self.calls = 0
        for name in Backend.__annotations__:
            setattr(self, name, getattr(backend, name))

    def _counted(self, method, *args, **kwargs):
        self.calls += 1
        return getattr(self._backend, method)(*args, **kwargs)

    def set_instance(self, instance):
        self._backend.set_instance(instance)

    def measure(self, schedule, *, seed):
        return self._counted("measure", schedule, seed=seed)

    def place(self, schedule):
        return self._counted("place", schedule)

    def move(self, slice_, core):
        return self._counted("move", slice_, core)

    def marginal(self, slice_):
        return self._counted("marginal", slice_)

    def close(self):
        self._backend.close()


@pytest.fixture(scope="session")
def a_context():
    """Gives make_context()."""
    return make_context

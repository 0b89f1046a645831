import pytest

from pmoss_env.backends import make_backend


class MeasuringBackend:
    """The analytic backend with nothing but measure(): what a real machine can do."""

    method = "By measuring"
    repeatable = True
    measures_host = False
    step_cost = 1.0
    incremental = False

    def __init__(self, **arguments):
        self._model = make_backend(**arguments)
        self.name = "measuring"
        self.machine = self._model.machine
        self.workload = self._model.workload
        self.slices = self._model.slices
        self.load = self._model.load
        self.co_tenant_families = self._model.co_tenant_families
        self.measured = []
        self.closed = 0

    def set_instance(self, instance):
        self._model.set_instance(instance)

    def measure(self, schedule, *, seed):
        self.measured.append(schedule)
        return self._model.measure(schedule, seed=seed)

    def close(self):
        self.closed += 1


@pytest.fixture
def measuring(monkeypatch):
    """Makes environments on a backend that cannot be asked after every move."""
    monkeypatch.setattr(
        "pmoss_env.envs.spatial.session.make_backend", lambda **kwargs: MeasuringBackend(**kwargs)
    )

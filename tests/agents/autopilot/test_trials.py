"""Rounds that count: those whose queries were drawn under the schedule that is tried."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from pmoss_agents.autopilot.trials import TriedIndex
from pmoss_env.envs.continual.live_index import LiveIndex

OLD, NEW = np.zeros(4, dtype=np.int32), np.array([1, 0, 0, 0], dtype=np.int32)


class Scripted(TriedIndex):
    """Has no threads: its rounds are as given, and serve `rates` under either schedule."""

    def __init__(self, seconds, waits=None, rates=(1.0, 1.0)):
        machine = SimpleNamespace(local_schedule=lambda cores: SimpleNamespace(cores=cores))
        backend = SimpleNamespace(machine=machine, slices=4)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HostCoTenants", "live_runtime"):
                patch.setattr(f"pmoss_env.envs.continual.live_index.{name}", lambda *_, **__: None)
            super().__init__(backend, seconds)
        self.round_seconds = seconds / self.rounds
        self.waits = itertools.repeat(0.0) if waits is None else iter(waits)
        self.rates, self.changes, self.now = rates, 0, OLD
        self.served, self.cores, self.nodes = OLD.copy(), NEW.copy(), OLD.copy()

    def serve(self, schedule):
        self.changes += 1
        self.now = None if schedule is None else schedule.cores

    def scripted(self):
        waited = next(self.waits) * self.round_seconds * 1e6
        rate = 0.0 if self.now is None else self.rates[int(self.now[0])]
        return SimpleNamespace(snapshot=SimpleNamespace(latency_p99_us=waited, throughput=rate))

    def epoch(self):
        """What an epoch asks of it: the rounds that have passed, and those like its rest."""
        self.last = None
        if self._open is not None:
            self.cores = self._open.after.copy()
        return self.change()


@pytest.fixture(autouse=True)
def rounds(monkeypatch):
    monkeypatch.setattr(LiveIndex, "next_round", lambda index: index.scripted())


@pytest.mark.parametrize("waited", [0.0, 9.0])
@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.6, 0.625, 1.0, 2.0, 10.0])
def test_an_epoch_has_rounds_left_after_a_trial(seconds, waited):
    index = Scripted(seconds, itertools.repeat(waited), rates=(1.0, 1.001))
    index.next_round()
    epochs = 0
    while index.last is None:
        passed, alike = index.epoch()
        epochs += 1
        assert 0 < len(passed) < index.rounds and len(alike) <= len(passed)
        assert index.trying == (index.last is None)
        assert (index.served == (NEW if not index.trying else OLD)).all()
    assert index.last.kept and len(index.last.gains) == 8 and not index.trying
    assert (epochs == 1) == (seconds >= (1.0 if waited else 0.6))


def test_a_trial_is_given_up_once_the_world_is_another():
    index = Scripted(0.4, itertools.repeat(9.0), rates=(1.0, 1.001))
    index.next_round()
    index._rate = 1.0
    index.epoch()
    assert index.trying
    index.rates = (0.7, 0.701)
    index.epoch()
    assert not index.trying and index.last is None
    assert (index.cores == OLD).all() and (index.now == OLD).all()

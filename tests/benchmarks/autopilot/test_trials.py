"""Rounds that count: those whose queries were drawn under the schedule that is tried."""

from types import SimpleNamespace

import numpy as np
import pytest

from pmoss_benchmarks.autopilot.decision import LEAST_PAIRS, LOOKS
from pmoss_benchmarks.autopilot.trials import TriedIndex, pairs_within
from pmoss_env.envs.continual.live_index import LiveIndex


class Told(TriedIndex):
    """Has no threads: its rounds tell response times that are given."""

    def __init__(self, seconds, waits):
        backend = SimpleNamespace(machine=None, slices=4)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("RealCoTenants", "LiveRuntime"):
                patch.setattr(f"pmoss_env.envs.continual.live_index.{name}", lambda *_, **__: None)
            super().__init__(backend, seconds)
        self.round_seconds = seconds / self.rounds
        self.waits, self.changes = iter(waits), 0

    def serve(self, schedule):
        self.changes += 1

    def told(self):
        waited = next(self.waits) * self.round_seconds * 1e6
        return SimpleNamespace(snapshot=SimpleNamespace(latency_p99_us=waited))


@pytest.fixture(autouse=True)
def rounds(monkeypatch):
    monkeypatch.setattr(LiveIndex, "next_round", lambda index: index.told())


@pytest.mark.parametrize(
    ("waits", "counts"),
    [
        ([0.01, 0.02], 1),  # as good as none
        ([0.8, 0.8, 0.8], 2),
        ([0.01, 0.5, 0.5], 2),  # told only under the new schedule
        ([np.nan, 0.01], 1),  # nothing known
        ([9.0, 9.0, 9.0], 2),  # the epoch has no time for more
    ],
)
def test_a_round_counts_once_what_waited_is_answered(waits, counts):
    index = Told(0.7, waits)
    index.next_round()
    assert len(index.rounds_under(None)) == counts and index.changes == 1


def test_a_short_epoch_counts_every_round():
    index = Told(0.08, [9.0, 9.0])
    assert index.rounds == 2 * LEAST_PAIRS + 4
    index.next_round()
    assert len(index.rounds_under(None)) == 1


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.6, 0.625, 1.0, 2.0, 10.0])
def test_a_trial_never_outlasts_its_epoch(seconds):
    most = pairs_within(seconds)
    assert most in LOOKS
    index = Told(seconds, [9.0] * 1000)
    index.next_round()
    of_pair = 2 * len(index.rounds_under(None))
    assert most * of_pair <= index.rounds - 4

"""Trials of the loop: rounds that count, verdicts, and rests after what was reverted."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from pmoss_agents.autopilot.backoff import Backoff
from pmoss_agents.autopilot.decision import (
    LOOKS,
    MOST_PAIRS,
    judge,
    signed_rank,
    smallest_gain,
)
from pmoss_agents.autopilot.trials import TriedIndex
from pmoss_env.envs.continual.live_index import LiveIndex

OLD, NEW = np.zeros(4, dtype=np.int32), np.array([1, 0, 0, 0], dtype=np.int32)


class Scripted(TriedIndex):
    """Has no threads: its rounds are as given, and serve `rates` under either schedule."""

    def __init__(self, seconds, waits=None, rates=(1.0, 1.0), behind=0):
        machine = SimpleNamespace(local_schedule=lambda cores: SimpleNamespace(cores=cores))
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HostCoTenants", "live_runtime"):
                patch.setattr(f"pmoss_env.envs.continual.live_index.{name}", lambda *_, **__: None)
            super().__init__(SimpleNamespace(machine=machine, slices=4), seconds)
        self.round_seconds = seconds / self.rounds
        self.waits = itertools.repeat(0.0) if waits is None else iter(waits)
        self.rates, self.now, self.behind, self.schedules = rates, OLD, behind, [OLD]
        self.served, self.cores, self.nodes = OLD.copy(), NEW.copy(), OLD.copy()
        self.unread = 0

    def serve(self, schedule):
        self._switches += 1
        self.now = None if schedule is None else schedule.cores
        self.schedules.append(self.now)
        self.unread = self.behind

    def scripted(self):
        waited = next(self.waits) * self.round_seconds * 1e6
        # Rounds that had ended before the change are read first.
        late, self.unread = self.unread > 0, max(self.unread - 1, 0)
        now = self.schedules[-2] if late else self.now
        rate = 0.0 if now is None else self.rates[int(now[0])]
        snapshot = SimpleNamespace(latency_p99_us=waited, throughput=rate)
        return SimpleNamespace(snapshot=snapshot, switches=self._switches - late)

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


@pytest.mark.parametrize("behind", [0, 1, 2])
@pytest.mark.parametrize("rate", [1.1, 0.9])
def test_no_round_of_the_schedule_before_counts(behind, rate):
    index = Scripted(2.0, rates=(1.0, rate), behind=behind)
    index.next_round()
    index.epoch()
    assert set(index.last.before) == {1.0} and set(index.last.after) == {rate}
    assert index.last.kept == (rate > 1.0)


def test_a_trial_without_a_pair_ends_with_its_epoch():
    index = Scripted(0.05, behind=3)
    index.next_round()
    passed, _ = index.epoch()
    assert len(passed) < index.rounds
    assert not index.trying and index.last is None and (index.cores == OLD).all()


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


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 5), (1, 1, 2, 2, 3), (4, 4, 4, 4, 4)])
def test_chances_are_those_of_all_signs(sizes):
    sums = {}
    for signs in itertools.product((-1, 1), repeat=len(sizes)):
        sums[signs] = signed_rank([sign * size for sign, size in zip(signs, sizes, strict=True)])
    for rank_sum, chance in sums.values():
        as_large = sum(other >= rank_sum for other, _ in sums.values())
        assert chance == pytest.approx(as_large / len(sums))


def test_pairs_that_are_equal_say_nothing():
    assert signed_rank([]) == (0.0, 1.0) == signed_rank([0.0, 0.0])
    assert signed_rank([0.0, 2.0, 1.0]) == signed_rank([2.0, 1.0])


def test_what_always_serves_more_is_kept_and_what_serves_less_is_not():
    better = [0.1 + 0.01 * i for i in range(min(LOOKS))]
    assert [judge(better[: n + 1]) for n in range(7)] == [None] * 7
    assert judge(better) is True
    assert judge([-each for each in better[:4]]) is False
    assert judge([0.2, -0.1] * (MOST_PAIRS // 2)) is False


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_smallest_gain_is_found_by_half_of_the_trials(noise):
    rng = np.random.default_rng(3)
    gain = smallest_gain([rng.normal(0.0, noise, MOST_PAIRS) for _ in range(200)])
    shift = gain / (2 + gain)
    kept = sum(
        signed_rank(rng.normal(shift, noise, MOST_PAIRS))[1] <= LOOKS[MOST_PAIRS]
        for _ in range(400)
    )
    assert 0.4 < kept / 400 < 0.6
    assert smallest_gain([[0.1, 0.2, 0.3]]) is None
    assert smallest_gain([[9.0, -9.0, 8.0, -8.0]]) == np.inf


BUSY = np.array([1.0, 0.5])


def epochs_until_asked(backoff, speeds=BUSY, rate=2.0, limit=40):
    for rested in range(limit):
        if backoff.asks(speeds, rate):
            return rested
    raise AssertionError("it is never asked")


def test_it_rests_longer_each_time_but_not_for_ever():
    backoff, rested = Backoff(), []
    for _ in range(6):
        rested.append(epochs_until_asked(backoff))
        backoff.record(False, BUSY, 2.0)
    assert rested == [0, 1, 3, 7, 15, 15]
    backoff.record(True, BUSY, 2.0)
    assert epochs_until_asked(backoff) == 0
    backoff.record(False, BUSY, 1.0)  # it was proposed for another state
    assert epochs_until_asked(backoff, rate=1.0) == 0


@pytest.mark.parametrize(
    ("speeds", "rate", "rested"),
    [
        (BUSY, 1.6, 0),  # it serves less
        (BUSY, 2.4, 0),  # or more
        (np.array([0.5, 0.5]), 2.0, 1),  # two epochs in a row
        (np.array([0.8, 0.5]), 2.0, 15),  # noise
    ],
)
def test_a_change_ends_the_rest(speeds, rate, rested):
    backoff = Backoff()
    for _ in range(5):
        backoff.record(False, BUSY, 2.0)
    assert epochs_until_asked(backoff, speeds, rate) == rested

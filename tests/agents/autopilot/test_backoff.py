"""When an agent is asked again whose proposals were reverted."""

import numpy as np
import pytest

from pmoss_agents.autopilot.backoff import Backoff

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

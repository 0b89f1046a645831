"""Tables of policies that play: of agents that learn by playing, their way and their end."""

from typing import Any

from pmoss_benchmarks.offline.curves import draw_played, learned_by_playing
from pmoss_benchmarks.offline.tables import after_playing, while_playing

TASK = "toy-btree-ycsb-a-busy-core"
ROWS = [
    {"steps": 1e5 * n, "cpu_seconds": 60.0 * n, "return": float(n), "update": n}
    for n in range(1, 101)
]
PLAYER = {
    "track": "same-task",
    "task": TASK,
    "agent": "dqn",
    "seed": 0,
    "training": {"played": ROWS, "source": {"steps": 10**7}, "seconds": 7200.0},
}
LEARNER = {**PLAYER, "agent": "bc", "training": {"source": {"id": "pmoss/x-v0"}, "seconds": 1.0}}


def summary() -> dict[str, Any]:
    estimate = {"value": 50.0, "low": 40.0, "high": 60.0}
    paired = {TASK: {"policies": {"dqn": {"score": estimate, "over_rule": estimate}}}}
    return {
        "cells": [LEARNER, PLAYER, {**PLAYER, "track": "noise"}],
        "tracks": {"same-task": {"paired": paired}},
    }


def test_the_way_and_the_end_are_shown() -> None:
    rows = while_playing(summary(), TASK).rows
    assert rows[0] == ["dqn", "0.10", "1.0", "1.0"]
    assert rows[-1] == ["dqn", "10.00", "100.0", "100.0"]
    (row,) = after_playing(summary(), TASK).rows
    assert row == ["dqn", "10.00", "2.00", "50.0 [40.0, 60.0]", "50.0 [40.0, 60.0]"]


def test_only_what_was_played_is_drawn() -> None:
    assert list(learned_by_playing([LEARNER, PLAYER])) == [TASK]
    bandit = {**PLAYER, "training": {"played": [{"update": 1, "cpu_seconds": 0.1}]}}
    assert not learned_by_playing([bandit])
    figure = draw_played([LEARNER, PLAYER, {**PLAYER, "seed": 1}])
    assert [len(axis.lines) for axis in figure.axes] == [2]

from __future__ import annotations

import numpy as np
import pytest

from pmoss_benchmarks.offline.summary import paired
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import EpisodeResult
from pmoss_datasets.evaluation.scores import runs_of

SPATIAL = find_domain("spatial")


def row(policy, seed, episode, score):
    return EpisodeResult(
        policy, seed, episode, 1000 + episode, 1.0, 2.0 + score, score, 2.0, 102.0, 0, (1,), 0.0
    )


@pytest.fixture
def rows():
    """An agent one point above best-fit in hard and easy episodes, with three training seeds."""
    rng = np.random.default_rng(0)
    results = []
    for episode, hard in enumerate(rng.normal(80, 12, size=50)):
        results += [
            row("lpt", 101, episode, hard - 20),
            row("best-fit", 101, episode, hard),
            row("local-search", 101, episode, hard + 10),
        ]
        results += [row("mine", seed, episode, hard + 1 + rng.normal()) for seed in (101, 102, 103)]
    return results


def test_one_point_is_separated_from_the_best_rule(rows):
    result = paired(rows, SPATIAL)
    assert (result["episodes"], result["rule"]) == (50, "best-fit")
    mine = result["policies"]["mine"]
    assert mine["seeds"] == 3
    assert 0 < mine["over_rule"]["low"] < 1 < mine["over_rule"]["high"]
    assert mine["over_search"]["high"] < 0
    # Unpaired, the spread of the episodes hides it.
    score = mine["score"]
    assert score["high"] - score["low"] > 5
    assert "over_rule" not in result["policies"]["best-fit"]
    assert mine["throughput"] == pytest.approx(2 + score["value"])


def test_a_rule_that_plays_once_is_a_run_beside_those_of_all_seeds(rows):
    runs = runs_of({"task": rows})
    assert {name: run.shape for name, run in runs.items()} == {
        "lpt": (1, 1),
        "best-fit": (1, 1),
        "local-search": (1, 1),
        "mine": (1, 3),
    }
    # Other episodes of other seeds are no such thing.
    elsewhere = [row("late", 104, episode + 100, 1.0) for episode in range(50)]
    assert not runs_of({"task": rows + elsewhere})

"""Worlds that no data hold: who is ahead there, by how much, and beside which rules."""

from __future__ import annotations

import pytest

from pmoss_benchmarks.offline import unseen


def row(world: str, agent: list[float], **rules: list[float]) -> dict:
    """A row whose throughputs are a tenth of the scores."""
    played = {
        name.replace("_", "-"): {
            "score": sum(scores) / len(scores),
            "throughput": sum(scores) / len(scores) / 10,
            "scores": scores,
        }
        for name, scores in {"mine": agent, **rules}.items()
    }
    of_agent = {"mine": played.pop("mine")}
    cell = {"training": "one", "world": world, "seed": 0, "learned": False}
    env = {"machine": world, "workload": "ycsb-a"}
    return {**cell, "env": env, "rules": played, "policies": of_agent}


ROWS = [
    row("a", [80.0, 84.0, 88.0], lpt=[80.0, 81.0, 79.0], best_fit=[60.0, 62.0, 61.0]),
    row("b", [50.0, 52.0, 51.0], lpt=[70.0, 10.0, 10.0], best_fit=[60.0, 61.0, 62.0]),
]


def test_the_best_rule_is_that_of_each_world() -> None:
    assert [unseen.best_rule(each) for each in ROWS] == ["lpt", "best-fit"]
    assert unseen.best_rule(ROWS[0], without=["lpt"]) == "best-fit"
    assert unseen.over_rule(ROWS[0]) == pytest.approx(84 / 80)
    # In the first episode of the second world lpt is the best one.
    assert unseen.best_in_hindsight(ROWS, 1) == pytest.approx((80 + 70) / 2)
    assert unseen.best_in_hindsight(ROWS, 3) == pytest.approx((80 + 61) / 2)


def test_a_lead_is_a_mean_over_servers() -> None:
    assert unseen.leads(ROWS) == pytest.approx([4, -10])
    lead = unseen.lead(ROWS)
    assert lead.value == pytest.approx((4 - 10) / 2)
    # Two worlds say next to nothing: Student's t with one degree of freedom is 12.7.
    assert lead.high - lead.value == pytest.approx(12.706 * 7, rel=1e-3)
    assert unseen.lead(ROWS, without=["lpt"]).value == pytest.approx((23 - 10) / 2)
    # A second world of a server makes no third server.
    again = {**ROWS[0], "world": "c"}
    assert unseen.lead([*ROWS, again]) == lead


def test_linux_counts_with_its_best_setting_where_it_played() -> None:
    assert unseen.worlds(ROWS).columns[4:] == ["best rule", ">mine", ">ahead"]
    assert unseen.over_linux(ROWS[0]) is None
    beside = row("a", [80.0] * 3, lpt=[70.0] * 3, os_default=[20.0] * 3, os_interleave=[100.0] * 3)
    assert unseen.over_linux(beside) == 0.8 and unseen.best_rule(beside) == "lpt"
    assert unseen.worlds([beside]).rows[0][-1] == "0.80"


def test_above_and_below_are_intervals_that_hold_no_zero() -> None:
    sides = unseen.summarise({}, ROWS)["kinds"][""]["sides"]["one"]
    # Three episodes: 4 points ahead are level, 10 behind in each are below.
    assert sides == {"level": 1, "below": 1}

"""Speed on a host: which figures there are and how they are judged, never how fast anything is."""

from pathlib import Path

import pytest

from pmoss_benchmarks.functions import performance
from pmoss_benchmarks.functions.performance import Settings, cells, measure
from pmoss_benchmarks.performance.programs import figure
from pmoss_benchmarks.study import Run
from pmoss_env.errors import DescriptionError, UnknownNameError


def test_a_part_is_measured_and_held_against_its_goals() -> None:
    goals = {"environment step / *": "<= 3 x", "analytic model alone, one move": "low >= 0 us"}
    settings = Settings(host="here", parts=("environment",), rounds=2, goals=goals)
    (cell,) = cells(settings)
    assert cell == {"host": "here", "part": "environment"}
    figures = measure(Run(settings, Path(), Path(), Path()), cell)["figures"]
    by_name = {figure["name"]: figure for figure in figures}
    assert all(0.0 < figure["low"] <= figure["median"] <= figure["high"] for figure in figures[:-2])
    ratio = by_name["environment step / CartPole-v1 step"]
    assert ratio["rounds"] == 2 and ratio["reached"] == (ratio["median"] <= 3.0)
    assert by_name["analytic model alone, one move"]["reached"] is True
    assert by_name["CartPole-v1 step, for scale"]["reached"] is None


@pytest.mark.parametrize(
    ("goal", "reached"),
    [(">= 2 x", True), ("low >= 2 x", False), ("high <= 3 x", True), ("+- 1 x", False)],
)
def test_goals_judge_the_median_or_an_end(goal: str, reached: bool) -> None:
    held = performance._held(figure("speed", "x", [1.0, 2.5, 3.0]), {"sp*": goal})
    assert (held["goal"], held["reached"]) == (goal, reached)


def test_what_cannot_be_measured_is_named() -> None:
    with pytest.raises(UnknownNameError, match="unknown part 'speed'"):
        Settings(parts=("speed",))
    with pytest.raises(DescriptionError, match="rounds = 0: must be from 1 to"):
        Settings(rounds=0)
    with pytest.raises(DescriptionError, match="goal 'fast' of 'index'"):
        Settings(goals={"index": "fast"})

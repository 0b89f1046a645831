"""Speed on a host: which figures there are and how they are judged, never how fast anything is."""

from pathlib import Path

import pytest

from pmoss_benchmarks.functions import performance
from pmoss_benchmarks.functions.performance import Settings, cells, costs, measure
from pmoss_benchmarks.performance.growth import grown
from pmoss_benchmarks.performance.programs import figure, timed
from pmoss_benchmarks.study import Run
from pmoss_env.errors import DescriptionError, UnknownNameError

FAST = {**figure("lookups / a peer", "x", [4.0, 3.9, 1234.5]), "goal": ">= 2 x", "reached": True}


def row(host: str, *figures: dict, part: str = "index") -> dict:
    return {"host": host, "part": part, "figures": list(figures)}


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


def test_works_take_turns_after_a_round_that_does_not_count() -> None:
    calls: list[str] = []
    seconds = timed({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2}


def test_the_exponent_of_a_cost_is_its_slope_in_logarithms() -> None:
    figures = grown("a move, in all", "slices", {8: [2.0, 4.0], 32: [4.0, 8.0], 128: [8.0, 16.0]})
    by_size = costs([row("here", *figures, FAST, part="growth")])["slices"]["a move, in all"]
    assert {size: figure["median"] for size, figure in by_size.items() if size} == {
        8: 3.0,
        32: 6.0,
        128: 12.0,
    }
    assert by_size[0]["median"] == pytest.approx(0.5)
    (line,) = performance.TABLES["growth"]([row("here", *figures, part="growth")]).rows
    assert line == ["a move, in all", "slices", "8", "3", "128", "12", "0.50 [0.50, 0.50]"]
    assert performance.PLOTS["growth"]([row("here", *figures, part="growth")]).axes

"""Speed on a host: which figures there are and how they are judged, never how fast anything is."""

import re
from pathlib import Path

import pytest

from pmoss_benchmarks.functions import performance
from pmoss_benchmarks.functions.performance import Settings, cells, measure
from pmoss_benchmarks.performance.programs import (
    REPOSITORY,
    check_configured,
    figure,
    routing_figures,
    scaling_figures,
)
from pmoss_benchmarks.study.function import Run
from pmoss_env.errors import BackendError, DescriptionError, UnknownNameError


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
    with pytest.raises(DescriptionError, match="rounds = 0: must be a whole number from 1 to"):
        Settings(rounds=0)
    with pytest.raises(DescriptionError, match="goal 'fast' of 'index'"):
        Settings(goals={"index": "fast"})


def test_a_missing_peer_is_named_with_its_package() -> None:
    listed = (REPOSITORY / "native" / "bench" / "CMakeLists.txt").read_text()
    (said,) = re.findall(r'message\(STATUS "(no rtree_bench: .+)"\)', listed)
    configured = f"-- Configuring\n-- {said}\n-- Generating done"
    check_configured("index_bench", configured)
    with pytest.raises(BackendError, match=r"no rtree_bench: Boost.* install libboost-dev, then"):
        check_configured("rtree_bench", configured)


def test_indexes_on_several_threads_have_rates_efficiencies_and_ratios() -> None:
    lines = [
        ("lookups", "uniform", 1, "built in, batches of 64", 20.0, 22.0),
        ("lookups", "uniform", 1, "/peers/tree.so", 2.0, 2.0),
        ("lookups", "uniform", 8, "built in, batches of 64", 120.0, 176.0),
        ("lookups", "uniform", 8, "/peers/tree.so", 12.0, 16.0),
    ]
    text = "\n".join("\t".join(map(str, line)) for line in lines)
    figures = {one["name"]: one for one in scaling_figures(text, "here")}
    assert figures["lookups, uniform, 8 threads, tree"]["median"] == 14.0
    assert figures["lookups, uniform, 8 threads, tree, efficiency"]["low"] == 75.0
    ratio = figures["lookups, uniform, 8 threads, built in, batches of 64 / tree"]
    assert (ratio["low"], ratio["high"], ratio["unit"]) == (10.0, 11.0, "x")
    table = performance.TABLES["scaling"]([{"part": "scaling", "figures": list(figures.values())}])
    assert table.columns == ["queries, Mq/s", "index", "1 threads", "8 threads", "efficiency"]
    assert table.rows[0] == ["lookups, uniform", "built in, batches of 64", "21", "148", "88 %"]


def test_the_cost_of_routing_is_held_against_that_of_few_workers() -> None:
    figures = routing_figures(["2 14.0 15.0 128\n128 21.0 30.0 2048"] * 2)
    by_name = {one["name"]: one["median"] for one in figures}
    assert by_name["routing, all workers answer, 2 workers"] == 14.0
    assert by_name["routing, every eighth worker answers, 128 / 2 workers"] == 2.0

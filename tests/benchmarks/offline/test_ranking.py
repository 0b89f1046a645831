"""Policies ranked over tasks and in pairs: which intervals, who is ahead of the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from pmoss_benchmarks.offline import ranking, tables
from pmoss_benchmarks.offline.ranking import LEAST, draw_profiles, informed, neighbours, ranked
from pmoss_benchmarks.offline.summary import paired, summary_of
from pmoss_benchmarks.study.store import Results
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import EpisodeResult
from pmoss_datasets.evaluation.scores import (
    STATISTICS,
    compare,
    probability_of_improvement,
    score_profile,
    two_level_bootstrap,
)
from pmoss_env.errors import DescriptionError

REPOSITORY = Path(__file__).resolve().parents[3]
TASKS = ("skylake-x-8n-btree-ycsb-a-busy-core", "milan-nps4-btree-scans-cache-thrash")


def row(policy: str, task: str, seed: int, scores: list[float], **fields) -> dict:
    played = {policy: {"score": scores, "env_seed": list(range(len(scores)))}}
    return {
        **{"track": "same-task", "task": task, "policy": policy, "seed": seed, "played": played},
        **fields,
    }


def trained(policy: str, task: str, seed: int, scores: list[float]) -> dict:
    return row(policy, task, seed, scores, training={"updates": 100, "seconds": 10.0 + seed})


@pytest.fixture
def rows() -> list[dict]:
    few = [trained("cql", task, seed, [50.0 + seed, 52.0]) for task in TASKS for seed in range(3)]
    many = [
        trained("surrogate", task, seed, [90.0 + seed, 93.0])
        for task in TASKS
        for seed in range(LEAST)
    ]
    rules = [row("best-fit", task, 0, [80.0, 84.0]) for task in TASKS]
    shared = {"track": "same-task", "task": TASKS[0], "policy": "os-default", "seed": 0}
    guest = [row("generalist + 10", task, 0, [95.0, 96.0], measurements=10) for task in TASKS]
    measuring = [row("best-fit + 10", task, 0, [85.0, 87.0]) for task in TASKS]
    begun = [trained("bc", TASKS[0], 0, [40.0, 44.0])]
    linux = {**shared, "shared": [[5.0, -20.0], [6.0, -22.0]]}
    logged = [
        {**shared, "task": task, "policy": "best tenth", "shared": [[1.0, 88.0], [1.0, 89.0]]}
        for task in TASKS
    ]
    return [*few, *many, *rules, *guest, *measuring, *begun, linux, *logged]


def test_a_table_has_what_is_there_and_says_of_how_many_trainings(rows) -> None:
    cells = {line[0]: line[1:] for line in ranking.scores_by_task(rows).rows}
    played_all = ["generalist + 10", "surrogate", "best tenth", "best-fit + 10", "best-fit", "cql"]
    assert list(cells) == [*played_all, "bc", "os-default"]
    assert [cells[name][0] for name in cells] == ["1", "5", "", "", "", "3", "0 to 1", ""]
    # One task, or no training on the other: no value over all.
    for name in ("bc", "os-default"):
        of_all, first, second = cells[name][1:3], *cells[name][3:]
        assert of_all == ["", ""] and first and not second
    assert cells["best-fit"][1].startswith("82.0 [")


def test_a_few_trainings_get_no_interval(rows) -> None:
    cells = {line[0]: line[2:] for line in ranking.scores_by_task(rows).rows}
    # What learned before was trained once.
    assert not any("[" in cell for name in ("cql", "generalist + 10") for cell in cells[name])
    assert all("[" in cell for name in ("surrogate", "best-fit + 10") for cell in cells[name])


def test_stored_worlds_show_no_interval_of_a_few_trainings() -> None:
    rows = Results(REPOSITORY)["core"].rows
    learned = {row["policy"] for row in rows if "training" in row}
    for _, _, name, seeds, *cells in tables.by_world(summary_of(rows)).rows:
        assert name not in learned or int(seeds) >= LEAST or "[" not in "".join(cells), name


def test_tables_of_learners_show_no_interval_of_a_few_trainings() -> None:
    summary = summary_of(Results(REPOSITORY)["easy"].rows)
    tasks = tables.of_agent("surrogate", summary)
    played = [task for task in tasks if tables.players(summary, task)]
    shown = [
        *tables.learners(tasks).rows,
        *tables.agent_by_task("surrogate", tasks).rows,
        *(line for task in played for line in tables.after_playing(summary, task).rows),
    ]
    assert played and len(shown) > 2 * len(tasks)
    assert not any("[" in cell for line in shown for cell in line)


def test_a_line_says_what_each_sees_and_took(rows) -> None:
    lines = {line[0]: line[1:] for line in informed(rows).rows}
    assert lines["cql"] == ["one slice a step", "0", "100", "11", "3"]
    assert lines["surrogate"][0] == "all slices at once"
    assert lines["generalist + 10"][:2] == ["all slices at once", "10"]
    assert lines["best-fit"] == ["the incumbent's counters", "0", "", "", ""]


def test_neighbours_are_those_that_played_all_tasks(rows) -> None:
    lines = {line[0]: line[1:] for line in neighbours(rows).rows}
    # Logged episodes are between both, and were not played in the same instances.
    assert lines["surrogate"][:3] == ["5", "best-fit + 10", ""]
    assert lines["surrogate"][4] == "1.00 [1.00, 1.00]"
    assert lines["best-fit"][1:] == ["cql", "3", "+30.5", "1.00"]  # three trainings: no interval
    assert "bc" not in lines and "cql" not in lines  # cql is the last one


def test_a_policy_is_ahead_of_another_in_the_same_episodes(rows) -> None:
    difference = ranking.ahead(rows, "surrogate", "best-fit")
    assert difference.value == pytest.approx(92.5 - 82.0)
    assert difference.low < 10.5 < difference.high
    assert ranking.ahead(rows, "cql", "best-fit").low is None  # of three trainings
    gain = ranking.gain([3.0, 4.0, 6.0, 7.0, 8.0], [4.0, 6.0, 9.0, 9.0, 10.0])
    assert gain.value == 2.0 and gain.low == pytest.approx(2.0 - 2.776 * 0.3162, abs=1e-3)
    assert ranking.gain([3.0, 4.0], [4.0, 6.0]).low is None  # of two tasks
    means = ranking.overall(rows)
    played = ["generalist + 10", "surrogate", "best tenth", "best-fit + 10", "best-fit", "cql"]
    assert list(means) == played
    assert ranking.best_of(rows, ["cql", "best-fit", "bc"]) == "best-fit"
    assert means["best-fit"]["iqm"].value == means["best-fit"]["mean"].value == 82.0


def test_rows_of_other_tracks_are_left_out(rows) -> None:
    other = {**rows[0], "track": "noise", "policy": "iql"}
    assert [one.name for one in ranked([*rows, other])[1]] == [one.name for one in ranked(rows)[1]]


def test_a_variant_stands_beside_the_same_trainings_of_its_study(rows) -> None:
    tasks = [*TASKS, "third", "fourth", "fifth"]
    study = [*rows, *(trained("bc", task, 0, [10.0, 20.0 + n]) for n, task in enumerate(tasks))]
    gains = [1.0, 2.0, 4.0, 3.0, 9.0]
    variant = [
        trained("bc", task, 0, [10.0 + gain, 20.0 + n + gain])
        for n, (task, gain) in enumerate(zip(tasks, gains, strict=True))
    ]
    variant += [trained("cql", TASKS[0], seed, [60.0, 60.0]) for seed in (1, 2, 7)]
    variant += [trained("iql", TASKS[0], 0, [60.0, 60.0]), row("best-fit", TASKS[0], 0, [80.0])]
    bc, cql = ranking.changed(study, variant)
    assert (bc.policy, bc.tasks, bc.trainings) == ("bc", 5, 5)
    assert bc.after - bc.before == pytest.approx(bc.gain.value) == pytest.approx(np.mean(gains))
    expected = ttest_1samp(gains, 0.0).confidence_interval()
    assert (bc.gain.low, bc.gain.high) == pytest.approx((expected.low, expected.high))
    assert (cql.policy, cql.tasks, cql.trainings, cql.gain.low) == ("cql", 1, 2, None)
    assert (cql.before, cql.after) == pytest.approx((51.75, 60.0))


def test_profiles_are_of_those_that_played_all(rows) -> None:
    pytest.importorskip("matplotlib")
    names = [text.get_text() for text in draw_profiles(rows).axes[0].get_legend().get_texts()]
    played = ["generalist + 10", "surrogate", "best tenth", "best-fit + 10", "best-fit", "cql"]
    assert names == played


def test_shares_above_levels() -> None:
    tasks = [np.array([10.0, 30.0]), np.array([50.0])]
    assert score_profile(tasks, np.array([0.0, 20.0, 40.0, 60.0])).tolist() == [1, 0.75, 0.5, 0]


def test_an_interval_holds_what_differs_between_seeds_and_between_episodes() -> None:
    rng = np.random.default_rng(0)
    alike = 50 + rng.normal(0, 5, (1, 20)).repeat(8, axis=0)
    apart = alike + rng.normal(0, 10, (8, 1))
    widths = []
    for scores in (alike, apart):
        estimate = two_level_bootstrap([scores], STATISTICS["mean"])
        assert estimate.value == pytest.approx(scores.mean())
        assert estimate.low < estimate.value < estimate.high
        widths.append(estimate.high - estimate.low)
    # Closed forms: the standard errors of both levels added up; episodes are those of all seeds.
    for scores, width in zip((alike, apart), widths, strict=True):
        within = scores.mean(axis=0).var() / scores.shape[1]
        between = scores.mean(axis=1).var() / scores.shape[0]
        assert width == pytest.approx(2 * 1.96 * np.sqrt(within + between), rel=0.15)
    assert widths[1] > 1.5 * widths[0]
    # Seeds that all do the same say no more than one of them.
    single = two_level_bootstrap([alike[:1]], STATISTICS["mean"])
    assert widths[0] == pytest.approx(single.high - single.low, rel=0.1)
    # Episodes are drawn once for all tasks: the same task twice says no more than once.
    twice = two_level_bootstrap([alike[:1], alike[:1]], STATISTICS["mean"])
    assert (twice.low, twice.high) == pytest.approx((single.low, single.high))
    with pytest.raises(DescriptionError, match=r"shapes \(8, 20\), \(0, 20\)"):
        two_level_bootstrap([alike, alike[:0]], STATISTICS["mean"])
    with pytest.raises(DescriptionError, match="finite"):
        two_level_bootstrap([alike * np.nan], STATISTICS["mean"])


def test_all_trainings_count_where_tasks_have_other_numbers_of_them() -> None:
    tasks = [np.array([[10.0], [20.0], [60.0]]), np.array([[40.0], [80.0]])]
    assert two_level_bootstrap(tasks, STATISTICS["mean"]).value == pytest.approx((30 + 60) / 2)


def test_the_interquartile_mean_takes_as_many_trainings_of_each_task() -> None:
    # Six of the first task and five of the second: the sixth would pull the middle half up.
    rows = [trained("bc", TASKS[0], seed, [0.0, 2.0]) for seed in range(LEAST)]
    rows += [trained("bc", TASKS[0], seed, [90.0, 90.0]) for seed in range(LEAST, 4 * LEAST)]
    rows += [trained("bc", TASKS[1], seed, [50.0, 50.0]) for seed in range(LEAST)]
    cloner = ranking.overall(rows)["bc"]
    assert cloner["mean"].value == pytest.approx((0.25 * 1 + 0.75 * 90 + 50) / 2)
    assert cloner["iqm"].value == pytest.approx((3 * 1 + 3 * 50) / 6)
    assert cloner["iqm"].low <= cloner["iqm"].value <= cloner["iqm"].high


def test_seeds_with_episodes_of_their_own_draw_them_alone() -> None:
    scores = np.arange(10.0).reshape(2, 5)
    own, common = ([row("lpt", TASKS[0], seed, list(of)) for seed, of in enumerate(scores)],) * 2
    apart = [{**each, "played": {"lpt": {**each["played"]["lpt"]}}} for each in own]
    apart[1]["played"]["lpt"]["env_seed"] = list(range(5, 10))
    assert ranked(apart)[1][0].differ and not ranked(common)[1][0].differ
    same, other = (ranking.overall(each)["lpt"]["mean"] for each in (common, apart))
    assert other.value == same.value
    # Episodes of their own say more than the same ones twice.
    assert other.high - other.low < same.high - same.low


def test_one_seed_has_students_interval(rows) -> None:
    (rule,) = (one for one in ranked(rows)[1] if one.name == "best-fit")
    scores = np.array([rule.scores(task)[0] for task in TASKS])
    mean = ranking.overall(rows)["best-fit"]["mean"]
    low, high = ttest_1samp(scores.mean(axis=0), 0.0).confidence_interval()
    assert (mean.low, mean.high) == pytest.approx((low, high))


def test_differences_are_of_the_same_episodes() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(50, 20, (1, 20))
    mine, theirs = [hard + 1 + rng.normal(0, 1, (5, 20))], [hard + rng.normal(0, 1, (5, 20))]
    difference, share = compare(mine, theirs)
    assert difference.value == pytest.approx(float(mine[0].mean() - theirs[0].mean()))
    assert 0 < difference.low < 1 < difference.high < 2
    assert share.value == pytest.approx(1) and share.low > 0.9
    ahead, behind = compare(mine, theirs)[0], compare(theirs, mine)[0]
    assert behind.value == pytest.approx(-ahead.value)
    with pytest.raises(DescriptionError, match="none"):
        compare(mine, [])


def test_ties_count_half() -> None:
    assert probability_of_improvement([np.array([1.0, 2.0])], [np.array([2.0])]) == 0.25


def test_the_plan_gives_cells_to_the_cpu_that_is_free_first() -> None:
    def trained(task: str, policy: str, seconds: float) -> dict:
        played = {"actions": {"steps": [10, 10]}, "seconds_per_decision": 9.0}
        row = {"task": task, "policy": policy, "training": {"seconds": seconds}}
        return {**row, "played": {policy: played}}

    rows = [trained("a", "bc", 3600.0), trained("b", "bc", 10800.0), {"task": "a", "policy": "lpt"}]
    # Of the second agent nothing is stored, and of the task "c" neither.
    keys = [("a", "bc"), ("b", "bc"), ("c", "bc"), ("a", "iql")]
    cells = [{"task": task, "policy": policy} for task, policy in keys] * 10
    made = tables.plan(cells, rows, episodes=20)
    # Ten times 1 + 3 + 2 + 2 hours, and half an hour each for 20 episodes of ten decisions.
    assert made.rows[0] == ["1", "80.00", "100.00"]
    assert made.rows[2] == ["256", "3.00", "3.50"]
    assert 80 / 16 <= float(made.rows[1][1]) <= 80 / 16 + 3


SPATIAL = find_domain("spatial")


def paired_row(policy, seed, episode, score):
    return EpisodeResult(
        policy, seed, episode, 1000 + episode, 1.0, 2.0 + score, score, 2.0, 102.0, 0, (1,), 0.0
    )


@pytest.fixture
def paired_rows():
    """An agent one point above best-fit in hard and easy episodes, with three training seeds."""
    rng = np.random.default_rng(0)
    results = []
    for episode, hard in enumerate(rng.normal(80, 12, size=50)):
        results += [
            paired_row("lpt", 101, episode, hard - 20),
            paired_row("best-fit", 101, episode, hard),
            paired_row("local-search", 101, episode, hard + 10),
        ]
        results += [
            paired_row("mine", seed, episode, hard + 1 + rng.normal()) for seed in (101, 102, 103)
        ]
    return results


def test_one_point_is_separated_from_the_best_rule(paired_rows):
    result = paired(paired_rows, SPATIAL)
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

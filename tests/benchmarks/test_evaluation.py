from __future__ import annotations

import json
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from pmoss_benchmarks.evaluation import (
    Difference,
    EpisodeResult,
    aggregate,
    bootstrap_interval,
    evaluate,
    paired_difference,
    read_results,
    replay,
    write_results,
)
from pmoss_datasets import find_domain
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import (
    CheckpointError,
    DatasetError,
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)

KWARGS = {"machine": "toy", "slices": 12, "interference": "busy_core"}
SEEDS = (0, 1, 2)


class FirstTile:
    """Always the same tile, illegal where told so."""

    def __init__(self, tile=1):
        self.tile = tile
        self.resets = 0

    def reset(self):
        self.resets += 1

    def act(self, observation, action_mask):
        assert action_mask.dtype == np.int8
        assert observation["slice"].shape == (1,)
        return self.tile


def policies():
    return {
        "random": SchedulePolicy("random"),
        "lpt": SchedulePolicy("lpt"),
        "search": SchedulePolicy(make_baseline("local-search", budget=300)),
        "first": FirstTile(),
        "illegal": lambda seed: FirstTile(0),
    }


@pytest.fixture(scope="module")
def evaluation():
    return evaluate(
        KWARGS, policies(), SEEDS, episodes_per_seed=2, search_budget=300, random_schedules=30
    )


@pytest.fixture(scope="module")
def rows(evaluation):
    return evaluation.rows


def of(rows, name):
    return [row for row in rows if row.policy == name]


def test_every_policy_meets_the_same_episodes(rows):
    assert len(rows) == 5 * 3 * 2
    contexts = {
        name: [
            (r.seed, r.episode, r.env_seed, r.incumbent_throughput, r.random_throughput)
            for r in of(rows, name)
        ]
        for name in policies()
    }
    assert all(context == contexts["random"] for context in contexts.values())
    assert len({r.env_seed for r in rows}) == 6
    assert isinstance(FirstTile(), Policy)


def test_scores_are_normalised_between_random_and_search(rows):
    for row in rows:
        low, high = row.random_throughput, row.search_throughput
        assert row.score == pytest.approx(100 * (row.throughput - low) / (high - low))
        assert row.search_throughput > row.random_throughput
        assert row.seconds_per_decision > 0
        assert len(row.actions) == 12
    mean = {name: np.mean([r.score for r in of(rows, name)]) for name in policies()}
    assert mean["search"] == pytest.approx(100, abs=5)
    assert mean["first"] < mean["random"] < mean["search"]


def test_illegal_actions_are_counted_and_actions_are_the_policys(rows):
    assert all(r.illegal_actions == 0 for r in of(rows, "first"))
    assert all(r.illegal_actions == 12 and set(r.actions) == {0} for r in of(rows, "illegal"))
    # Tile 1 is the nearest worker of router tile 0.
    for one, other in zip(of(rows, "first"), of(rows, "illegal"), strict=True):
        assert one.throughput == other.throughput


@pytest.mark.parametrize("name", ["random", "lpt"])
def test_a_policy_has_no_influence_on_the_others(rows, name):
    alone = evaluate(
        KWARGS, {name: SchedulePolicy(name)}, SEEDS, 2, search_budget=300, random_schedules=30
    )
    # All but the time is the same.
    assert [replace(row, seconds_per_decision=0.0) for row in alone.rows] == [
        replace(row, seconds_per_decision=0.0) for row in of(rows, name)
    ]


def test_schedule_policies_place_what_they_planned():
    for order in ("index", "load"):
        kwargs = {**KWARGS, "order": order, "interference": "none"}
        result = evaluate(kwargs, {"incumbent": SchedulePolicy("incumbent")}, [5], 3, 10, 2).rows
        assert all(r.throughput == r.incumbent_throughput for r in result)
        assert len(result) == 3


def test_functions_of_the_seed_and_progress():
    asked, seen = [], []

    def trained(seed):
        asked.append(seed)
        return FirstTile(1 + seed)

    evaluate(
        KWARGS,
        {"agent": trained, "class": SchedulePolicyOfLpt},
        [0, 1],
        2,
        10,
        2,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert asked == [0, 1]
    assert seen == [(n, 8) for n in range(1, 9)]


class SchedulePolicyOfLpt(SchedulePolicy):
    def __init__(self, seed):
        super().__init__("lpt")


class Listener(FirstTile):
    """Hears what it earned, and checks where it plays."""

    def __init__(self, refuses=False):
        super().__init__()
        self.refuses = refuses
        self.heard = []
        self.checked = []

    def reset(self):
        super().reset()
        self.heard.append([])

    def observe(self, reward):
        self.heard[-1].append(reward)

    def check_env(self, env):
        self.checked.append((env.slices, env.machine.name, self.resets))
        if self.refuses:
            raise CheckpointError("fitted for slices = 5")


@pytest.mark.parametrize("reward", ["improvement", "slice", "terminal"])
def test_policies_observe_the_improvement_in_every_reward_mode(reward):
    agent = Listener()
    kwargs = {**KWARGS, "reward": reward, "noise": 1.0}
    result = evaluate(kwargs, {"agent": agent, "lpt": SchedulePolicy("lpt")}, [3], 2, 10, 2)
    assert [len(rewards) for rewards in agent.heard] == [12, 12]
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **{**kwargs, "reward": "improvement"})
    for row, rewards in zip(of(result.rows, "agent"), agent.heard, strict=True):
        env.reset(seed=row.env_seed)
        assert rewards == [env.step(action)[1] for action in row.actions]
        assert sum(rewards) == pytest.approx(row.throughput - row.incumbent_throughput)
    SchedulePolicy("lpt").observe(1.0)


def test_policies_check_the_environment_before_the_first_episode():
    shared, seen = Listener(), []
    of_seed = {seed: Listener() for seed in (0, 1)}
    evaluate(KWARGS, {"shared": shared, "each": of_seed.__getitem__}, [0, 1], 1, 10, 2)
    assert shared.checked == of_seed[0].checked == of_seed[1].checked == [(12, "toy", 0)]

    # The second seed's agent is refused before the first seed's has played.
    of_seed = {0: Listener(), 1: Listener(refuses=True)}
    with pytest.raises(CheckpointError, match="slices = 5"):
        evaluate(
            KWARGS, {"each": of_seed.__getitem__}, [0, 1], 1, 10, 2, lambda *at: seen.append(at)
        )
    assert seen == []
    assert of_seed[0].resets == 0


@pytest.mark.parametrize(
    ("name", "env", "best", "worst"),
    [
        ("access-path", {"scans": 24}, "oracle", "always-cpu"),
        ("threads", {"requests": 50_000}, "rule", "stay"),
    ],
)
def test_every_domain_is_evaluated_and_replayed(tmp_path, name, env, best, worst):
    domain = find_domain(name)
    policies = {policy: domain.policy(policy) for policy in domain.policies()}
    found = evaluate(env, policies, [0, 1], 1, 1, 5, env_id=domain.env_id)
    scores = {(row.policy, row.seed): row.score for row in found.rows}
    for seed in (0, 1):
        assert scores[best, seed] == pytest.approx(100, abs=1)
        assert scores[worst, seed] < scores[best, seed]
    path = tmp_path / "r.jsonl"
    write_results(path, found)
    assert replay(path).mismatches == ()
    changed = replace(found.rows[0], actions=found.rows[-1].actions)
    write_results(path, replace(found, rows=[changed, *found.rows[1:]]))
    assert replay(path).mismatches


@pytest.mark.parametrize("action", [10**6, -1, None, "left"])
@pytest.mark.parametrize(
    ("name", "env"),
    [("spatial", KWARGS), ("access-path", {"scans": 4}), ("threads", {"requests": 50_000})],
)
def test_what_is_no_action_is_refused_by_name(name, env, action):
    class Wrong:
        def reset(self):
            pass

        def act(self, observation, action_mask):
            return action

    policies = {"wrong": Wrong()}
    with pytest.raises(IllegalActionError, match=f"action {action!r}: "):
        evaluate(env, policies, [0], 1, 1, 1, env_id=find_domain(name).env_id)


def test_unknown_environments_and_arguments_are_named(tmp_path, evaluation):
    wrong = {**KWARGS, "foo": 1}
    with pytest.raises(DescriptionError, match=r"'foo': unknown; known are backend, .*workload"):
        evaluate(wrong, {"first": FirstTile()}, [0], 1, 10, 2)
    with pytest.raises(UnknownNameError, match=r"environment 'pmoss/toy'\. Did you mean"):
        evaluate({}, {"first": FirstTile()}, [0], 1, 10, 2, env_id="pmoss/toy")
    with pytest.raises(UnknownNameError, match="environment"):
        evaluate({}, {"first": FirstTile()}, [0], 1, 10, 2, env_id="CartPole-v1")
    path = written(tmp_path / "r.jsonl", replace(evaluation, env_kwargs=wrong))
    with pytest.raises(DescriptionError, match="'foo'"):
        replay(path)


@pytest.mark.parametrize(
    "wrong", [{"seeds": []}, {"episodes_per_seed": 0}, {"random_schedules": 0}, {"policies": {}}]
)
def test_nothing_to_evaluate_is_an_error(wrong):
    arguments = {
        "policies": {"first": FirstTile()},
        "seeds": [0],
        "episodes_per_seed": 1,
        "search_budget": 5,
        "random_schedules": 1,
        **wrong,
    }
    with pytest.raises(DescriptionError, match=next(iter(wrong))):
        evaluate(KWARGS, **arguments)


def a_row(policy, seed, episode, score, throughput=1.0):
    return EpisodeResult(policy, seed, episode, 0, 1.0, throughput, score, 0.0, 1.0, 1, (1,), 0.5)


def test_aggregate_averages_episodes_then_seeds():
    result = aggregate(
        [
            a_row("a", 0, 0, 10.0, 2.0),
            a_row("a", 0, 1, 30.0, 4.0),
            a_row("a", 0, 2, 50.0, 6.0),
            a_row("a", 1, 0, 50.0, 8.0),
            a_row("b", 0, 0, None),
        ]
    )
    a, b = result
    assert (a.policy, a.seeds, a.episodes, a.illegal_actions) == ("a", 2, 4, 4)
    assert (a.score, a.throughput) == (40.0, 6.0)
    assert a.score_std == pytest.approx(np.std([30, 50], ddof=1))
    # Seed 0 ranges from 10 to 50, so a mean of two seeds may be anything from 10 to 50.
    assert 10 <= a.score_low < 30
    assert a.score_high == 50
    assert (b.score, b.score_low, b.score_std, b.throughput_high) == (None,) * 4
    assert b.throughput == 1.0


def test_bootstrap_interval_repeats_and_narrows():
    values = np.random.default_rng(0).normal(10, 2, size=40)
    groups = [np.array([value]) for value in values]
    low, high = bootstrap_interval(groups)
    assert (low, high) == bootstrap_interval(groups)
    assert (low, high) != bootstrap_interval(groups, seed=1)
    assert low < values.mean() < high
    # The normal approximation of the same interval.
    assert high - low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(40), rel=0.1)
    few = bootstrap_interval(groups[:5])
    assert few[1] - few[0] > high - low
    assert bootstrap_interval(groups[:1]) == (None, None)


def test_bootstrap_interval_takes_seeds_of_any_number_of_episodes():
    # Seeds of equal means: all that is left is the chance within the first.
    low, high = bootstrap_interval([np.array([0.0, 2.0]), np.array([1.0]), np.ones(5)])
    assert 0 <= low < 1 < high <= 2


@pytest.mark.parametrize(
    ("between", "least", "most"), [(0.0, 0.93, 0.99), (0.5, 0.90, 0.97), (2.0, 0.83, 0.92)]
)
def test_bootstrap_intervals_cover_the_true_mean(monkeypatch, between, least, most):
    """Five seeds of four episodes; drawing seeds alone covers 82, 83 and 86 %."""
    monkeypatch.setattr("pmoss_benchmarks.evaluation.statistics.BOOTSTRAPS", 1000)
    rng = np.random.default_rng(1)
    trials, hits = 600, 0
    for trial in range(trials):
        groups = rng.normal(rng.normal(0, between, size=(5, 1)), 1, size=(5, 4))
        low, high = bootstrap_interval(list(groups), trial)
        hits += low <= 0 <= high
    assert least < hits / trials < most


def written(path, evaluation, **notes):
    write_results(path, evaluation, **notes)
    return path


def test_results_survive_writing_to_the_bit(tmp_path, evaluation):
    path = written(tmp_path / "deep" / "results.jsonl", evaluation, search_budget=7)
    header, back = read_results(path)
    assert back == evaluation.rows
    assert header["env_kwargs"] == KWARGS
    assert header["search_budget"] == 300
    assert header["random_schedules"] == 30
    assert header["rows"] == 30
    assert header["notes"] == {"search_budget": 7}
    assert header["versions"]["numpy"] == np.__version__
    assert header["host"]["logical_cores"] >= 1
    assert header["command"]
    assert [p.name for p in path.parent.iterdir()] == ["results.jsonl"]


def test_writing_is_whole_or_not_at_all(tmp_path, evaluation):
    path = written(tmp_path / "results.jsonl", evaluation)
    before = path.read_bytes()
    wrong = replace(evaluation.rows[0], throughput=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        write_results(path, replace(evaluation, rows=[*evaluation.rows, wrong]))
    with pytest.raises(ValueError, match="JSON"):
        write_results(path, evaluation, bad=float("nan"))
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_replay_finds_nothing_where_nothing_changed(tmp_path, evaluation):
    seen = []
    report = replay(written(tmp_path / "r.jsonl", evaluation), lambda *at: seen.append(at))
    rows = evaluation.rows
    assert report.episodes == len(rows)
    assert report.mismatches == ()
    assert seen == [(n, len(rows)) for n in range(1, len(rows) + 1)]


def test_replay_names_every_mismatch(tmp_path, evaluation):
    path = written(tmp_path / "r.jsonl", evaluation)
    rows = evaluation.rows
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["throughput"] = np.nextafter(lines[1]["throughput"], 100)
    lines[2]["actions"][3] = 999
    lines[3]["actions"].pop()
    lines[4]["actions"].append(1)
    lines[5]["illegal_actions"] = 7
    path.write_text("\n".join(json.dumps(line) for line in lines))
    seen = []
    report = replay(path, lambda *at: seen.append(at))
    assert report.episodes == len(rows)
    assert len(seen) == len(rows)
    found = {m.partition(":")[0]: m for m in report.mismatches}
    assert set(found) == {f"line {n}" for n in range(2, 7)}
    assert "throughput: recorded" in found["line 2"]
    assert "999" in found["line 3"]
    assert any("11 actions do not end" in m for m in report.mismatches)
    assert "illegal_actions: recorded 7, now" in found["line 6"]


def test_replay_checks_the_scores_and_what_they_rest_on(tmp_path, evaluation):
    path = written(tmp_path / "r.jsonl", evaluation)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, name in enumerate(("score", "random_throughput", "search_throughput"), 1):
        lines[number][name] = float(np.nextafter(lines[number][name], 1000))
    lines[4]["score"] = None
    lines[5]["env_seed"] += 1
    path.write_text("\n".join(json.dumps(line) for line in lines))
    found = replay(path).mismatches
    assert len(found) == 5
    names = ("score", "random_throughput", "search_throughput", "score", "env_seed")
    for number, (line, name) in enumerate(zip(found, names, strict=True), 2):
        assert line.startswith(f"line {number}: ")
        assert f": {name}: recorded" in line

    # Another budget or number of random schedules in the header fits no row.
    for key, field in (("search_budget", "search"), ("random_schedules", "random")):
        write_results(path, replace(evaluation, **{key: 29}))
        assert sum(f"{field}_throughput: recorded" in m for m in replay(path).mismatches) > 20


def test_a_replay_of_some_episodes_takes_all_their_policies(tmp_path, evaluation):
    path = written(tmp_path / "r.jsonl", evaluation)
    every = {(row.seed, row.episode) for row in evaluation.rows}
    policies = {row.policy for row in evaluation.rows}
    assert len(every) > 1
    assert replay(path, episodes=1).episodes == len(policies)
    assert replay(path, episodes=len(every) + 1).episodes == len(evaluation.rows)
    with pytest.raises(DescriptionError, match="episodes = 0"):
        replay(path, episodes=0)


def test_replay_misses_no_episode(tmp_path, evaluation):
    one, two, *others = evaluation.rows
    path = written(tmp_path / "r.jsonl", replace(evaluation, rows=[one, one, *others]))
    found = replay(path).mismatches
    assert len(found) == 2
    assert found[0] == "line 3: the same policy and episode as line 2"
    assert found[1] == f"{two.policy}, seed 0, episode 0: is missing"


def test_measured_results_cannot_be_replayed(tmp_path, evaluation, monkeypatch):
    path = written(tmp_path / "r.jsonl", evaluation)
    from pmoss_env.backends.analytic import AnalyticBackend

    monkeypatch.setattr(AnalyticBackend, "repeatable", False)
    with pytest.raises(UnsupportedError, match="cannot be replayed"):
        replay(path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [], "line 1"),
        (lambda lines: ["{}", *lines[1:]], "header"),
        (lambda lines: ["[1]", *lines[1:]], "line 1: is not a JSON object"),
        (lambda lines: [lines[0].replace('"format_version": 2', '"format_version": 9')], "9"),
        (lambda lines: [lines[0].replace('"search_budget": 300', '"search_budget": 0')], "budget"),
        (
            lambda lines: [lines[0].replace('"rows"', '"row"'), *lines[1:]],
            "rows: is missing",
        ),
        (lambda lines: lines[:-1], "rows = 30, but 29 follow"),
        (lambda lines: [*lines, lines[-1]], "rows = 30, but 31 follow"),
        (
            lambda lines: [lines[0], lines[1].replace('"seed": 0', '"seed": -1')],
            "seed = -1: must be",
        ),
        (lambda lines: [lines[0].replace('"env_id"', '"env"')], "env_id"),
        (lambda lines: [lines[0], lines[1][:50]], "line 2: is not JSON"),
        (lambda lines: [lines[0], "[" * 100_000], "line 2: is not JSON"),
        (lambda lines: [*lines[:2], lines[2].replace('"score"', '"skore"')], "line 3: s[ck]ore: "),
        (
            lambda lines: [lines[0], lines[1].replace('"seed": 0', '"seed": "0"')],
            "line 2: seed = '0': must be a whole number",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"seed": 0', '"seed": true')],
            "line 2: seed = True: must be a whole number",
        ),
        (
            lambda lines: [lines[0], lines[1].replace('"actions": [', '"actions": [0.5, ')],
            r"line 2: actions\[0\] = 0.5: must be a whole number",
        ),
    ],
)
def test_damaged_files_are_refused_by_line_and_field(tmp_path, evaluation, damage, words):
    path = written(tmp_path / "r.jsonl", evaluation)
    path.write_text("\n".join(damage(path.read_text().splitlines())))
    with pytest.raises(DatasetError, match=words):
        read_results(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_results(tmp_path / "none.jsonl")


def test_paired_differences_tell_more_than_both_means():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 12, size=100)
    mine = hard + 1 + rng.normal(0, 2, size=(3, 100))
    told = paired_difference(mine - hard)
    assert 0 < told.low < told.value < told.high < 2
    assert told.value == pytest.approx((mine - hard).mean())
    assert told == paired_difference(mine - hard)
    # Seeds that differ widen the interval: few seeds are little evidence.
    apart = paired_difference(mine - hard + np.array([[-3.0], [0.0], [3.0]]))
    assert apart.low < 0 < apart.high
    assert paired_difference(np.array([[4.0]])) == Difference(4.0, None, None)


def test_an_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    inside = 0
    for number in range(200):
        told = paired_difference(1 + rng.normal(0, 5, size=(1, 60)), seed=number)
        inside += told.low <= 1 <= told.high
    assert 180 <= inside <= 198

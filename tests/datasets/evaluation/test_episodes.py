"""Playing episodes with policies, and scoring them."""

import json
from contextlib import closing
from dataclasses import asdict, replace
from unittest.mock import Mock

import numpy as np
import pytest

from pmoss_datasets import find_domain
from pmoss_datasets.evaluation import KEY, evaluate, read_results, replay, write_results
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.spatial import scoring
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import (
    CheckpointError,
    DatasetError,
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.result_files import ResultFile
from tests.cli.invoking import pmoss
from tests.datasets.evaluation.policies import KWARGS, SEEDS, FirstTile, policies, written

#: A time is no result.
TIMELESS = {"seconds_per_decision": 0.0}


def rows_of(rows, name):
    return [row for row in rows if row.policy == name]


def test_every_policy_meets_the_same_episodes(rows):
    assert len(rows) == 5 * 3 * 2
    contexts = {
        name: [
            (r.seed, r.episode, r.env_seed, r.incumbent_throughput, r.random_throughput)
            for r in rows_of(rows, name)
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
        assert row.seconds_per_decision > 0 and len(row.actions) == 12
    mean = {name: np.mean([r.score for r in rows_of(rows, name)]) for name in policies()}
    assert mean["search"] == pytest.approx(100, abs=5)
    assert mean["first"] < mean["random"] < mean["search"]


def test_illegal_actions_are_counted_and_actions_are_the_policys(rows):
    assert all(r.illegal_actions == 0 for r in rows_of(rows, "first"))
    assert all(r.illegal_actions == 12 and set(r.actions) == {0} for r in rows_of(rows, "illegal"))
    # Tile 1 is the nearest worker of router tile 0.
    for legal, illegal in zip(rows_of(rows, "first"), rows_of(rows, "illegal"), strict=True):
        assert legal.throughput == illegal.throughput


@pytest.mark.parametrize("name", ["random", "lpt"])
def test_a_policy_has_no_influence_on_the_others(rows, name):
    alone = evaluate(
        KWARGS, {name: SchedulePolicy(name)}, SEEDS, 2, search_budget=300, random_schedules=30
    )
    # All but the time is the same.
    assert [replace(row, seconds_per_decision=0.0) for row in alone.rows] == [
        replace(row, seconds_per_decision=0.0) for row in rows_of(rows, name)
    ]


class Remembering(FirstTile):
    """Does in an episode what depends on how many there were before."""

    def act(self, observation, action_mask):
        return 1 + (super().act(observation, action_mask) + self.resets) % 3


class Counted(SchedulePolicy):
    resets = 0

    def reset(self):
        super().reset()
        self.resets += 1


@pytest.mark.parametrize("stop_after", [1, 3, 5])
def test_an_interrupted_evaluation_goes_on_with_the_same_bits(tmp_path, stop_after):
    def run(path, stop=None):
        def progress(done, total):
            if done == stop:
                raise KeyboardInterrupt

        rule, agent, mine = SchedulePolicy("lpt"), Remembering(), Counted("lpt")
        rule.reset = Mock(wraps=rule.reset)
        every = {"lpt": rule, "agent": agent, "mine": mine}
        with ResultFile(path, {"kind": "evaluation"}, KEY) as kept:
            result = evaluate(KWARGS, every, [0, 1], 2, 10, 2, progress, kept=kept)
        return result, rule.reset.call_count, agent.resets, mine.resets

    whole, *_ = run(None)
    path = tmp_path / "rows.partial"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_after)
    result, *resets = run(path)
    # The rule's rows were kept. The agent played again, to remember, and so did code of others.
    assert resets == [4 - (stop_after + 2) // 3, 4, 4]
    for resumed, expected in zip(result.rows, whole.rows, strict=True):
        assert replace(resumed, seconds_per_decision=0.0) == replace(
            expected, seconds_per_decision=0.0
        )
    assert result.misplaced == whole.misplaced == {}


@pytest.mark.parametrize(
    ("field", "value"), [("search_throughput", "9"), ("score", [1]), ("misplaced", 2)]
)
def test_a_kept_row_with_another_type_is_refused(tmp_path, field, value):
    """Its checksum is right, so that only its types can tell."""
    path = tmp_path / "rows.partial"
    policy = {"lpt": SchedulePolicy("lpt")}
    with ResultFile(path, {}, KEY) as kept:
        evaluate(KWARGS, policy, [0], 1, 10, 2, kept=kept)
        (row,) = kept.rows.values()
    with ResultFile(tmp_path / "other.partial", {}, KEY) as kept:
        kept.append({**row, field: value})
        with pytest.raises(DatasetError, match=f"other.partial: remove it.* {field}"):
            evaluate(KWARGS, policy, [0], 1, 10, 2, kept=kept)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"seeds": []}, "seeds = 0"),
        ({"episodes_per_seed": 10**20}, "episodes_per_seed = 1"),
        ({"search_budget": 10**20}, "search_budget = 1"),
        ({"random_schedules": 10**20}, "random_schedules = 1"),
        ({"seeds": range(2000), "episodes_per_seed": 1000}, "episodes of all policies = 2000000"),
    ],
)
def test_counts_have_bounds(arguments, complaint):
    with pytest.raises(DescriptionError, match=f"^{complaint}.*: must be from . to 1,000,000"):
        evaluate(KWARGS, {"lpt": SchedulePolicy("lpt")}, **{"seeds": [0], **arguments})


@pytest.mark.parametrize(
    ("seeds", "complaint"),
    [([7, 8, 7], "7 is there twice"), ([-1], "-1: must be"), ([1.5], "1.5: must be")],
)
def test_seeds_are_whole_numbers_and_each_is_there_once(seeds, complaint):
    with pytest.raises(DescriptionError, match=f"seeds: {complaint}"):
        evaluate(KWARGS, {"lpt": SchedulePolicy("lpt")}, seeds)


def test_seeds_of_numpy_are_seeds_and_names_are_no_policies():
    lpt = {"lpt": SchedulePolicy("lpt")}
    of_numpy, plain = (
        evaluate(KWARGS, lpt, seeds, 1, search_budget=20, random_schedules=3)
        for seeds in (np.arange(2), [0, 1])
    )
    assert [asdict(row) | TIMELESS for row in of_numpy.rows] == [
        asdict(row) | TIMELESS for row in plain.rows
    ]
    with pytest.raises(DescriptionError, match="policy 'lpt' = 'lpt': must be a policy"):
        evaluate(KWARGS, {"lpt": "lpt"}, [0])


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


def test_policies_check_the_environment_before_the_first_episode():
    shared, progress = Listener(), []
    of_seed = {seed: Listener() for seed in (0, 1)}
    evaluate(KWARGS, {"shared": shared, "each": of_seed.__getitem__}, [0, 1], 1, 10, 2)
    assert shared.checked == of_seed[0].checked == of_seed[1].checked == [(12, "toy", 0)]

    # The second seed's agent is refused before the first seed's has played.
    of_seed = {0: Listener(), 1: Listener(refuses=True)}
    with pytest.raises(CheckpointError, match="slices = 5"):
        evaluate(
            KWARGS, {"each": of_seed.__getitem__}, [0, 1], 1, 10, 2, lambda *at: progress.append(at)
        )
    assert progress == []
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
    result = evaluate(env, policies, [0, 1], 1, 1, 5, env_id=domain.env_id)
    scores = {(row.policy, row.seed): row.score for row in result.rows}
    for seed in (0, 1):
        assert scores[best, seed] == pytest.approx(100, abs=1)
        assert scores[worst, seed] < scores[best, seed]
    path = tmp_path / "r.jsonl"
    write_results(path, result)
    assert replay(path).mismatches == ()
    changed = replace(result.rows[0], actions=result.rows[-1].actions)
    write_results(path, replace(result, rows=[changed, *result.rows[1:]]))
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

    with pytest.raises(IllegalActionError, match=f"action {action!r}: "):
        evaluate(env, {"wrong": Wrong()}, [0], 1, 1, 1, env_id=find_domain(name).env_id)


def test_unknown_environments_and_arguments_are_named(tmp_path, evaluation):
    wrong = {**KWARGS, "foo": 1}
    with pytest.raises(DescriptionError, match=r"'foo': unknown; known are actions, .*workload"):
        evaluate(wrong, {"first": FirstTile()}, [0], 1, 10, 2)
    with pytest.raises(UnknownNameError, match=r"environment 'pmoss/toy'\. Did you mean"):
        evaluate({}, {"first": FirstTile()}, [0], 1, 10, 2, env_id="pmoss/toy")
    with pytest.raises(UnknownNameError, match="environment"):
        evaluate({}, {"first": FirstTile()}, [0], 1, 10, 2, env_id="CartPole-v1")
    path = written(tmp_path / "r.jsonl", replace(evaluation, env_kwargs=wrong))
    with pytest.raises(DescriptionError, match="'foo'"):
        replay(path)


def test_data_that_the_kernel_left_elsewhere_are_reported(monkeypatch, tmp_path):
    asked = ["evaluate", "grouped", "-e", "machine=toy", "-e", "slices=8", "--seeds", "1"]
    asked += ["--episodes", "3", "--budget", "20", "--schedules", "2", "--json", "--out"]

    def run(file, *counts):
        # Of each episode's incumbent and end.
        numbers = iter(counts)
        monkeypatch.setattr(scoring, "misplaced", lambda provenance: next(numbers))
        return pmoss(*asked, str(tmp_path / file)), json.loads(
            (tmp_path / file).read_text().splitlines()[0]
        )

    output, header = run("some.jsonl", 0, 2, 1, 0, 0, 0)
    assert "in 2 of 3 episodes of grouped the kernel had not put all data" in output
    assert header["misplaced"] == {"grouped": 2}
    output, header = run("none.jsonl", *[0] * 6)
    assert "kernel" not in output and "misplaced" not in header


def test_what_linux_does_by_itself_is_scored_like_every_other_schedule(tmp_path):
    spatial = find_domain("spatial")
    linux = ("os-default", "os-default, AutoNUMA on", "os-interleave")
    named = {name: spatial.policy(name) for name in (*linux, "lpt")}
    kept = ResultFile(None, {}, KEY)
    evaluation = evaluate({**KWARGS, "noise": 1.0}, named, SEEDS[:2], 1, 50, 5, kept=kept)
    for row in evaluation.rows:
        if row.policy == "lpt":
            continue
        assert row.actions == () and row.seconds_per_decision == row.illegal_actions == 0
        options = {"backend_options": {"numa_balancing": "AutoNUMA" in row.policy}}
        with closing(spatial.make_env({**evaluation.env_kwargs, **options})) as balanced:
            balanced.reset(seed=row.env_seed)
            rule = row.policy.removesuffix(", AutoNUMA on")
            shared = make_baseline(rule, shared=True)(balanced.context(None))
            true = balanced.backend.measure(shared, seed=0).throughput
        assert row.throughput != true and row.throughput == pytest.approx(true, rel=0.3)
        span = row.search_throughput - row.random_throughput
        assert row.score == pytest.approx(100 * (true - row.random_throughput) / span)
    again = evaluate({**KWARGS, "noise": 1.0}, named, SEEDS[:2], 1, 50, 5, kept=kept)
    assert again.rows == evaluation.rows
    report = replay(written(tmp_path / "r.jsonl", evaluation))
    assert report.episodes == 8 and report.mismatches == ()
    with pytest.raises(UnsupportedError, match="measure it as a whole"):
        named["os-default"].plan(None, np.zeros(0, dtype=np.int32))


def test_this_host_is_compared_without_scores(tmp_path):
    size = {"records": 5_000, "seconds": 0.2, "warmup_seconds": 0.05}
    on_host = {"machine": "host", "slices": 8, "backend": "hardware"}
    asked = [f"{key}={value}" for key, value in on_host.items()]
    asked.append(f"backend_options={json.dumps(size)}")
    words = ["evaluate", *(part for pair in asked for part in ("-e", pair)), "--seeds", "1"]
    out = tmp_path / "rows.jsonl"
    pmoss(*words, "--episodes", "1", "--out", str(out))
    rows = read_results(out)[1]
    spatial = find_domain("spatial")
    usual, _ = spatial.with_settings(dict.fromkeys(spatial.compared), on_host)
    assert {row.policy for row in rows} == {*usual} - {"local-search"}
    assert all(row.score is None for row in rows)
    with pytest.raises(UnsupportedError, match="cannot be replayed"):
        replay(out)

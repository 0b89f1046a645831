import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.evaluation import evaluate
from pmoss_benchmarks.leaderboard.confinement import can_confine
from pmoss_benchmarks.leaderboard.messages import pack, pack_context, unpack, unpack_context
from pmoss_benchmarks.leaderboard.players import IsolatedPolicy, Limits
from pmoss_benchmarks.leaderboard.submissions import read_submission
from pmoss_datasets.domain import find_domain
from pmoss_env.errors import PolicyError
from tests.benchmarks.leaderboard.conftest import TASK, TIER

HandIn = Callable[..., Path]


def player(folder: Path, limits: Limits | None = None) -> IsolatedPolicy:
    submission = read_submission(folder)
    agent = submission.agent(TASK)
    assert agent is not None
    env = TIER.env_of(TASK)
    return IsolatedPolicy(agent, submission.folder, find_domain("spatial"), env, limits)


def play(folder: Path, limits: Limits | None = None) -> list[float | None]:
    policy = player(folder, limits)
    try:
        found = evaluate(TIER.env_of(TASK), {"it": policy}, [1], 1, 50, 5)
    finally:
        policy.close()
    return [row.score for row in found.rows]


def test_what_is_sent_comes_back_as_it_was() -> None:
    env = find_domain("spatial").make_env(TIER.env_of(TASK))
    observation, _ = env.reset(seed=3)
    again = unpack(pack(observation))
    assert all(
        again[k].dtype == v.dtype and np.array_equal(again[k], v) for k, v in observation.items()
    )
    context = env.context(np.random.default_rng(5))
    back = unpack_context(pack_context(context))
    assert back.incumbent == context.incumbent or np.array_equal(
        back.incumbent.cores, context.incumbent.cores
    )
    assert np.array_equal(back.snapshot.slice_counters, context.snapshot.slice_counters)
    assert back.rng.random() == np.random.default_rng(5).random()
    env.close()


def test_a_policy_that_plans_gets_the_episode(hand_in: HandIn) -> None:
    # It keeps the incumbent, in a process that has its own environment.
    policy = player(hand_in("submitted_module:Plans"))
    try:
        found = evaluate(TIER.env_of(TASK), {"it": policy}, [1], 1, 50, 5)
    finally:
        policy.close()
    (row,) = found.rows
    assert row.throughput == row.incumbent_throughput


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("NotANumber", "answers no action: action 'NaN'"),
        ("Masked", "which the mask forbids"),
        ("Raises", "raises KeyError"),
        ("Dies", "ended with status 7"),
        ("Breaks", "nothing to load"),
        ("Missing", "Missing"),
        ("Talks", "sent no message"),
        ("AnswersAtLength", "answers no action"),
        ("TakesMemory", "raises MemoryError"),
    ],
)
def test_a_bad_policy_is_a_typed_error(hand_in: HandIn, agent: str, told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        play(hand_in(f"submitted_module:{agent}"))


@pytest.mark.skipif(not can_confine(), reason="this kernel confines nothing")
@pytest.mark.parametrize(
    "agent",
    [
        *("Forks", "Executes", "ReadsOutside", "Writes", "ChangesRights", "Connects"),
        *("LooksIntoItsParent", "EndsItsParent"),
    ],
)
def test_the_kernel_keeps_a_policy_where_it_is(hand_in: HandIn, agent: str) -> None:
    policy = player(hand_in(f"submitted_module:{agent}"))
    try:
        assert policy.confined
        with pytest.raises(PolicyError, match="raises PermissionError"):
            policy.reset()
    finally:
        policy.close()


def test_a_policy_reads_its_folder_and_starts_threads(hand_in: HandIn) -> None:
    policy = player(hand_in("submitted_module:ReadsItsFolder"))
    try:
        policy.reset()
    finally:
        policy.close()


def test_a_policy_that_hangs_is_killed(hand_in: HandIn) -> None:
    policy = player(hand_in("submitted_module:Hangs"), Limits(episode_seconds=0.2))
    try:
        with pytest.raises(PolicyError, match="more than its time in an episode"):
            policy.reset()
        with pytest.raises(ProcessLookupError):
            os.kill(policy._child.process_id, 0)
    finally:
        policy.close()
        policy.close()

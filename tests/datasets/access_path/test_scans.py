"""Datasets of access paths, measured and played, and of threads."""

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, find_domain
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from tests.datasets.live import check_steps

RECIPE = AccessPathRecipe(combinations=10, repeats=3, distribution={"doublings": 3})


@pytest.fixture(scope="module")
def dataset():
    return collect_scans(RECIPE)


def test_it_holds_every_repeat_of_every_combination_on_both_paths(dataset):
    assert len(dataset) == 10 * 3 * 2
    features, times = dataset.pairs()
    assert features.shape == (30, 5)
    assert times.shape == (30, 2)
    assert np.unique(features[0:3, 0]).size == 1
    assert np.unique(dataset.columns["seed"]).size == 30
    some, _ = dataset.pairs([4])
    assert np.array_equal(some, features[12:15])
    assert AccessPathRecipe().observations >= 200_000
    assert AccessPathRecipe().repeats >= 50


def test_the_recipe_gives_the_same_bits_in_any_number_of_threads(dataset):
    for threads in (1, 2):
        assert collect_scans(RECIPE, threads).checksum == dataset.checksum


def test_whole_combinations_are_held_out(dataset):
    train, test = dataset.split()
    assert len(test) == 2
    assert sorted([*train, *test]) == list(range(10))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"repeats": 0}, DescriptionError),
        ({"repeats": True}, DescriptionError),
        ({"combinations": "many"}, DescriptionError),
        ({"noise": -1.0}, DescriptionError),
        ({"distribution": {"size": 1}}, UnknownNameError),
    ],
)
def test_impossible_recipes_are_refused(changes, error):
    with pytest.raises(error):
        AccessPathRecipe(**changes)


ACCESS_PATH = find_domain("access-path")
ENV = {"scans": 6, "noise": 1.0}


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    recipe = Recipe(domain="access-path", env=ENV, episodes=6, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("scans") / "data")


def test_every_step_is_the_live_one(episodes):
    assert episodes.metadata.id == "pmoss/uv-300h-access-path-noise-1-scans-6/mixed-v0"
    assert episodes.lengths.tolist() == [6] * 6
    for episode, _ in check_steps(ACCESS_PATH, episodes):
        assert episode.infos["run_time_us"].sum() / -1e3 == pytest.approx(episode.outcome)


def test_nothing_beats_the_oracle():
    env = ACCESS_PATH.make_env({"scans": 6})
    judge = ACCESS_PATH.judge(env)
    low, high = judge.reference(5, budget=1, draws=10)
    outcomes = {
        name: judge.outcome(ACCESS_PATH.play(env, ACCESS_PATH.policy(name), 5, judge))
        for name in ACCESS_PATH.policies()
    }
    assert outcomes["oracle"] == high == max(outcomes.values())
    assert min(outcomes["always-cpu"], outcomes["always-offload"]) <= low < high
    judge.close()
    env.close()


def test_an_episode_that_can_be_quit_is_not_scored():
    env = ACCESS_PATH.make_env({"scans": 6, "on_illegal": "terminate"})
    with pytest.raises(UnsupportedError, match="'terminate': episodes that end early are not"):
        ACCESS_PATH.judge(env)
    env.close()


def test_episodes_whose_results_may_be_wrong_are_not_scored():
    env = ACCESS_PATH.make_env({"scans": 6, "relaxed": True})
    with pytest.raises(UnsupportedError, match="relaxed = True: results may be wrong"):
        ACCESS_PATH.judge(env)
    env.close()


THREADS = find_domain("threads")
THREADS_ENV = {"requests": 100_000}


@pytest.fixture(scope="module")
def thread_dataset(tmp_path_factory):
    recipe = Recipe(domain="threads", env=THREADS_ENV, episodes=5, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("threads") / "data")


def test_every_step_of_threads_is_the_live_one(thread_dataset):
    assert thread_dataset.metadata.id == (
        "pmoss/xeon-6240m-optane-threads-fillrandom-requests-100000/mixed-v0"
    )
    for episode, info in check_steps(THREADS, thread_dataset):
        assert episode.outcome == info["requests"] / info["seconds"] / 1e3
        assert episode.infos["moved"].sum() >= 0


def test_impossible_tasks_are_refused():
    with pytest.raises(DescriptionError, match="machine = 3: must be a text"):
        Recipe(domain="threads", env={"machine": 3})
    with pytest.raises(DescriptionError, match="env: workload: unknown"):
        Recipe(domain="threads", env={"workload": "ycsb-a"})

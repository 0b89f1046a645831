import numpy as np
import pytest

from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans, simulate
from pmoss_env.errors import DescriptionError, UnknownNameError

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
    again = simulate(dataset.recipe, threads=2)
    for name, values in dataset.columns.items():
        assert np.array_equal(values, again[name]), name
    assert collect_scans(RECIPE).checksum == dataset.checksum


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

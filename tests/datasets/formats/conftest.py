"""A small dataset with all that formats must keep."""

import pytest

from pmoss_datasets import Recipe, collect


@pytest.fixture(scope="package")
def dataset(tmp_path_factory):
    task = {"machine": "toy", "slices": 12, "order": "load", "interference": "busy_core"}
    task["constraints"] = {"max_slices_per_core": 3}
    recipe = Recipe(env=task, episodes=7, seed=4, reference_episodes=3, reference_budget=100)
    return collect(recipe, tmp_path_factory.mktemp("formats") / "dataset")


@pytest.fixture(scope="package")
def unmeasured(tmp_path_factory):
    """A dataset that does not know what every step brought."""
    task = {"machine": "toy", "slices": 8, "measure_every": 4}
    recipe = Recipe(env=task, episodes=2, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("formats") / "unmeasured")

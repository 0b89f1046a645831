"""A small dataset, and a copy of it to be damaged."""

import pytest

from pmoss_datasets import Recipe, collect
from tests.datasets.damaging import TOY


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    recipe = Recipe(env=TOY, episodes=5, seed=2, reference_episodes=2, reference_budget=20)
    return collect(recipe, tmp_path_factory.mktemp("data") / "dataset")


@pytest.fixture
def folder(original, tmp_path):
    """A copy of the dataset, to be damaged."""
    target = tmp_path / "dataset"
    target.mkdir()
    for name in ("data.hdf5", "metadata.json"):
        (target / name).write_bytes((original.path / name).read_bytes())
    return target

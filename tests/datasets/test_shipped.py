"""What ships is small, sound, and comes out of its recipe again."""

import json

import numpy as np
import pytest

from pmoss_datasets import Recipe, catalog, collect, suite
from pmoss_datasets.card import card


@pytest.mark.parametrize("name", suite.SHIPPED)
def test_what_ships_is_small_sound_and_comes_out_of_its_recipe_again(name, tmp_path):
    dataset = catalog.load(name, tmp_path)
    assert dataset.path.is_relative_to(suite.SHIPPED_ROOT)
    dataset.verify()
    assert all(path.stat().st_size < 1_000_000 for path in dataset.path.iterdir())
    assert Recipe.from_dict(dataset.metadata.recipe) == suite.recipe_of(name)
    # A part of it, which each episode stands for by itself, to keep the test short.
    recipe = json.loads(json.dumps(dict(dataset.metadata.recipe)))
    recipe |= {"episodes": 3, "reference_episodes": 0}
    again = collect(Recipe.from_dict(recipe), tmp_path / "again")
    for field in again.metadata.fields:
        if field.axes != "K":  # padded to the most co-tenants of a dataset
            np.testing.assert_array_equal(
                again.column(field.name),
                dataset.column(field.name)[:3],
                err_msg=f"{field.name}: if the model or the environment was meant to change: "
                "pmoss data build --shipped --overwrite",
            )


@pytest.mark.parametrize("name", suite.MEASURED)
def test_what_was_measured_is_small_sound_and_tells_its_spread(name, tmp_path, monkeypatch):
    dataset = catalog.load(name, tmp_path)
    assert dataset.path.is_relative_to(suite.SHIPPED_ROOT)
    dataset.verify()
    assert all(path.stat().st_size < 1_000_000 for path in dataset.path.iterdir())
    assert dataset.metadata.env_kwargs["backend"] == "hardware"
    # Two schedules an episode.
    assert 2 * len(dataset) >= 1000
    assert dataset.checksum == suite.MEASURED[name]
    assert suite.licence_of(dataset) == suite.LICENCE
    text = card(dataset)
    assert "this project measured these data" in text
    stayed = np.ones(len(dataset), dtype=bool)
    for part in ("cores", "nodes"):
        both = (dataset.column(f"{when}_{part}") for when in ("incumbent", "final"))
        stayed &= np.equal(*both).all(axis=1)
    first, again = (dataset.column(f"{when}_throughput") for when in ("incumbent", "final"))
    stayed &= (first > 0) & (again > 0)
    ratio = float(np.exp(np.log(again[stayed] / first[stayed]).mean()))
    assert f"In {stayed.sum()} episodes the schedule stayed" in text
    assert f"an A/A test. The second measurement is {ratio:.3f} times the first" in text
    monkeypatch.setattr("pmoss_datasets.spatial.card._REPEATS", stayed.sum() + 1)
    assert "A/A" not in card(dataset)

import json

import h5py
import numpy as np
import pytest

from pmoss_datasets.access_path.scans import (
    FIELDS,
    AccessPathRecipe,
    collect_scans,
    open_scans,
    simulate,
)
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError

RECIPE = AccessPathRecipe(combinations=10, repeats=3, distribution={"doublings": 3})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("scans") / "data"
    progress = []
    collect_scans(RECIPE, path, lambda done, total: progress.append((done, total)))
    assert progress[-1] == (10, 10)
    return path


def test_it_holds_every_repeat_of_every_combination_on_both_paths(folder):
    dataset = open_scans(folder)
    dataset.verify()
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


def test_the_recipe_gives_the_same_bits_in_any_number_of_threads(folder):
    dataset = open_scans(folder)
    again = simulate(dataset.recipe, threads=2)
    for name in FIELDS:
        assert np.array_equal(dataset.columns[name], again[name]), name


def test_whole_combinations_are_held_out(folder):
    train, test = open_scans(folder).split()
    assert len(test) == 2
    assert sorted([*train, *test]) == list(range(10))


def test_a_damaged_field_is_refused_by_name(folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    with h5py.File(copy / "data.hdf5", "r+") as file:
        file["run_time_us"][3, 1, 0] += 1.0
    with pytest.raises(DatasetError, match="run_time_us"):
        open_scans(copy).verify()
    metadata = json.loads((copy / "metadata.json").read_text())
    metadata["recipe"]["seed"] = 1
    (copy / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(DatasetError, match="differs"):
        open_scans(copy)
    (copy / "data.hdf5").write_bytes(b"rubbish")
    with pytest.raises(DatasetError, match=r"data\.hdf5"):
        open_scans(copy)
    with pytest.raises(DatasetError, match="no dataset"):
        open_scans(tmp_path)


def test_nothing_is_replaced_unasked_and_nothing_left_behind(folder, tmp_path):
    with pytest.raises(DatasetError, match="exists"):
        collect_scans(RECIPE, folder)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_scans(RECIPE, tmp_path / "new", stop)
    assert list(tmp_path.iterdir()) == []
    before = open_scans(folder).checksum
    collect_scans(RECIPE, folder, overwrite=True)
    assert open_scans(folder).checksum == before
    assert [p.name for p in folder.parent.iterdir()] == ["data"]


def test_impossible_recipes_are_refused():
    with pytest.raises(DescriptionError):
        AccessPathRecipe(repeats=0)
    with pytest.raises(DescriptionError):
        AccessPathRecipe(noise=-1.0)
    with pytest.raises(UnknownNameError):
        AccessPathRecipe(distribution={"size": 1})

"""A recipe alone decides a dataset, and an interrupted collection goes on."""

import json
import os
import re
from pathlib import Path

import pytest

from pmoss_datasets import Recipe, collect
from pmoss_env.errors import DatasetError, DescriptionError

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


def test_the_same_recipe_gives_the_same_bits_with_any_number_of_processes(tmp_path):
    recipe = Recipe(env=TOY, episodes=9, seed=5, reference_episodes=2, reference_budget=50)
    first = collect(recipe, tmp_path / "one")
    second = collect(recipe, tmp_path / "two", processes=2)
    assert first.metadata == second.metadata
    assert first.metadata.checksums == second.metadata.checksums
    again = Recipe.from_dict(json.loads((tmp_path / "one/metadata.json").read_text())["recipe"])
    assert again == recipe


def test_an_existing_folder_is_kept_by_default(tmp_path):
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    with pytest.raises(DescriptionError, match="give a Recipe"):
        collect({"env": TOY}, tmp_path / "dataset")
    collect(recipe, tmp_path / "dataset")
    with pytest.raises(DatasetError, match="exists already"):
        collect(recipe, tmp_path / "dataset")
    collect(recipe, tmp_path / "dataset", overwrite=True)
    (tmp_path / "precious").mkdir()
    with pytest.raises(DatasetError, match="no dataset"):
        collect(recipe, tmp_path / "precious", overwrite=True)


def never(done, total):
    raise AssertionError("an episode was collected")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_target_that_cannot_be_written_is_refused_before_collecting(tmp_path, overwrite):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    for target in (
        tmp_path / "folder",
        tmp_path / "file",
        tmp_path / "file" / "dataset",
        tmp_path / ("x" * 300),
        Path("/proc/self/dataset"),
    ):
        with pytest.raises(DatasetError, match=re.escape(str(target))):
            collect(recipe, target, progress=never, overwrite=overwrite)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_before_collecting(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DatasetError, match="cannot be written: Permission denied"):
            collect(Recipe(env=TOY, episodes=1), tmp_path / "a" / "b", progress=never)
    finally:
        tmp_path.chmod(0o700)


def test_an_interrupted_collection_goes_on_where_it_stopped(tmp_path):
    recipe = Recipe(env=TOY, episodes=6, reference_episodes=2, reference_budget=20)
    whole = collect(recipe, tmp_path / "whole")

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(recipe, tmp_path / "dataset", progress=stop)
    partial = tmp_path / "dataset.partial"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.partial", "whole"]
    # A kill may cut the record that is being written.
    partial.write_bytes(partial.read_bytes()[:-5])
    with pytest.raises(
        DatasetError, match=r"dataset\.partial: holds results of another command: recipe differ"
    ):
        collect(Recipe(env=TOY, episodes=7), tmp_path / "dataset")
    progress = []
    dataset = collect(
        recipe, tmp_path / "dataset", lambda *done: progress.append(done), processes=2
    )
    assert progress[0] == (2, 8) and progress[-1] == (8, 8)
    assert dataset.metadata == whole.metadata
    assert not partial.exists()

"""A recipe alone decides a dataset and its quality; what was cut goes on, and actions replay."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, load, write_dataset
from pmoss_datasets.card import card
from pmoss_datasets.domain import find_domain
from pmoss_datasets.quality import relative_outcomes, trajectory_quality
from pmoss_datasets.replaying import replay
from pmoss_datasets.several import Several
from pmoss_datasets.suite import SHIPPED
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError
from pmoss_env.machines.catalog import PRESETS

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


def test_the_same_recipe_gives_the_same_bits_with_any_number_of_processes(tmp_path):
    recipe = Recipe(env=TOY, episodes=9, seed=5, reference_episodes=2, reference_budget=50)
    first = collect(recipe, tmp_path / "one")
    second = collect(recipe, tmp_path / "two", processes=2)
    assert first.metadata == second.metadata
    assert first.metadata.checksums == second.metadata.checksums
    again = Recipe.from_dict(json.loads((tmp_path / "one/metadata.json").read_text())["recipe"])
    assert again == recipe


def test_an_existing_folder_is_kept_by_default(tmp_path, monkeypatch):
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    with pytest.raises(DescriptionError, match="give a Recipe"):
        collect({"env": TOY}, tmp_path / "dataset")
    collect(recipe, tmp_path / "dataset")
    with pytest.raises(DatasetError, match="exists already"):
        collect(recipe, tmp_path / "dataset")
    monkeypatch.chdir(tmp_path / "dataset")
    collect(recipe, ".", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"dataset"}
    (tmp_path / "precious").mkdir()
    for files in ({}, {"metadata.json": '{"title": "my thesis"}', "thesis.tex": ""}):
        for name, text in files.items():
            (tmp_path / "precious" / name).write_text(text)
        with pytest.raises(DatasetError, match="no dataset"):
            collect(recipe, tmp_path / "precious", overwrite=True)


def test_a_collection_does_not_go_on_with_another_machine_of_the_same_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text((PRESETS / "toy.toml").read_text())
    recipe = Recipe(env={**TOY, "machine": str(file)}, episodes=4, reference_episodes=0)

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(recipe, tmp_path / "dataset", progress=stop)
    file.write_text(file.read_text() + "\n# edited\n")
    with pytest.raises(DatasetError, match=r"holds results of another command: files"):
        collect(recipe, tmp_path / "dataset")
    with pytest.raises(DescriptionError, match="address = 'host:1': is of the executors ray and"):
        collect(recipe, tmp_path / "other", address="host:1")


def never(done, total):
    raise AssertionError("an episode was collected")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_target_that_cannot_be_written_is_refused_before_collecting(tmp_path, overwrite):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    below = (tmp_path / name for name in ("folder", "file", "file/dataset", "x" * 300))
    for target in (*below, Path("/proc/self/dataset")):
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
    with pytest.raises(DatasetError, match=r"another command: recipe\.episodes was 6 and is 7"):
        collect(Recipe(env=TOY, episodes=7), tmp_path / "dataset")
    progress = []
    dataset = collect(
        recipe, tmp_path / "dataset", lambda *done: progress.append(done), processes=2
    )
    assert progress[0] == (2, 8) and progress[-1] == (8, 8)
    assert dataset.metadata == whole.metadata
    assert not partial.exists()


ENVS = {
    "spatial": {"machine": "toy", "slices": 6, "interference": "busy_core", "noise": 1.0},
    "threads": {"requests": 50_000},
    "access-path": {"scans": 4, "noise": 1.0},
    "continual": {"machine": "toy", "slices": 6, "epochs": 3, "noise": 1.0},
}


@pytest.mark.parametrize("domain", ENVS)
def test_what_was_collected_comes_out_again(domain, tmp_path):
    recipe = Recipe(domain=domain, env=ENVS[domain], episodes=4, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "data")
    progress = []
    assert list(replay(dataset, lambda done, total: progress.append((done, total)))) == []
    assert progress == [(done, 4) for done in range(1, 5)]
    episodes = list(dataset)
    episodes[2] = replace(episodes[2], seed=episodes[2].seed + 1)
    other = write_dataset(tmp_path / "other", episodes, dataset.metadata)
    problems = list(replay(other))
    assert len(problems) == 1 and "episode 2: " in problems[0]
    assert not np.array_equal(dataset.column("seed"), other.column("seed"))


def test_a_co_tenant_that_was_not_there_is_noticed(tmp_path):
    quiet = {"machine": "toy", "slices": 4, "interference": "none"}
    dataset = collect(Recipe(env=quiet, episodes=2, reference_episodes=0), tmp_path / "data")
    assert list(replay(dataset)) == []
    beside = {
        "neighbour_family": np.array([1], dtype=np.int16),
        "neighbour_target": np.array([0], dtype=np.int16),
        "neighbour_strength": np.array([0.9]),
    }
    episodes = [replace(episode, **beside) for episode in dataset]
    forged = write_dataset(tmp_path / "forged", episodes, dataset.metadata)
    assert ["neighbour_family" in problem for problem in replay(forged)] == [True, True]


def test_datasets_of_other_machines_and_sizes_are_held_together(tmp_path):
    small = Recipe(env={"machine": "random:1", "slices": 4}, episodes=2, reference_episodes=0)
    parts = [load("pmoss/toy-btree-ycsb-a-busy-core/mixed-v0"), collect(small, tmp_path / "small")]
    both = Several(parts)
    assert both.parts == tuple(parts) and both.id == f"{parts[0].id} + {parts[1].id}"
    assert both.path == parts[0].path and both.checksum != Several(parts[::-1]).checksum


def test_nothing_and_the_same_twice_are_refused():
    with pytest.raises(DescriptionError, match="no datasets"):
        Several([])
    dataset = load("pmoss/toy-btree-ycsb-a-busy-core/mixed-v0")
    with pytest.raises(DatasetError, match="the same episodes"):
        Several([dataset, dataset])


BUSY_TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}


def collected(folder, *policies, **more):
    behaviours = tuple({"policy": policy} for policy in policies)
    recipe = Recipe(env=BUSY_TOY, episodes=24, tier="x", behaviours=behaviours, **more)
    return collect(recipe, folder / "-".join(policies))


def test_an_instance_is_its_own_scale(tmp_path):
    dataset = collected(tmp_path, "random", "lpt", reference_budget=300, relative=True)
    assert list(dataset.problems()) == []
    low, high = dataset.column("instance_random"), dataset.column("instance_search")
    assert (low < high).all() and len(set(high.tolist())) == len(dataset)
    relative = relative_outcomes(dataset)
    assert np.array_equal(relative, (dataset.column("final_throughput") - low) / (high - low))
    assert relative.max() <= 1.0 + 1e-9
    policy = dataset.column("policy")
    assert relative[policy == 1].mean() > relative[policy == 0].mean()
    text = card(dataset)
    assert "relative to the instance" in text and "each episode's own instance" in text


def test_quality_is_of_random_actions_and_of_instances_that_tell_apart(tmp_path):
    recipe = Recipe(domain="threads", env=ENVS["threads"], episodes=3, reference_episodes=2)
    threads = collect(recipe, tmp_path / "threads")
    # Its score of 0 is that of staying.
    assert trajectory_quality(threads) is None and "(TQ)" not in card(threads)
    env = {"machine": "toy", "slices": 1, "interference": "none"}
    recipe = Recipe(env=env, episodes=3, reference_episodes=0, reference_budget=20, relative=True)
    assert np.isnan(relative_outcomes(alike := collect(recipe, tmp_path / "alike"))).all()
    assert trajectory_quality(alike) is None


@pytest.mark.parametrize("id_", SHIPPED)
def test_every_shipped_card_tells_both(id_):
    text = card(load(id_))
    assert "Trajectory quality (TQ)" in text and "State-action coverage (SACo)" in text


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DescriptionError, match="has no search to compare with"):
        Recipe(domain="threads", relative=True)
    recipe = Recipe(env={**BUSY_TOY, "backend": "simulated"}, relative=True)
    with pytest.raises(UnsupportedError, match="cannot be searched"):
        find_domain("spatial").player(recipe)

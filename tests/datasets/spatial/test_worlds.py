"""Made-up worlds, and schedules that are drawn once, read no load, and are replayed."""

from dataclasses import replace

import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_datasets.card import card
from pmoss_datasets.catalog import load_data, verify
from pmoss_datasets.spatial import world_sets
from pmoss_datasets.spatial.world_sets import WorldSet, WorldsRecipe, make_worlds
from pmoss_datasets.spatial.worlds import SPLITS, draw_world
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.machines import load_machine


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(world_sets, "SHARD", 2)


def test_worlds_are_of_no_named_machine_and_no_two_splits_share_one():
    assert min(np.diff(sorted(SPLITS.values()))) >= world_sets.MAX_WORLDS
    assert all(draw_world(split, 0).machine.startswith("random") for split in SPLITS)


@pytest.mark.usefixtures("small_files")
def test_the_bits_are_the_same_however_a_set_was_made(tmp_path):
    at_once = make_worlds(WorldsRecipe("train", 5), tmp_path / "once")
    make_worlds(WorldsRecipe("train", 2), tmp_path / "grown")
    grown = make_worlds(WorldsRecipe("train", 5), tmp_path / "grown", processes=2)
    assert grown.checksum == at_once.checksum
    assert all(grown[number].tobytes() == at_once[number].tobytes() for number in range(5))
    assert not list(verify([tmp_path / "once"]))
    domain, data = load_data(tmp_path / "once")
    assert (domain.name, len(data), data.pieces) == ("spatial", 5, "worlds")


@pytest.mark.usefixtures("small_files")
def test_a_set_can_be_read_while_it_is_made(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    recipe = WorldsRecipe("train", 6)
    with pytest.raises(KeyboardInterrupt):
        make_worlds(recipe, tmp_path / "set", stop)
    begun = WorldSet(tmp_path / "set")
    assert begun.made(2) and not begun.made(3) and begun[1]["slices"] > 0
    with pytest.raises(DatasetError, match="is missing: pmoss data worlds"):
        begun[2]
    assert begun.checksum == make_worlds(recipe, tmp_path / "set").checksum


@pytest.mark.usefixtures("small_files")
def test_a_set_that_was_stopped_holds_the_first_worlds(tmp_path):
    made = make_worlds(WorldsRecipe("train", 9), tmp_path / "set", seconds=0.0)
    assert len(made) == 2 and not list(verify([tmp_path / "set"]))
    grown = make_worlds(WorldsRecipe("train", 4), tmp_path / "set")
    assert len(grown) == 4 and grown[0].tobytes() == made[0].tobytes()


@pytest.mark.usefixtures("small_files")
def test_what_is_wrong_is_named(tmp_path):
    for wrong, error in (({"split": "all"}, UnknownNameError), ({"count": 0}, DescriptionError)):
        with pytest.raises(error):
            WorldsRecipe(**wrong)
    made = make_worlds(WorldsRecipe("test", 3), tmp_path / "worlds")
    with pytest.raises(DatasetError, match="exists already"):
        make_worlds(WorldsRecipe("train", 3), tmp_path / "worlds")
    with pytest.raises(IndexError):
        made[3]
    other = make_worlds(WorldsRecipe("train", 1), tmp_path / "worlds", overwrite=True)
    assert (other.recipe.split, len(list(other.path.glob("*.npy")))) == ("train", 1)
    made = make_worlds(WorldsRecipe("test", 3), tmp_path / "worlds", overwrite=True)
    place = next(iter(sorted((tmp_path / "worlds").glob("*.npy"))))
    content = bytearray(place.read_bytes())
    content[-1] ^= 1
    place.write_bytes(content)
    with pytest.raises(DatasetError, match="is not what was written"):
        WorldSet(tmp_path / "worlds").verify()
    make_worlds(WorldsRecipe("test", 3), tmp_path / "worlds")  # makes that file anew
    assert place.read_bytes() != content and not list(verify([tmp_path / "worlds"]))
    place.write_bytes(bytes(content[:1000]))
    with pytest.raises(DatasetError, match="damaged"):
        WorldSet(tmp_path / "worlds")[0]


ENV = {
    "machine": "milan-nps4",
    "slices": 128,  # Mixed differs from Grouped
    "observation": "paper",
    "workload_seed": 0,
    "noise": 1.0,
}


def recipe_of(**changes):
    return Recipe(env=ENV, tier="authors", reference_episodes=0, **{"episodes": 106, **changes})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return collect(recipe_of(), tmp_path_factory.mktemp("authors") / "data")


def schedules(dataset):
    return {cores.tobytes() for cores in dataset.column("final_cores")}


def test_few_schedules_are_replayed_about_equally_often(dataset):
    files = sum(behaviour.fixed for behaviour in recipe_of().behaviours)
    assert len(schedules(dataset)) == files == 53
    counts = np.unique(dataset.column("final_cores"), axis=0, return_counts=True)[1]
    assert counts.min() >= 1 and counts.max() <= 4
    # The hot keys stay; each replay is another reading of the counters.
    assert len(np.unique(dataset.column("workload_seed"))) == 1
    assert len(np.unique(dataset.column("final_throughput"))) == len(dataset)


def test_the_same_schedules_whatever_the_seed_workload_and_load(dataset, tmp_path):
    other = {**ENV, "workload": "scans", "load": "saturated"}
    again = collect(replace(recipe_of(seed=77), env=other), tmp_path / "other")
    assert schedules(again) == schedules(dataset)


def test_a_scattered_rule_keeps_its_nodes(dataset):
    machine = load_machine("milan-nps4")
    which = list(dataset.metadata.policy_names).index("grouped-scattered-fixed10")
    mine = dataset.column("final_cores")[dataset.column("policy") == which]
    run = 128 // machine.nodes
    assert (machine.node_of_core[mine] == np.arange(128) // run).all()
    assert len(np.unique(mine, axis=0)) == 10


def test_constraints_bind_scattered_slices(tmp_path):
    env = {"machine": "toy", "slices": 12, "constraints": {"max_slices_per_core": 3}}
    behaviours = (Behaviour("grouped", fixed=2, scattered=True),)
    data = collect(
        Recipe(env=env, episodes=4, reference_episodes=0, behaviours=behaviours, tier="mine"),
        tmp_path / "data",
    )
    assert max(np.bincount(cores).max() for cores in data.column("final_cores")) <= 3
    assert np.isnan(data.column("propensity")).all()


def test_its_card_says_what_differs_from_mixed(dataset):
    assert "In 106 of 106 episodes one of 53 fixed schedules is replayed" in card(dataset)
    assert "The tier `mixed` differs" in card(dataset)


def test_other_recipes_are_stored_as_ever():
    behaviour = Recipe(env=ENV).as_dict()["behaviours"][0]
    assert "fixed" not in behaviour and "scattered" not in behaviour
    stored = recipe_of().as_dict()
    assert [each.get("fixed") for each in stored["behaviours"]] == [30, 10, 10, 1, 1, 1]
    assert Recipe.from_dict(stored) == recipe_of()

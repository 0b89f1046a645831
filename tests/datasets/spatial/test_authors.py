"""The tier ``authors``: schedules that are drawn once, read no load, and are replayed."""

from dataclasses import replace

import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_datasets.card import card
from pmoss_env.machines import load_machine

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

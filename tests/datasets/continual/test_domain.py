"""Datasets and opponents of continual scheduling."""

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, find_domain
from pmoss_datasets.continual.domain import ORACLES, POLICIES
from pmoss_env.errors import DatasetError, UnsupportedError
from tests.datasets.live import check_steps

CONTINUAL = find_domain("continual")
ENV = {"machine": "toy", "slices": 8, "epochs": 5, "moves_per_epoch": 2, "noise": 1.0}
SERVER = {"slices": 64, "epochs": 12, "record_bytes": 250.0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    recipe = Recipe(domain="continual", env=ENV, episodes=10, reference_episodes=2)
    return collect(recipe, tmp_path_factory.mktemp("continual") / "data")


def test_every_step_is_the_live_one(dataset):
    assert dataset.metadata.id == (
        "pmoss/toy-continual-jobs-epochs-5-moves-per-epoch-2-noise-1-slices-8/mixed-v2"
    )
    tiles = dataset.machine.tiles
    assert dataset.metadata.parts == (9, tiles)
    for episode, _ in check_steps(CONTINUAL, dataset, lambda action: divmod(int(action), tiles)):
        assert "queries" in episode.infos


def test_no_oracle_is_among_the_data_and_the_opponents(dataset):
    assert not set(ORACLES) & {*dataset.metadata.policy_names, *CONTINUAL.opponents()}
    assert set(POLICIES) - set(ORACLES) <= set(CONTINUAL.opponents())


def test_views_of_single_actions_say_so(dataset):
    from pmoss_datasets.formats.d3rlpy import to_d3rlpy
    from pmoss_datasets.formats.minari import to_minari

    for view in (to_d3rlpy, lambda d: to_minari(d, "unused")):
        with pytest.raises(UnsupportedError, match="actions of 2 parts"):
            view(dataset)


def test_actions_of_other_parts_are_refused(dataset, tmp_path):
    from dataclasses import replace

    from pmoss_datasets import write_dataset

    wrong = replace(dataset.metadata, parts=(9, 9))
    with pytest.raises(DatasetError, match="parts"):
        write_dataset(tmp_path / "wrong", list(dataset), wrong)


@pytest.mark.parametrize("name", ["random", *POLICIES])
def test_every_policy_plays_a_server_and_repeats(name):
    env = CONTINUAL.make_env({**SERVER, "epochs": 4, "noise": 1.0})
    first = CONTINUAL.play(env, CONTINUAL.policy(name), 3)
    assert first.illegal_actions == 0 and first.outcome > 0
    again = CONTINUAL.play(env, CONTINUAL.policy(name), 3)
    assert again.actions == first.actions and again.outcome == first.outcome
    with pytest.raises(UnsupportedError, match="budget"):
        CONTINUAL.policy(name, budget=3)


def test_who_knows_more_serves_more():
    env = CONTINUAL.make_env({**SERVER, "slices": 256, "epochs": 20})
    served = {
        name: np.mean([CONTINUAL.play(env, CONTINUAL.policy(name), s).outcome for s in range(3)])
        for name in ("stay", "planner", "law-oracle", "thorough-law-oracle", "thorough-now-oracle")
    }
    assert served["planner"] > 1.05 * served["stay"]
    assert served["law-oracle"] > 1.02 * served["planner"]
    assert served["thorough-law-oracle"] > 1.02 * served["law-oracle"]
    assert served["thorough-now-oracle"] > 1.02 * served["thorough-law-oracle"]


def test_planners_let_a_moving_load_move_on():
    env = CONTINUAL.make_env(
        {
            "drift": "moving-load",
            "drift_options": {"speed": 2.0},
            "workload": "hot-range",
            "slices": 64,
            "epochs": 12,
        }
    )
    served = {
        name: CONTINUAL.play(env, CONTINUAL.policy(name), 3).outcome
        for name in ("planner", "thorough-planner", "delayed-oracle", "law-oracle")
    }
    # The law of this drift is what has been seen, and the last epoch alone does not tell it.
    for name in ("planner", "thorough-planner"):
        assert served[name] > 0.9 * served["law-oracle"] > 1.1 * served["delayed-oracle"]


@pytest.mark.parametrize(("drift", "load"), [("daily-mix", "closed"), ("daily-load", "open:30")])
def test_a_planner_without_noise_knows_what_the_last_epoch_was_like(drift, load):
    task = {"machine": "toy", "drift": drift, "load": load, "slices": 16, "incumbent": "grouped"}
    env = CONTINUAL.make_env({**task, "workload": "hot-range"})
    served = {
        name: CONTINUAL.play(env, CONTINUAL.policy(name), 3).outcome
        for name in ("stay", "planner", "delayed-oracle", "now-oracle")
    }
    assert served["planner"] == served["delayed-oracle"]
    assert min(served["planner"], served["now-oracle"]) > served["stay"]

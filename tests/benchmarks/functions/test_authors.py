"""The paper's network on data like its authors': trained, played at once, and replayed."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.functions import authors
from pmoss_benchmarks.functions.authors import cells, measure
from pmoss_benchmarks.spatial.author_networks import (
    KEYS,
    USUAL,
    WANTED,
    Settings,
    kept_network,
    stem_of,
)
from pmoss_benchmarks.spatial.author_tables import NAMED, best_of_random, factors
from pmoss_benchmarks.study.function import Run, silent
from pmoss_env.machines import load_machine

CHANGES = {
    **{"updates": 4, "layers": 1, "width": 16, "heads": 2, "channels": 8, "batch_size": 4},
    **{"save_every": 2, "held_out": 0.1},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authors")
    worlds = {"workloads": ("ycsb-a",), "loads": ("closed",), "new_workloads": ("scans",)}
    few = {"slices": 16, "data": 60, "episodes": 2, "tries": 2, "unseen": 2, "search_budget": 50}
    settings = Settings(("toy",), **worlds, **few, changes=CHANGES, agents=())
    made = Run(settings, folder / "data", folder / "keep", folder)
    authors.prepare(made, silent)
    return made


@pytest.fixture(scope="module")
def row(run):
    cell, _ = cells(run.settings)
    return {**cell, **measure(run, cell)}


def test_a_workload_that_no_data_have_is_played_too(run, row):
    _, cell = cells(run.settings)
    new = measure(run, cell)
    assert new["new"] and not row["new"] and new["trainings"] == []
    assert new["files"]["logged"] == row["files"]["logged"]
    assert new["files"]["served"] != row["files"]["served"]


def test_a_row_has_all_that_a_gain_is_made_of(row):
    assert len(row["files"]["served"]) == len(row["files"]["logged"]) > 40
    opponents = row["opponents"]["logged"]
    assert {*NAMED, "best-logged", "search", "lpt", "os-default"} <= set(opponents)
    # With the logged keys a schedule serves the same in each episode, whatever ran before.
    assert len(set(opponents["best-logged"])) == 1
    assert opponents["best-logged"][0] == pytest.approx(
        row["files"]["served"][int(np.argmax(row["files"]["logged"]))], rel=1e-5
    )
    assert all(a >= b for a, b in zip(opponents["search"], opponents["random"], strict=True))
    (training,) = row["trainings"]
    assert training["curve"][-1]["update"] == training["updates"] == 4
    assert set(training["unseen"]) == {"closed ycsb-a"}


def test_the_network_is_asked_with_and_without_a_limit(run, row):
    (network,) = row["networks"]
    plays = network["plays"]
    assert {play["keys"] for play in plays} == set(KEYS)
    assert {play["wanted"] for play in plays if play["keys"] == "logged"} == set(WANTED)
    limit = 16 // load_machine("toy").workers.size + 1
    kept = np.load(stem_of(run, "toy", 0).with_name(stem_of(run, "toy", 0).name + ".npz"))
    for actions, most in zip(kept["actions"], kept["limit"], strict=True):
        assert most in (0, limit) and np.bincount(actions).max() <= (most or 16)
    assert all(0 <= play["agree"] <= 1 for play in plays)
    assert [play["wanted"] for play in plays if "actions" in play] == [USUAL] * 2


def test_stored_actions_serve_the_same_again(run, row):
    assert authors.again(run, row)["networks"] == row["networks"]
    bent = {**row, "networks": [{**row["networks"][0]}]}
    plays = [{**play, "served": [0.0, 0.0]} for play in row["networks"][0]["plays"]]
    bent["networks"][0]["plays"] = plays
    assert authors.again(run, bent)["networks"] != bent["networks"]


def test_of_further_trainings_only_the_training_is_kept(run, row):
    settings = replace(run.settings, seeds_of={"toy": 2})
    made, cell = replace(run, settings=settings), cells(settings)[0]
    authors.prepare(made, silent)
    further = {**cell, **measure(made, cell)}
    assert further["trainings"][:1] == row["trainings"] and further["networks"] == row["networks"]
    assert len(authors.TABLES["default"]([further]).rows) == 2
    assert authors.summarise(settings, [further])["trainings"] == 2


def test_a_machine_has_changes_of_its_own_and_weights_are_found_by_their_config(run, row):
    settings = replace(run.settings, new_workloads=(), changes_of={"toy": {"updates": 2}})
    made = replace(run, settings=settings)
    authors.prepare(made, silent)
    (cell,) = cells(settings)
    (training,) = measure(made, cell)["trainings"]
    assert training["config"]["updates"] == 2 and row["trainings"][0]["config"]["updates"] == 4
    for wanted in (training, row["trainings"][0]):
        agent = kept_network(made, "toy", wanted["config"])
        assert agent is not None and agent.config.updates == wanted["updates"]
    assert kept_network(made, "toy", {**training["config"], "seed": 9}) is None


def test_variants_are_networks_of_their_own(run):
    variants = {"as it is": {}, "LSTM": {"backbone": "lstm"}}
    settings = replace(run.settings, new_workloads=(), variants=variants)
    made = replace(run, settings=settings)
    authors.prepare(made, silent)
    rows = [{**cell, **measure(made, cell)} for cell in cells(settings)]
    assert [row["variant"] for row in rows] == list(variants)
    assert [row["trainings"][0]["config"]["backbone"] for row in rows] == ["transformer", "lstm"]
    assert rows[0]["networks"] != rows[1]["networks"]
    assert [line[0] for line in authors.TABLES["variants"](rows).rows] == list(variants)


def test_the_factors_of_a_gain(row):
    parts = factors(row)
    product = parts["retrieval"] * parts["learning"] * parts["selection"]
    assert parts["gain"] == pytest.approx(product)
    assert parts["selection"] >= 1 and parts["tries"] == 2
    for name in authors.TABLES:
        assert authors.TABLES[name]([{**row, "variant": "as it is"}]).rows
    authors.PLOTS["accuracy"]([row])


def test_the_best_of_some_random_schedules():
    served = np.array([3.0, 1.0, 2.0])
    assert best_of_random(served, 1) == pytest.approx(2.0)
    assert best_of_random(served, 2) == pytest.approx((3 + 3 + 2) / 3)
    assert best_of_random(served, 9) == 3.0

import pytest

from pmoss_benchmarks.access_path.measurements import Measurements
from pmoss_benchmarks.access_path.models import MODELS, compare
from pmoss_benchmarks.functions.access_path import (
    FIGURES,
    model_figures,
    physical_figures,
    play,
)
from pmoss_benchmarks.validation.targets import judge
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans


@pytest.fixture(scope="module")
def dataset():
    return collect_scans(AccessPathRecipe(combinations=150, repeats=4))


def test_models_choose_well_on_held_out_combinations(dataset):
    train, test = dataset.split()
    scores = compare(dataset.pairs(train), dataset.pairs(test))
    assert [s.model for s in scores] == list(MODELS)
    by_model = {s.model: s for s in scores}
    products = by_model["linear pair, products"]
    assert products.r2["cpu"] > 0.95
    assert products.r2["offload"] > 0.95
    assert products.above_best < 0.02
    assert (
        products.above_best < by_model["linear pair"].above_best < by_model["always CPU"].above_best
    )
    assert by_model["always CPU"].as_dict()["precision"] is None
    best = min(scores, key=lambda score: score.above_best).model
    figures = judge(
        FIGURES, {**physical_figures(Measurements()), **model_figures(scores)}, best=best
    )
    of_models = {"E13", "E14", "E15", "E16"}
    physical = [figure for figure in figures if figure["row"] not in of_models]
    assert all(figure["low"] <= figure["ours"] <= figure["high"] for figure in physical)
    assert sum(figure["verdict"] == "inside" for figure in physical) >= 12


def test_agents_play_the_same_episodes(dataset):
    played = play(dataset, episodes=2, scans=6)
    by_agent = {(p["agent"], p["fitted_to"]): p for p in played}
    assert by_agent["oracle", "nothing"]["above_oracle"] == 0.0
    assert all(p["above_oracle"] >= 0 and p["scans"] == 12 for p in played)

"""Access paths, and datasets of every id: what changes a published figure."""

from pathlib import Path

import pytest

from pmoss_benchmarks.access_path.measurements import Measurements
from pmoss_benchmarks.access_path.models import MODELS, compare
from pmoss_benchmarks.functions import datasets, scan_conditions
from pmoss_benchmarks.functions.access_path import FIGURES, model_figures, physical_figures, play
from pmoss_benchmarks.functions.datasets import Settings, every_id, measure
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results
from pmoss_benchmarks.validation.targets import judge
from pmoss_datasets import open_dataset
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_datasets.suite import SHIPPED, SHIPPED_ROOT
from pmoss_env.errors import UnknownNameError
from tests.replays import recheck


@pytest.fixture(scope="module")
def dataset():
    return collect_scans(AccessPathRecipe(combinations=150, repeats=4))


def test_models_choose_well_on_held_out_combinations(dataset):
    train, test = dataset.split()
    scores = compare(dataset.pairs(train), dataset.pairs(test))
    assert [s.model for s in scores] == list(MODELS)
    by_model = {s.model: s for s in scores}
    products = by_model["linear pair, products"]
    assert products.r2["cpu"] > 0.95 and products.r2["offload"] > 0.95
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


RESULTS = Results(Path(__file__).resolve().parents[3])
RUN = Run(scan_conditions.Settings(), Path(), Path(), Path())


def test_products_and_one_distance_bring_the_models_inside() -> None:
    usual, products, near = (
        scan_conditions.measure(RUN, {"case": case})["got"]
        for case in ("as judged", "products", "one distance")
    )
    for name in ("R2 of the CPU model", "R2 of the GRU model"):
        assert products[name] > 0.96 > usual[name]
    assert near["R2 of the CPU model"] > 0.96, "at one distance the time per byte is one"
    (scans,) = RESULTS["access-path"].rows
    rows = RESULTS["scan-conditions"].rows
    table = scan_conditions.causes(rows, scans["statements"], *usual)
    assert table.rows[0][0] == "as judged" and len(table.rows) == 6
    (row,) = (row for row in rows if row["case"] == "products")
    assert recheck(scan_conditions, RUN, dict(row)) == []
    assert recheck(scan_conditions, RUN, {**row, "scans": 1}) != []


ROWS = Results(Path(__file__).resolve().parents[3])["datasets"].rows


def test_the_rows_are_of_the_suite() -> None:
    by_id = {row["id"]: row for row in ROWS}
    assert set(SHIPPED) <= set(by_id) <= set(every_id())
    for id_ in SHIPPED:
        assert by_id[id_]["checksum"] == open_dataset(SHIPPED_ROOT / id_).checksum
    with pytest.raises(UnknownNameError, match="no-task"):
        Settings(("pmoss/no-task/mixed-v0",))


def test_a_dataset_that_is_not_there_is_built(tmp_path: Path) -> None:
    run = Run(Settings(), tmp_path, tmp_path, tmp_path)
    (stored,) = (row for row in ROWS if row["id"] == SHIPPED[0])
    assert recheck(datasets, run, dict(stored)) == []
    assert "episodes: stored 1, now 300" in recheck(datasets, run, {**stored, "episodes": 1})
    id_ = "pmoss/toy-btree-ycsb-a-busy-core/random-v0"
    assert measure(run, {"id": id_})["episodes"] == 200
    assert open_dataset(tmp_path / id_).id == id_

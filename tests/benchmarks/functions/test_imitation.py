"""The paper's network: trained, gone on with, and held against what can be learned."""

import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from pmoss_agents.configs import read_config
from pmoss_agents.training_log import read_log
from pmoss_benchmarks.functions import imitation
from pmoss_benchmarks.functions.imitation import (
    CONFIG,
    WANTED,
    Settings,
    bound_of,
    cells,
    measure,
    prepare,
    recipe_of,
)
from pmoss_benchmarks.study import Run
from pmoss_datasets.storage import open_dataset
from pmoss_datasets.suite import SHIPPED_ROOT, TOY
from pmoss_datasets.suite import recipe_of as shipped_recipe
from tests.replays import recheck

SHIPPED = f"pmoss/{TOY}/mixed-v0"
SMALL = {"updates": 4, "layers": 1, "width": 16, "heads": 2, "batch_size": 1, "save_every": 1}


def test_the_config_is_the_papers() -> None:
    config = read_config(CONFIG)
    assert [config[name] for name in ("layers", "heads", "width")] == [6, 8, 128]
    assert config["meta_position"] == "last" and config["reward"] == "slice"
    # What the paper's tokens hold: masks, and the counters of the slices placed on each core.
    assert config["inputs"] == ["core"] and config["doubt"] == 0
    assert recipe_of(Settings((TOY,)), TOY).env["observation"] == "paper"
    assert recipe_of(Settings((TOY,), data=7), TOY).id.endswith("/mixed-of-7-v0")


def test_what_is_drawn_at_random_can_only_be_guessed() -> None:
    data = open_dataset(SHIPPED_ROOT / SHIPPED)
    bound = bound_of(data)
    cores = data.machine.workers.size
    by_behaviour = {each["behaviour"]: each for each in bound["behaviours"]}
    assert sum(each["share"] for each in by_behaviour.values()) == pytest.approx(1)
    assert by_behaviour["random"]["accuracy"] == pytest.approx(1 / cores)
    assert by_behaviour["lpt"]["accuracy"] == 1
    noisy = next(each for name, each in by_behaviour.items() if "eps0.1" in name)
    assert noisy["accuracy"] == pytest.approx(0.9 + 0.1 / cores)
    assert 0 < bound["accuracy"] < 1
    assert bound["loss"] >= by_behaviour["random"]["share"] * math.log(cores)
    assert len(shipped_recipe(SHIPPED).behaviours) == len(by_behaviour)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = Settings((TOY,), data=12, changes=SMALL, unseen=12, episodes=2)
    folder = tmp_path_factory.mktemp("imitation")
    return Run(settings, folder, folder, folder)


def test_a_training_goes_on_and_what_it_serves_runs_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if what.startswith("updates") and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(run, stop)
    (log,) = run.keep.glob("imitation-*.jsonl")
    assert [line["update"] for line in read_log(log)] == [1, 2]
    (cell,) = cells(run.settings)
    row = {**cell, **measure(run, cell)}
    assert [point["update"] for point in row["curve"]] == [1, 2, 3, 4]
    assert row["config"]["meta_position"] == "last"
    assert [each["wanted"] for each in row["played"]] == list(WANTED)
    assert sum(each["episodes"] for each in row["unseen"]) == 12
    assert all(0 <= each["accuracy"] <= 1 for each in row["unseen"])
    # What was trained is trained no more.
    monkeypatch.setattr("pmoss_agents.trainer.train", None)
    assert measure(run, cell)["played"] == row["played"]
    assert recheck(imitation, run, row) == []
    row["played"][0]["served"][1] *= 1.5
    (line,) = recheck(imitation, run, row)
    assert line.startswith("played[0].served[1]: stored")

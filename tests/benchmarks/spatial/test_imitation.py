"""The paper's network: trained for a time, gone on with, and told beside what can be learned."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmoss_agents.configs import read_config
from pmoss_agents.training_log import read_log
from pmoss_benchmarks.spatial.imitation import (
    CONFIG,
    UNSEEN,
    WANTED,
    bound_of,
    curve_of,
    recipe_of,
)
from pmoss_datasets.evaluation import replay
from pmoss_datasets.storage import open_dataset
from pmoss_datasets.suite import SHIPPED_ROOT, TOY
from pmoss_datasets.suite import recipe_of as shipped_recipe
from pmoss_env.cli.app import make_app
from pmoss_env.errors import DescriptionError

SHIPPED = f"pmoss/{TOY}/mixed-v0"
SMALL = ("updates=4", "layers=1", "width=16", "heads=2", "batch_size=1", "save_every=1")


def test_the_config_is_the_papers() -> None:
    config = read_config(CONFIG)
    assert [config[name] for name in ("layers", "heads", "width")] == [6, 8, 128]
    assert config["meta_position"] == "last" and config["reward"] == "slice"
    # What the paper's tokens hold: masks, and the counters of the slices placed on each core.
    assert config["inputs"] == ["core"] and config["doubt"] == 0
    assert recipe_of(TOY, "mixed").env["observation"] == "paper"
    assert recipe_of(TOY, "mixed", 7).id.endswith("/mixed-of-7-v0")


def test_what_is_drawn_at_random_can_only_be_guessed() -> None:
    data = open_dataset(SHIPPED_ROOT / SHIPPED)
    found = bound_of(data)
    cores = data.machine.workers.size
    of = {one["behaviour"]: one for one in found["behaviours"]}
    assert sum(one["share"] for one in of.values()) == pytest.approx(1)
    assert of["random"]["accuracy"] == pytest.approx(1 / cores)
    assert of["lpt"]["accuracy"] == 1
    noisy = next(one for name, one in of.items() if "eps0.1" in name)
    assert noisy["accuracy"] == pytest.approx(0.9 + 0.1 / cores)
    assert 0 < found["accuracy"] < 1
    assert found["loss"] >= of["random"]["share"] * math.log(cores)
    assert len(shipped_recipe(SHIPPED).behaviours) == len(of)


def test_a_curve_holds_means_of_windows() -> None:
    rows = [{"update": i, "cpu_seconds": i, "loss": i, "accuracy": 0.5} for i in range(1, 121)]
    rows[3]["held_out_loss"] = 7
    curve = curve_of(rows)
    assert len(curve) == 60
    assert curve[0] == {"update": 2, "cpu_seconds": 2, "loss": 1.5, "accuracy": 0.5}
    assert curve[1]["held_out_loss"] == 7


def test_without_a_checkpoint_and_without_seconds_nothing_is_done(tmp_path: Path) -> None:
    path = tmp_path / "none" / "paper.safetensors"
    call = ["benchmark", "imitation", "--seconds", "0", "--checkpoint", str(path)]
    told = CliRunner().invoke(make_app(), call)
    assert isinstance(told.exception, DescriptionError) and "is no checkpoint yet" in str(
        told.exception
    )
    assert not path.parent.exists()


def test_the_command_goes_on_and_stores_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, out = tmp_path / "new" / "a.safetensors", tmp_path / "out.json"
    call = ["benchmark", "imitation", "--task", TOY, "--tier", "small", "--episodes", "1"]
    call += ["--checkpoint", str(checkpoint), "--data", str(tmp_path), "--out", str(out)]
    changes = [word for one in SMALL for word in ("--set", one)]
    # A report tells its command, and by that it may be replaced.
    monkeypatch.setattr("sys.argv", ["pmoss", *call])
    told = CliRunner().invoke(make_app(), [*call, "--seconds", "1e-9", *changes])
    assert told.exit_code == 0, told.output
    assert len(read_log(checkpoint.with_suffix(".jsonl"))) == 1
    told = CliRunner().invoke(make_app(), [*call, "--seconds", "1000"])
    assert told.exit_code == 0, told.output
    report = json.loads(out.read_text())
    assert [point["update"] for point in report["curve"]] == [1, 2, 3, 4]
    assert [one["wanted"] for one in report["played"]] == list(WANTED)
    assert all(len(one["throughputs"]) == 1 for one in report["played"])
    found = replay(tmp_path / "out.played.jsonl")
    assert (found.episodes, found.mismatches) == (len(WANTED), ())
    assert report["config"]["meta_position"] == "last"
    assert sum(one["episodes"] for one in report["foretold"]) == UNSEEN
    assert all(0 <= one["accuracy"] <= 1 for one in report["foretold"])

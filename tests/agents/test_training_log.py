"""The log of a training goes on where its checkpoint stopped, and refuses what is none."""

import json
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pmoss_agents.cli.training import _telling
from pmoss_agents.training_log import TrainingLog, read_log
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import DatasetError
from tests.cli.invoking import pmoss


def test_a_log_goes_on_after_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    assert read_log(path) == []
    path.parent.mkdir()
    first = TrainingLog(path)
    for update in (1, 2, 3):
        first(update, 10, {"loss": 1 / update, "accuracy": 0.5})
    assert [row["update"] for row in read_log(path)] == [1, 2, 3]
    assert read_log(path)[2]["loss"] == 0.333333
    # Update 3 came after the last checkpoint: it is made again.
    before = read_log(path)[1]["cpu_seconds"]
    second = TrainingLog(path, updates=2)
    second(3, 10, {"loss": 0.25})
    rows = read_log(path)
    assert [row["update"] for row in rows] == [1, 2, 3] and rows[2]["loss"] == 0.25
    assert rows[2]["cpu_seconds"] >= before


def test_a_line_that_was_cut_is_left_out_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = json.dumps({"update": 1, "cpu_seconds": 2.5}) + "\n"
    path.write_text(whole + '{"update": 2, "cpu_')
    assert [row["update"] for row in read_log(path)] == [1]
    log = TrainingLog(path, updates=1)
    assert path.read_text() == whole and log.cpu_seconds >= 2.5
    path.write_text("no log\n" + whole)
    with pytest.raises(DatasetError, match="line 1: is no line of a training's log"):
        read_log(path)


TOY = {"machine": "toy", "slices": 8}
#: A training of four updates.
LEARNS = ("--set", "members=1", "--set", "updates=4", "--set", "width=8", "--set", "features=4")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch", reason="the extra agents is not installed")
    recipe = Recipe(env=TOY, episodes=8, reference_episodes=0)
    return str(collect(recipe, tmp_path_factory.mktemp("curves") / "data").path)


def scalars(folder: Path) -> dict[str, list[int]]:
    """The steps of each curve in TensorBoard's files of records."""
    from tensorboardX.proto.event_pb2 import Event

    steps: dict[str, list[int]] = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (size,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + size])
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
            content = content[16 + size :]
    return steps


def test_tensorboard_gets_every_update(data: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra tensorboard is not installed")
    out, curves = tmp_path / "mine.safetensors", tmp_path / "curves"
    words = ("train", "surrogate", data, str(out), *LEARNS, "--tensorboard", str(curves))
    pmoss(*words)
    assert scalars(curves / "mine")["train/loss"] == [1, 2, 3, 4]
    out.unlink()
    assert "mine: exists already" in pmoss(*words, status=2)


def test_curves_have_the_score_where_there_is_one() -> None:
    class Validation:
        score: float | None = None

        def __call__(self, done: int, total: int, metrics: Any) -> None:
            self.score = 50.0 if done == 2 else None

    rows: list[dict[str, float]] = []
    tell = _telling(
        lambda done, total: None,
        None,
        SimpleNamespace(updates=0),  # type: ignore[arg-type]
        Validation(),  # type: ignore[arg-type]
        [lambda done, total, metrics: rows.append(dict(metrics))],
    )
    for update in (1, 2):
        tell(update, 2, {"loss": 0.5})
    assert rows == [{"loss": 0.5}, {"loss": 0.5, "validation/score": 50.0}]


def test_weights_and_biases_gets_every_update(data, tmp_path, monkeypatch):
    rows: list[tuple[str, int]] = []

    class Run:
        def log(self, values: dict[str, float], step: int) -> None:
            rows.extend((name, step) for name in values)

        def finish(self) -> None:
            rows.append(("finished", 0))

    def init(**given: Any) -> Run:
        assert (given["project"], given["name"]) == ("placement", "mine")
        assert given["config"]["members"] == 1
        return Run()

    monkeypatch.setattr("pmoss_agents.training_log.require", lambda *modules: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    out = str(tmp_path / "mine.safetensors")
    pmoss("train", "surrogate", data, out, *LEARNS, "--wandb", "placement")
    assert [step for name, step in rows if name == "train/loss"] == [1, 2, 3, 4]
    assert rows[-1] == ("finished", 0)


@pytest.mark.parametrize("extra", ["tensorboard", "wandb"])
def test_without_its_package_the_extra_is_named(extra, data, tmp_path, monkeypatch):
    for package in ("tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, package, None)
    out = tmp_path / "mine.safetensors"
    said = pmoss("train", "surrogate", data, str(out), f"--{extra}", "it", status=2)
    assert f"'.[{extra}]'" in said and not out.exists()

"""Times of updates: which learners are timed, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pmoss_benchmarks.functions.training_times import (  # noqa: E402
    LEARNERS,
    TABLES,
    Settings,
    measure,
    prepare,
)
from pmoss_benchmarks.study import Run  # noqa: E402
from pmoss_datasets.suite import TOY  # noqa: E402
from pmoss_env.errors import (  # noqa: E402
    DescriptionError,
    UnknownNameError,
    UnsupportedError,
)


def run_of(data: Path, **settings: Any) -> Run:
    return Run(Settings(TOY, **{"seconds": 0.0, "episodes": 8, **settings}), data, data, data)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def test_the_first_update_is_not_timed(data: Path) -> None:
    rows = []
    for learner in ("surrogate", "bc"):
        cell = {"learner": learner, "device": "cpu"}
        row = measure(run_of(data), cell)
        # No second was asked for: the fewest that there may be.
        assert (row["gpu"], row["episodes"], row["updates"]) == (None, 8, 2)
        assert 0 < row["low"] <= row["median"] <= row["high"]
        assert row["of"] > row["updates"]
        rows.append({**cell, **row})
    table = TABLES["default"](rows)
    assert table.columns == ["learner", ">ms, CPU", ">minutes in all, CPU"]
    assert [row[0] for row in table.rows] == ["`surrogate`", "`bc`"]


def test_what_cannot_be_timed_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="lpt"):
        Settings(TOY, learners=("lpt",))
    with pytest.raises(DescriptionError, match="device: give it by"):
        Settings(TOY, changes={"device": "cuda"})
    with pytest.raises(DescriptionError, match="updates"):
        Settings(TOY, changes={"updates": 3})  # some play instead
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(DescriptionError, match="seconds = "):
            Settings(TOY, seconds=seconds)
    run = run_of(data, learners=("bc",), changes={"updates": 1})
    with pytest.raises(DescriptionError, match="at least 2 are needed"):
        measure(run, {"learner": "bc", "device": "cpu"})
    with pytest.raises(DescriptionError, match="tpu"):
        prepare(run_of(data, devices=("tpu",)), lambda *_: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        prepare(run_of(data, devices=("cpu", "cuda")), lambda *_: None)


def test_every_learner_has_settings_that_its_agent_takes() -> None:
    settings = Settings(TOY)
    assert all("agent" not in settings.config(name) for name in LEARNERS)
    paper, faster = (f"decision-transformer-paper{end}" for end in ("", ", bfloat16"))
    assert settings.config(faster) == {**settings.config(paper), "precision": "bfloat16"}

"""What an agent serves when a share of the best is wanted."""

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from pmoss_benchmarks.functions import wanted
from pmoss_benchmarks.functions.wanted import (
    TABLES,
    Settings,
    cells,
    measure,
    prepare,
    rank_correlation,
    summarise,
)
from pmoss_benchmarks.study import Run
from pmoss_datasets import load
from pmoss_datasets.suite import TOY
from pmoss_env.errors import DescriptionError
from tests.replays import recheck

SMALL = {"layers": 1, "heads": 1, "width": 8, "channels": 4, "updates": 2, "warmup": 1}


@pytest.fixture(scope="module", autouse=True)
def shipped() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wanted, "build", lambda id_, *_, **__: load(id_))
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = Settings(TOY, shares=(0.4, 1.0, 2.0), episodes=2, budget=64, changes=SMALL)
    folder = tmp_path_factory.mktemp("wanted")
    return Run(settings, folder, folder, folder)


@pytest.fixture(scope="module")
def rows(run: Run) -> list[dict[str, Any]]:
    prepare(run, lambda *_: None)
    return [{**cell, **measure(run, cell)} for cell in cells(run.settings)]


def test_each_episode_is_played_for_each_share(rows: Any) -> None:
    assert all(len(row["served"]) == 2 and min(row["served"]) > 0 for row in rows)
    shares = [np.mean(np.array(row["served"]) / row["best"]) for row in rows]
    (line,) = TABLES["default"](rows).rows
    assert [cell.split()[0] for cell in line[1:]] == [f"{share:.2f}" for share in shares]
    (fit,) = summarise({}, rows).values()
    # What is far out of reach has no rank.
    served = np.array([row["served"] for row in rows[:2]]) / rows[0]["best"]
    assert fit["ranks"] == rank_correlation((0.4, 1.0), served)
    assert fit["scatter"] == pytest.approx(served.std(axis=1).mean())


def test_what_is_stored_runs_again(run: Run, rows: Any) -> None:
    assert recheck(wanted, run, rows[0]) == []
    served = [rows[0]["served"][0], rows[0]["served"][1] * 1.5]
    (line,) = recheck(wanted, run, {**rows[0], "served": served})
    assert line.startswith("served[1]: stored")


def test_what_cannot_be_wanted_is_refused() -> None:
    for shares in ((1.0,), (1.0, 2.0), (0.0, 0.5, 1.0)):
        with pytest.raises(DescriptionError, match=re.escape(f"shares = {list(shares)}: must be")):
            Settings(TOY, shares=shares)
    with pytest.raises(DescriptionError, match="'bc': must learn from data and take a wanted"):
        Settings(TOY, agents=("bc",))

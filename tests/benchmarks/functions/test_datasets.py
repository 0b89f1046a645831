from pathlib import Path

import pytest

from pmoss_benchmarks.functions import datasets
from pmoss_benchmarks.functions.datasets import Settings, every_id, measure
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.store import Results
from pmoss_datasets import open_dataset
from pmoss_datasets.suite import SHIPPED, SHIPPED_ROOT
from pmoss_env.errors import UnknownNameError
from tests.replays import recheck

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

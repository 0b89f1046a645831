from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.functions.published import (
    MACHINES,
    OPPONENTS,
    TABLES,
    Settings,
    cells,
    measure,
)
from pmoss_benchmarks.study.function import Run
from pmoss_env.errors import UnsupportedError

NAME = "intel_sb_4s_4n"


def run(folder: Path, **settings: object) -> Run:
    few = {"instances": 2, "budget": 50, "folder": str(folder), **settings}
    return Run(Settings(**few), Path(), Path(), Path())


def make_learned(root: Path, workers: int = 40) -> Path:
    """A machine file and one schedule with the nodes of other cores, as the authors' writer had."""
    per_node = workers // 4
    cpus = np.arange(100, 100 + workers)
    (root / "machines" / NAME).mkdir(parents=True)
    lines = [[4, per_node, 1, 4, 1], [workers], range(4), cpus, range(workers)]
    text = "\n".join(" ".join(str(value) for value in line) for line in lines)
    (root / "machines" / NAME / "hw.cfg").write_text(text)
    chosen = np.random.default_rng(0).integers(workers, size=256)
    table = np.concatenate([(chosen % 4).reshape(16, 16), cpus[chosen].reshape(16, 16)])
    home = root / "pmoss_machine_configs" / NAME / "11"
    home.mkdir(parents=True)
    np.savetxt(home / "c_256_256.txt", table, fmt="%d")
    return root


def test_a_published_schedule_is_scored_as_meant_and_as_written(tmp_path: Path) -> None:
    folder = make_learned(tmp_path)
    few = run(folder)
    (cell,) = cells(few.settings)
    assert cell == {"original": NAME, "workload": "11"}
    result = measure(few, cell)
    (line,) = TABLES["default"]([{**cell, **result}]).rows
    assert line[0] == "sandy-bridge, `ycsb-a`" and "[" in line[4]
    assert result["machine"] == MACHINES[NAME] and result["awareness"] == {}
    rows = result["rows"]
    assert set(rows) == {"published-256", "published-256-as-written", *OPPONENTS}
    assert all(
        len(values) == 2
        for row in rows.values()
        for values in (row["closed"], row["saturated:mix"])
    )
    assert rows["published-256"]["agreement"] < 0.5
    # Data that lie on the wrong nodes cost throughput.
    assert np.mean(rows["published-256-as-written"]["closed"]) < np.mean(
        rows["published-256"]["closed"]
    )


def test_what_cannot_be_scored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="holds no learned schedule"):
        cells(run(tmp_path).settings)
    with pytest.raises(UnsupportedError, match="'power': no description"):
        cells(run(tmp_path, machines=("power",)).settings)
    folder = make_learned(tmp_path / "other", workers=20)
    with pytest.raises(UnsupportedError, match="20 workers on 4 nodes: sandy-bridge has 40 on 4"):
        measure(run(folder), {"original": NAME, "workload": "11"})

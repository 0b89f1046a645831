"""References: the best of long searches, below their bounds, stored or made."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")
import numpy as np

from pmoss_benchmarks.functions.references import (
    TABLES,
    Settings,
    Work,
    cells,
    gap_of,
    reference_rows,
)
from pmoss_benchmarks.spatial.bound import LeastTimes, upper_bound
from pmoss_benchmarks.study.function import Run, identity_of, name_of
from pmoss_benchmarks.study.store import StoredStudy, file_of
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.suite import TOY, load_task
from pmoss_env.backends import make_backend
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.interference import draw_co_tenants
from pmoss_env.types import Instance
from tests.benchmarks.study.run_line import RUN_LINE

BUDGET = 240
SETTINGS = Settings((TOY,), episodes=2, budget=BUDGET)
RUN = Run(SETTINGS, Path(), Path(), Path())


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    with closing(Work(RUN)) as work:
        return [{**cell, **work(cell)} for cell in cells(SETTINGS)]


def test_a_reference_is_the_best_of_its_searches_and_below_its_bound(rows: Any) -> None:
    domain = domain_of_env("pmoss/SpatialScheduling-v0")
    env = domain.make_env(load_task(TOY).env)
    judge = domain.judge(env)
    for row in rows:
        assert row["env_seed"] == episode_seed(101, row["episode"])
        env.reset(seed=row["env_seed"])
        judge.begin()
        low, short = judge.reference(row["env_seed"], BUDGET // 8, 100)
        assert row["random"] == low
        assert row["random"] < short <= row["best"] <= row["bound"]
        assert BUDGET // 2 < row["evaluations"] <= BUDGET
    judge.close()
    env.close()
    assert gap_of(rows)["max"] >= gap_of(rows)["mean"] > 0
    assert gap_of([{**rows[0], "bound": None}]) == {}
    assert TABLES["default"](rows).rows[0][:2] == [f"`{TOY}`", "2"]


def test_what_is_stored_is_read_and_what_lacks_is_made_once(rows, tmp_path, monkeypatch):
    results, keep = tmp_path / "results", tmp_path / "keep"
    results.mkdir()
    stored = [
        {"cell": name_of(c), "run": "x", **row}
        for c, row in zip(cells(SETTINGS), rows, strict=True)
    ]
    path = file_of(results, "references")
    StoredStudy(
        path, "references", identity_of(SETTINGS), ["task", "episode"], {"x": RUN_LINE}, stored[:1]
    ).write()
    made = reference_rows(results, keep, [TOY], 2, budget=BUDGET)[TOY]
    assert [{key: row[key] for key in rows[0]} for row in made] == rows
    # Only the second one was made, and it is kept.
    (kept,) = keep.iterdir()
    assert kept.read_text().count("env_seed") == 1
    # An earlier release kept it.
    text = kept.read_text().replace('"format_version": 2', '"format_version": 1', 1)
    kept.write_text(text)
    monkeypatch.setattr("pmoss_benchmarks.functions.references.Work", None)
    assert reference_rows(results, keep, [TOY], 2, budget=BUDGET)[TOY] == made
    assert kept.read_text() == text
    # Rows of another budget are not taken.
    with pytest.raises(TypeError):
        reference_rows(results, keep, [TOY], 1, budget=BUDGET + 24)


def test_tasks_of_another_environment_are_refused() -> None:
    with pytest.raises(DescriptionError, match="references are for tasks of"):
        Settings(("uv-300h-access-path-scans-16",))


@pytest.mark.parametrize(
    ("machine", "workload", "family"),
    [
        ("toy", "ycsb-a", "busy_core"),
        ("toy", "scans", "cache_thrash"),
        ("milan-nps4", "scans", "cache_thrash"),
        ("skylake-x-8n", "ycsb-a", "memory_stream"),
    ],
)
def test_no_slice_is_ever_faster_than_its_least_time(machine, workload, family):
    slices = 40
    backend = make_backend("analytic", machine=machine, workload=workload, slices=slices)
    described, rng = backend.machine, np.random.default_rng(0)
    instance = Instance(5, draw_co_tenants(family, described, rng))
    backend.set_instance(instance)
    least = LeastTimes(described, backend.workload, slices, backend.load)
    times, bound = least.of(instance), upper_bound(least, instance)
    column = np.full(described.cores, -1)
    column[described.workers] = np.arange(described.workers.size)
    for draw in range(60):
        few = rng.choice(described.workers, 1 + draw % described.workers.size)
        cores = rng.choice(few, slices).astype(np.int32)
        snapshot = backend.measure(described.local_schedule(cores), seed=0)
        spent = snapshot.counter("elapsed_us") / snapshot.throughput
        assert (spent >= times[np.arange(slices), column[cores]] * (1 - 1e-6)).all()
        assert snapshot.throughput <= bound


@pytest.mark.parametrize("name", ["grace-hopper", "grace-hopper-mesh"])
def test_a_bound_of_one_shared_cache_is_not_known(name: str) -> None:
    backend = make_backend("analytic", machine=name, workload="ycsb-a", slices=8)
    with pytest.raises(UnsupportedError, match="share one last-level cache"):
        LeastTimes(backend.machine, backend.workload, 8, backend.load)


def test_a_bound_of_another_load_is_not_known() -> None:
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=8, load="saturated")
    with pytest.raises(UnsupportedError, match="closed load"):
        LeastTimes(backend.machine, backend.workload, 8, backend.load)

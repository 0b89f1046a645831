from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("scipy")

from pmoss_benchmarks.spatial.references import (
    make_references,
    read_references,
    recheck,
    references_path,
)
from pmoss_benchmarks.spatial.references.bound import LeastTimes, upper_bound
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.suite import TOY, load_task
from pmoss_env.backends import make_backend
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError
from pmoss_env.interference import draw_co_tenants
from pmoss_env.result_files import ResultFile
from pmoss_env.types import Instance

BUDGET = 240


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("references")
    return folder, make_references(folder, [TOY], 101, 2, budget=BUDGET)[TOY]


def test_a_reference_is_the_best_of_its_searches_and_below_its_bound(made):
    _, found = made
    domain = domain_of_env("pmoss/SpatialScheduling-v0")
    env = domain.make_env(load_task(TOY).env)
    judge = domain.judge(env)
    for one in found:
        assert one.env_seed == episode_seed(101, one.episode)
        env.reset(seed=one.env_seed)
        judge.begin()
        low, short = judge.reference(one.env_seed, BUDGET // 8, 100)
        assert one.random == low
        assert one.random < short <= one.best <= one.bound
        assert BUDGET // 2 < one.evaluations <= BUDGET
    judge.close()
    env.close()


def test_the_same_call_adds_to_what_is_there(made, tmp_path):
    folder, found = made
    path = references_path(folder, TOY)
    references_path(tmp_path, TOY).write_bytes(path.read_bytes())
    asked = []
    more = make_references(
        tmp_path, [TOY], 101, 3, budget=BUDGET, progress=lambda done, _: asked.append(done)
    )[TOY]
    assert asked[0] == 4
    assert more[:2] == found
    assert read_references(references_path(tmp_path, TOY)) == more
    assert not list(tmp_path.glob("*.partial"))


def test_whole_references_are_read_while_others_are_made(made, tmp_path):
    folder, found = made
    path = references_path(folder, TOY)
    references_path(tmp_path, TOY).write_bytes(path.read_bytes())
    other = ResultFile(tmp_path / "references.partial", {"kind": "cells"}, key=("cell",))
    with other:
        other.append({"cell": "another", "result": {}})
        assert make_references(tmp_path, [TOY], 101, 2, budget=BUDGET)[TOY] == found
        with pytest.raises(DatasetError, match="another command"):
            make_references(tmp_path, [TOY], 101, 3, budget=BUDGET)


def test_a_sample_is_searched_again(made, tmp_path):
    folder, found = made
    path = references_path(folder, TOY)
    assert recheck(path, 2) == []
    changed = tmp_path / "changed.json"
    changed.write_text(path.read_text().replace(repr(found[0].best), repr(found[0].best * 2)))
    wrong = recheck(changed)
    assert any("best: recorded" in line for line in wrong)
    assert any("above the bound" in line for line in wrong)


def test_what_does_not_fit_is_refused(made, tmp_path):
    folder, _ = made
    with pytest.raises(DatasetError, match="was made with"):
        make_references(folder, [TOY], 101, 2, budget=480)
    with pytest.raises(DescriptionError, match="nothing to do"):
        make_references(folder, [TOY], 101, 0)
    with pytest.raises(DescriptionError, match="episodes = 0"):
        recheck(references_path(folder, TOY), 0)
    content = json.loads(references_path(folder, TOY).read_text())
    content["episodes"][0][3] = "fast"
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match="no file of references"):
        read_references(broken)


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
    machine, rng = backend.machine, np.random.default_rng(0)
    instance = Instance(5, draw_co_tenants(family, machine, rng))
    backend.set_instance(instance)
    least = LeastTimes(machine, backend.workload, slices, backend.load)
    times, bound = least.of(instance), upper_bound(least, instance)
    column = np.full(machine.cores, -1)
    column[machine.workers] = np.arange(machine.workers.size)
    for draw in range(60):
        few = rng.choice(machine.workers, 1 + draw % machine.workers.size)
        cores = rng.choice(few, slices).astype(np.int32)
        seen = backend.measure(machine.local_schedule(cores), seed=0)
        spent = seen.counter("elapsed_us") / seen.throughput
        assert (spent >= times[np.arange(slices), column[cores]] * (1 - 1e-6)).all()
        assert seen.throughput <= bound.throughput


@pytest.mark.parametrize("name", ["grace-hopper", "grace-hopper-mesh"])
def test_a_bound_of_one_shared_cache_is_not_known(name):
    backend = make_backend("analytic", machine=name, workload="ycsb-a", slices=8)
    with pytest.raises(UnsupportedError, match="share one last-level cache"):
        LeastTimes(backend.machine, backend.workload, 8, backend.load)


def test_a_bound_of_another_load_is_not_known():
    backend = make_backend("analytic", machine="toy", workload="ycsb-a", slices=8, load="saturated")
    with pytest.raises(UnsupportedError, match="closed load"):
        LeastTimes(backend.machine, backend.workload, 8, backend.load)

"""Schedules from everywhere, played in one episode, and their differences explained."""

import json
import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from pmoss_agents.explaining import Run, Table, compare, headline
from pmoss_agents.explaining.measuring import explain
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.backends import make_backend
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import DescriptionError, ScheduleError, UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.schedule_files import read_schedule, write_schedule
from pmoss_env.types import COUNTER_NAMES, Schedule

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}


@pytest.fixture
def env():
    made = SPATIAL.make_env({**TOY, "reward": "terminal"})
    yield made
    made.close()


def test_policies_schedules_and_baselines_meet_the_same_instance(env):
    policy = SchedulePolicy("lpt")
    made = explain(env, 5, {"policy": policy, "baseline": make_baseline("lpt")}, rounds=3)
    assert made.before.schedule == made.after.schedule
    again = explain(
        env, 5, {"kept": made.before.schedule, "os": make_baseline("os-default", shared=True)}
    )
    assert again.before.snapshot.throughput == made.before.snapshot.throughput
    assert again.after.schedule.data == "first_touch"


def test_schedules_keep_in_files(tmp_path):
    machine, path = load_machine("toy"), tmp_path / "s.json"
    cores = np.resize(machine.workers, 8)
    for schedule in (
        machine.local_schedule(cores),
        Schedule(cores, np.zeros(8, dtype=np.int32), "any", "interleaved"),
    ):
        write_schedule(path, schedule)
        assert read_schedule(path, machine) == schedule
    path.write_text(json.dumps({"cores": cores.tolist()}))
    assert read_schedule(path, machine) == machine.local_schedule(cores)
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[1]", "must be a JSON object with 'cores'"),
        ('{"cores": [1], "speed": 3}', "'speed': unknown"),
        ('{"cores": [999]}', "core 999 does not exist"),
        ('{"cores": [1.5]}', "must be whole numbers"),
        ('{"cores": [1], "nodes": [0, 1]}', "1 cores but 2 nodes"),
        ('{"cores": [1], "routing": "x"}', "unknown routing 'x'"),
        ('{"cores": [0], "nodes": [0]}', "core 0"),
        ('{"cores": null}', "one-dimensional"),
    ],
)
def test_wrong_schedule_files_are_named(tmp_path, text, message):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(ScheduleError, match=message) as caught:
        read_schedule(path, load_machine("toy"))
    assert str(path) in str(caught.value)


NAMES = ("os-default", "os-interleave", "shared-nothing-node", "grouped", "lpt")


@pytest.fixture(scope="module")
def runs():
    backend = make_backend("analytic", machine="skylake-x-8n", workload="ycsb-a", slices=64)
    context = Context(backend.machine, 64)
    runs = {}
    first = make_baseline("grouped")(context)
    context = replace(context, incumbent=first, snapshot=backend.measure(first, seed=0))
    for name in NAMES:
        schedule = make_baseline(name, shared=True)(context)
        runs[name] = Run(name, schedule, backend.measure(schedule, seed=0))
    runs["machine"] = backend.machine
    return runs


@pytest.mark.parametrize("name", NAMES)
def test_cores_and_nodes_add_up_to_the_whole(runs, name):
    machine, run = runs["machine"], runs[name]
    tables = compare(machine, runs["grouped"], run).tables
    rates = dict(zip(COUNTER_NAMES, tables["machine"].column("rate")[1], strict=True))
    for counter in ("queries", "elapsed_us", "remote_dram", "llc_misses"):
        for kind in ("core", "node"):
            total = np.nansum(tables[kind].column(counter)[1])
            assert total == pytest.approx(rates[counter], rel=1e-9)
            assert total == pytest.approx(run.snapshot.counter(counter).sum(), rel=1e-9)
    assert tables["machine"].column("per_query")[1][0] == 1.0


def test_the_biggest_difference_comes_first():
    before = np.array([[0.0, 100.0], [0.0, 100.0], [0.0, 100.0], [np.nan, np.nan]])
    after = np.array([[0.1, 100.0], [1.0, 100.0], [0.0, 50.0], [1.0, 1.0]])
    table = Table("node", ("a", "b", "c", "d"), ("x", "y"), ("1", "1"), before, after)
    assert table.ranked() == [1, 2, 0]  # 1.0 of 1.0, 50 of 100, 0.1 of 1.0; d was not counted
    assert table.ranked(["y"])[0] == 2
    with pytest.raises(UnknownNameError):
        table.column("z")


def test_the_sentence_names_the_cause(runs):
    machine = runs["machine"]

    def text_of(a, b):
        return headline(compare(machine, runs[a], runs[b]))

    better = text_of("os-default", "grouped")
    assert "grouped serves" in better and "times the queries of os-default" in better
    assert "remote accesses are down (0% instead of 87%" in better
    assert "the memory of node 0 is no longer saturated" in better
    worse = text_of("grouped", "os-default")
    assert "% of the queries of grouped" in worse and "remote accesses are up" in worse
    assert "the memory of node 0 is saturated" in worse
    assert "the same schedule, at" in text_of("lpt", "lpt")
    lpt = runs["lpt"]
    slower = replace(lpt, snapshot=replace(lpt.snapshot, throughput=1.5))
    assert "the same schedule; two runs of it served" in headline(compare(machine, lpt, slower))


def test_a_slice_that_fills_the_busiest_core_alone_is_named():
    zipf = {"machine": "skylake-x-8n", "workload": "lookups-zipf-ordered", "slices": 64}
    with closing(SPATIAL.make_env(zipf)) as env:
        text = headline(explain(env, 0, {n: make_baseline(n, shared=True) for n in NAMES[-2:]}))
    assert re.search(r"Slice \d+ alone .* does \d\d% of the work.*-e slices=256", text)


def test_what_cannot_be_compared_is_refused(runs):
    machine, run = runs["machine"], runs["lpt"]
    with pytest.raises(DescriptionError, match=r"load = closed, other with saturated"):
        compare(machine, run, Run("other", run.schedule, replace(run.snapshot, load="saturated")))
    fewer = Run("fewer", machine.local_schedule(run.schedule.cores[:3]), run.snapshot)
    with pytest.raises(DescriptionError, match="slices = 64, fewer with 3"):
        compare(machine, run, fewer)

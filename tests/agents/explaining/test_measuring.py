"""Schedules from everywhere: files, rows, agents and baselines, all in the same episode."""

import json

import numpy as np
import pytest

from pmoss_agents.explaining.measuring import explain
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import ScheduleError
from pmoss_env.machines import load_machine
from pmoss_env.schedule_files import read_schedule, write_schedule
from pmoss_env.types import Schedule

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

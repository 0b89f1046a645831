"""Schedules from everywhere: files, rows, agents and baselines, all in the same episode."""

import json

import numpy as np
import pytest

from pmoss_agents.explaining.measuring import explain
from pmoss_agents.explaining.rows import Row, names_row, read_row
from pmoss_agents.rollouts import roll_out
from pmoss_datasets.evaluation import DEFAULT_ENV, evaluate, write_results
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import DatasetError, ScheduleError, UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.schedule_files import read_schedule, write_schedule
from pmoss_env.types import Schedule

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}


@pytest.fixture
def env():
    made = SPATIAL.make_env({**TOY, "reward": "terminal"})
    yield made
    made.close()


def test_a_row_is_measured_as_it_was(env, tmp_path):
    policies = {name: SchedulePolicy(name) for name in ("lpt", "random")}
    evaluation = evaluate(TOY, policies, [1], 2, search_budget=20, random_schedules=2)
    path = tmp_path / "results.jsonl"
    write_results(path, evaluation)
    for word in (f"{path}:random", f"{path}:3"):
        assert names_row(word)
        row = read_row(word)
        kept = evaluation.rows[1]
        assert (row.name, row.env_seed, row.actions) == ("random", kept.env_seed, kept.actions)
        made = explain(env, row.env_seed, {"lpt": make_baseline("lpt"), "random": row})
        assert made.after.snapshot.throughput == kept.throughput
        # A baseline by name makes what it made in the evaluation.
        assert made.before.snapshot.throughput == evaluation.rows[0].throughput
    with pytest.raises(UnknownNameError, match="2 to 5"):
        read_row(f"{path}:17")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_row(f"{tmp_path}/absent.jsonl:2")


def test_a_row_with_more_actions_than_steps_is_refused(env):
    row = Row("long", DEFAULT_ENV, TOY, 1, actions=(0,) * 9)
    with pytest.raises(DatasetError, match="long: 9 actions for an episode of 8 slices"):
        explain(env, 1, {"lpt": make_baseline("lpt"), "long": row})


def test_a_row_of_a_rollout(env, tmp_path):
    path = tmp_path / "r.jsonl"
    rows = roll_out(TOY, {"lpt": SchedulePolicy("lpt")}, episodes=2, seed=3, out=path)
    row = read_row(f"{path}:3")
    assert list(row.cores) == rows[1]["cores"]
    made = explain(env, row.env_seed, {"incumbent": make_baseline("incumbent"), "row": row})
    assert made.before.snapshot.throughput == rows[1]["incumbent_mq_per_s"]
    assert made.after.snapshot.throughput == rows[1]["final_mq_per_s"]
    with path.open("a") as file:
        file.write("{}\n")
    with pytest.raises(DatasetError, match="line 4"):
        read_row(f"{path}:2")


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

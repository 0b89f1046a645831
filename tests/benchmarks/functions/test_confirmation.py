"""Schedules of stored episodes, measured again on the simulated server."""

from __future__ import annotations

from importlib.resources import files

import pytest

from pmoss_benchmarks.functions import confirmation
from pmoss_benchmarks.functions.confirmation import Settings
from pmoss_benchmarks.offline import episodes
from pmoss_benchmarks.study import Run
from pmoss_benchmarks.study.store import write_stored
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.suite import TOY, load_task
from pmoss_env.backends import make_backend
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import DatasetError, DescriptionError

#: As if it had learned to spread.
AGENT = "surrogate"
FEW = {
    "study": "quick",
    "track": "same-task",
    "tasks": (TOY,),
    "policies": ("lpt", AGENT),
    "episodes": 2,
    "queries": 20_000,
    "line_sampling": 8,
    "finer": 1,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Rows of two episodes, in a world with so few records that an index is built at once."""
    folder = tmp_path_factory.mktemp("confirmation")
    path = folder / "few.toml"
    preset = files("pmoss_env") / "workloads" / "presets" / "ycsb-a.toml"
    path.write_text(preset.read_text().replace("records = 30000000", "records = 30000"))
    env = {**load_task(TOY).env, "workload": str(path)}
    rows = []
    for name, rule in (("lpt", "lpt"), (AGENT, "spread")):
        played = evaluate(env, {name: SchedulePolicy(make_baseline(rule))}, [101], 2, 40, 5).rows
        packed = episodes.pack(played, actions=name == AGENT)
        cell = {"track": "same-task", "task": TOY, "policy": name, "seed": 0}
        rows.append({"cell": name, "run": "x", **cell, "played": {name: packed}})
    keys = ["track", "task", "policy", "seed"]
    write_stored(folder / "quick.jsonl", "quick", {"search_budget": 40}, keys, {"x": {}}, rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(episodes, "world_of", lambda row: env)
        yield Run(Settings(**FEW), folder, folder, folder)


def test_schedules_are_measured_beside_the_co_tenants_of_their_episodes(run) -> None:
    work = confirmation.Work(run)
    rows = [work(cell) for cell in confirmation.cells(run.settings)]
    assert [set(row["rows"][AGENT]) for row in rows] == [
        {"model", "simulated", "finer"},
        {"model", "simulated"},
    ]
    stored = work._settings.row_of(work._stored, TOY, AGENT, 1)
    assert rows[1]["env_seed"] == stored["played"][AGENT]["env_seed"][1]
    assert rows[1]["rows"][AGENT]["model"] == stored["played"][AGENT]["throughput"][1]
    for played in episodes.play_again(stored, 40, [1]):
        assert played.env.unwrapped.instance.co_tenants
        server = make_backend(
            "simulated",
            machine="toy",
            workload=played.env.unwrapped.session.backend.workload,
            slices=8,
            queries=20_000,
            line_sampling=8,
        )
        server.set_instance(played.env.unwrapped.instance)
        simulated = server.measure(played.env.unwrapped.schedule, seed=0).throughput
        assert simulated == rows[1]["rows"][AGENT]["simulated"] > 0
    work.close()
    table = confirmation.TABLES["default"]([{"task": TOY, **row} for row in rows])
    assert {line[1]: line[-1] for line in table.rows}["lpt"] == "the rule"


def test_rows_of_other_code_and_missing_ones_are_refused(run) -> None:
    work = confirmation.Work(run)
    stored = work._settings.row_of(work._stored, TOY, AGENT, 1)
    stored["played"][AGENT]["throughput"][1] *= 1 + 1e-15
    with pytest.raises(DatasetError, match="the model gives"):
        work({"task": TOY, "episode": 1})
    few = Run(Settings(**{**FEW, "episodes": 3}), run.data, run.keep, run.results)
    with pytest.raises(DatasetError, match="fewer than 3 episodes"):
        confirmation.Work(few)({"task": TOY, "episode": 0})
    with pytest.raises(DescriptionError, match="must hold a rule"):
        Settings(**{**FEW, "policies": (AGENT, "local-search")})
    with pytest.raises(DescriptionError, match="is a task of threads"):
        Settings(**{**FEW, "tasks": ("xeon-6240m-optane-threads-fillrandom-requests-1000000",)})

"""Agents that learned through d3rlpy, where it is absent; check_d3rlpy_agents.py has the rest."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents.base import task_name
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import CheckpointError, DescriptionError, MissingExtraError

pytest.importorskip("torch")

CHECK = Path(__file__).with_name("check_d3rlpy_agents.py")
NAMES = ["bc", "percentile-bc", "cql", "bcq", "iql"]
TOY = {
    "machine": "toy",
    "slices": 8,
    "order": "load",
    "workload_seed": 3,
    "incumbent": "grouped",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, python_with_d3rlpy):
    """Checkpoints that the checks made, all of which must have passed."""
    folder = tmp_path_factory.mktemp("checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PMOSS_TEST_CHECKPOINTS", str(folder))
        told = python_with_d3rlpy(
            "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder / 'work'}", str(CHECK)
        )
    assert " passed" in told and "failed" not in told and "skipped" not in told
    return folder


def environment(**change):
    return gymnasium.make("pmoss/SpatialScheduling-v0", on_illegal="raise", **{**TOY, **change})


def play(agent, **change):
    env = environment(**change)
    observation, info = env.reset(seed=0)
    agent.reset()
    actions, done = [], False
    while not done:
        actions.append(agent.act(observation, info["action_mask"]))
        observation, _, done, _, info = env.step(actions[-1])
    return actions


@pytest.mark.parametrize("name", NAMES)
def test_acts_the_same_without_d3rlpy(name, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    agent = pmoss_agents.load(folder / f"{name}.npz")
    assert agent.name == name
    assert play(agent) == np.load(folder / f"{name}.npy").tolist()
    agent.check_env(environment())


@pytest.mark.parametrize("name", NAMES)
def test_saving_again_keeps_all_that_resuming_needs(name, folder, tmp_path):
    agent = pmoss_agents.load(folder / f"{name}.npz")
    agent.save(tmp_path / "again.npz")
    header, arrays = pmoss_agents.read_checkpoint(folder / f"{name}.npz")
    again, same = pmoss_agents.read_checkpoint(tmp_path / "again.npz")
    assert again == header
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, same[key])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"machine": "skylake-x-8n"}, r"grid = \[2, 4\], but the observation has grid = \[8, 12\]"),
        ({"observation": "paper"}, r"incumbent_view of shape \[2, 4, 21\], .* absent.*'full'"),
    ],
)
def test_another_task_is_refused(folder, change, text):
    agent = pmoss_agents.load(folder / "cql.npz")
    with pytest.raises(CheckpointError, match=text):
        play(agent, **change)


def test_trained_with_d3rlpy_it_evaluates_and_collects_without(tmp_path, python_with_d3rlpy):
    data, agent, more = (str(tmp_path / name) for name in ("data", "agent.npz", "more"))
    task = ["-e", "machine=toy", "-e", "slices=8", "-e", "order=load"]
    collect(Recipe(env=TOY, episodes=6, reference_episodes=0), data)
    few = ("--set", "updates=2", "--set", "channels=4")
    told = python_with_d3rlpy("-m", "pmoss_env", "train", data, agent, "--agent", "cql", *few)
    assert "saved to" in told

    def pmoss(*words):
        done = subprocess.run(
            [sys.executable, "-m", "pmoss_env", *words],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        return done.stdout

    assert "agent" in pmoss(
        *("evaluate", agent, *task, "--seeds", "1", "--episodes", "1", "--budget", "20"),
        *("-b", "random", "--schedules", "2"),
    )
    assert "2 episodes" in pmoss(
        *("collect", more, *task, "--episodes", "2"),
        *("--policy", "pmoss_agents:load", "--argument", agent),
    )


def test_damaged_checkpoints_are_refused(folder, tmp_path, monkeypatch):
    clean = (folder / "iql.npz").read_bytes()
    path = tmp_path / "agent.npz"
    for length in (0, 10, len(clean) // 2, len(clean) - 1):
        path.write_bytes(clean[:length])
        with pytest.raises(CheckpointError, match=r"agent\.npz"):
            pmoss_agents.load(path)
    agent = pmoss_agents.load(folder / "iql.npz")
    arrays, values = agent._state()
    key = "policy.scores.plain.weight"
    monkeypatch.setattr(agent, "_state", lambda: ({**arrays, key: arrays[key][:3]}, values))
    agent.save(path)
    with pytest.raises(CheckpointError, match=r"weights plain\.weight: \(3, 16\) in the file, \(8"):
        pmoss_agents.load(path)
    monkeypatch.setattr("pmoss_agents.base.COUNTER_NAMES", ("queries",))
    with pytest.raises(CheckpointError, match="counters = "):
        pmoss_agents.load(folder / "iql.npz")


def test_without_d3rlpy_learning_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    dataset = collect(Recipe(env=TOY, episodes=2, reference_episodes=0), tmp_path / "d")
    for name in NAMES:
        with pytest.raises(MissingExtraError, match=r"pmoss-env\[d3rlpy\]"):
            pmoss_agents.make(name).fit(dataset)


def test_an_agent_that_knows_nothing_says_so(tmp_path):
    agent = pmoss_agents.make("cql")
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.npz")
    with pytest.raises(CheckpointError, match="call fit"):
        play(agent)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_the_wrong_type_is_named(name):
    for field in fields(type(pmoss_agents.make(name).config)):
        for value in ("abc", None, [1], {}):
            with pytest.raises(DescriptionError, match=f"{name}: {field.name} = "):
                pmoss_agents.make(name, **{field.name: value})


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("cql", {"alpha": -1.0}),
        ("cql", {"gamma": 1.5}),
        ("cql", {"n_steps": 0}),
        ("bcq", {"threshold": 1.0}),
        ("iql", {"expectile": 0.0}),
        ("iql", {"tau": 2.0}),
        ("bc", {"beta": -0.1}),
        ("percentile-bc", {"keep_best": 0.0}),
    ],
)
def test_impossible_values_are_named(name, config):
    with pytest.raises(DescriptionError, match=f"{name}: {next(iter(config))} = "):
        pmoss_agents.make(name, **config)


def test_a_config_has_tables_for_tasks(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'agent = "cql"\nalpha = 2.0\nupdates = 9\n'
        '[tasks."toy-*"]\nupdates = 5\n[tasks."toy-btree-scans"]\nalpha = 3.0\n'
    )
    task = task_name("pmoss/toy-btree-scans/mixed-v0")
    for given, updates, alpha in ((task, 5, 3.0), ("toy-rtree-x", 5, 2.0), ("other", 9, 2.0)):
        config = pmoss_agents.make("cql", config_file=path, task=given).config
        assert (config.updates, config.alpha) == (updates, alpha)
    path.write_text('agent = "cql"\ntasks = 3\n')
    with pytest.raises(DescriptionError, match="tasks: must be tables"):
        pmoss_agents.make("cql", config_file=path)


@pytest.mark.parametrize("name", NAMES)
def test_each_agent_has_a_committed_config(name):
    for task in ("toy-btree-ycsb-a", "skylake-x-8n-btree-ycsb-a"):
        pmoss_agents.make(name, config_file=name, task=task)

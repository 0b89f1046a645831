"""What was learned through d3rlpy is used without it; configs and errors."""

import subprocess
import sys
from dataclasses import fields

import gymnasium
import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents import checkpoints
from pmoss_agents.configs import task_name
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import CheckpointError, DescriptionError, MissingExtraError
from tests.agents.spatial.playing import TOY, play

pytest.importorskip("torch")

NAMES = ["bc", "percentile-bc", "cql", "bcq", "iql"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints, and what their agents did where d3rlpy was there."""
    folder = tmp_path_factory.mktemp("checkpoints")
    dataset = collect(Recipe(env=TOY, episodes=12, reference_episodes=0), folder / "data")
    for name in NAMES:
        agent = pmoss_agents.make(name, channels=8, width=16, updates=3)
        agent.fit(dataset)
        agent.save(folder / f"{name}.safetensors")
        np.save(folder / f"{name}.npy", np.array(play(agent)[0]))
    return folder


def environment(**change):
    return gymnasium.make("pmoss/SpatialScheduling-v0", on_illegal="raise", **{**TOY, **change})


@pytest.mark.parametrize("name", NAMES)
def test_acts_the_same_without_d3rlpy(name, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    agent = pmoss_agents.load(folder / f"{name}.safetensors")
    assert agent.name == name
    assert play(agent)[0] == np.load(folder / f"{name}.npy").tolist()
    agent.check_env(environment())


@pytest.mark.parametrize("name", NAMES)
def test_saving_again_keeps_all_that_resuming_needs(name, folder, tmp_path):
    agent = pmoss_agents.load(folder / f"{name}.safetensors")
    agent.save(tmp_path / "again.safetensors")
    header, arrays = checkpoints.read(folder / f"{name}.safetensors")
    again, same = checkpoints.read(tmp_path / "again.safetensors")
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
    agent = pmoss_agents.load(folder / "cql.safetensors")
    with pytest.raises(CheckpointError, match=text):
        play(agent, {**TOY, **change})


def test_the_command_trains_and_what_it_trained_acts_without_d3rlpy(tmp_path):
    data, agent, more = (str(tmp_path / name) for name in ("data", "agent.safetensors", "more"))
    task = ["-e", "machine=toy", "-e", "slices=8", "-e", "order=load"]
    collect(Recipe(env=TOY, episodes=6, reference_episodes=0), data)

    def pmoss(*words, before="pass"):
        program = f"import sys; {before}; from pmoss_env.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    few = ("--set", "updates=2", "--set", "channels=4")
    assert "saved to" in pmoss("train", data, agent, "--agent", "cql", *few)
    absent = "sys.modules['d3rlpy'] = None"
    assert "agent" in pmoss(
        *("evaluate", agent, *task, "--seeds", "1", "--episodes", "1", "--budget", "20"),
        *("-b", "random", "--schedules", "2"),
        before=absent,
    )
    assert "2 episodes" in pmoss(
        *("collect", more, *task, "--episodes", "2"),
        *("--policy", "pmoss_agents:load", "--argument", agent),
        before=absent,
    )


def test_other_weights_and_counters_are_refused(folder, tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    agent = pmoss_agents.load(folder / "iql.safetensors")
    arrays, values = agent._state()
    key = "policy.scores.plain.weight"
    monkeypatch.setattr(agent, "_state", lambda: ({**arrays, key: arrays[key][:3]}, values))
    agent.save(path)
    with pytest.raises(CheckpointError, match=r"weights plain\.weight: \(3, 16\) in the file, \(8"):
        pmoss_agents.load(path)
    monkeypatch.setattr("pmoss_agents.agent.COUNTER_NAMES", ("queries",))
    with pytest.raises(CheckpointError, match="counters = "):
        pmoss_agents.load(folder / "iql.safetensors")


def test_without_d3rlpy_learning_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    dataset = collect(Recipe(env=TOY, episodes=2, reference_episodes=0), tmp_path / "d")
    for name in NAMES:
        with pytest.raises(MissingExtraError, match=r"pmoss-env\[d3rlpy\]"):
            pmoss_agents.make(name).fit(dataset)


def test_an_agent_that_knows_nothing_says_so(tmp_path):
    agent = pmoss_agents.make("cql")
    with pytest.raises(CheckpointError, match="nothing to save"):
        agent.save(tmp_path / "agent.safetensors")
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

"""Recipes, and that a recipe alone decides a dataset."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pmoss_datasets import open_dataset
from pmoss_datasets.collection import MIXED, Behaviour, Recipe, collect
from pmoss_env.errors import DatasetError, DescriptionError, PmossError, UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


def test_the_same_recipe_gives_the_same_bits_with_any_number_of_processes(tmp_path):
    recipe = Recipe(env=TOY, episodes=9, seed=5, reference_episodes=2, reference_budget=50)
    one = collect(recipe, tmp_path / "one")
    two = collect(recipe, tmp_path / "two", processes=2)
    assert one.metadata == two.metadata
    assert one.metadata.checksums == two.metadata.checksums
    again = Recipe.from_dict(json.loads((tmp_path / "one/metadata.json").read_text())["recipe"])
    assert again == recipe


def test_an_episode_depends_on_seed_and_index_alone(tmp_path):
    few, many = (
        collect(Recipe(env=TOY, episodes=n, seed=5, reference_episodes=0), tmp_path / str(n))
        for n in (3, 6)
    )
    other = collect(Recipe(env=TOY, episodes=3, seed=6, reference_episodes=0), tmp_path / "other")
    for name in few.metadata.checksums:
        if not name.startswith("neighbour"):  # padded to the most neighbours in the dataset
            np.testing.assert_array_equal(few.column(name), many.column(name)[:3])
    assert not np.array_equal(few.column("seed"), other.column("seed"))


def test_every_prefix_holds_the_mixture_in_proportion():
    recipe = Recipe(env=TOY)
    picks = np.array([recipe.behaviour(i) for i in range(400)])
    shares = np.array([b.weight for b in MIXED]) / sum(b.weight for b in MIXED)
    for n in (50, 200, 400):
        counts = np.bincount(picks[:n], minlength=len(MIXED))
        assert np.abs(counts - n * shares).max() < 4


def test_search_is_at_least_as_good_as_the_schedules_it_is_compared_with(tmp_path):
    behaviours = ("random", "lpt", "greedy", "greedy-capacity", "local-search")
    dataset = collect(
        Recipe(
            env=TOY,
            episodes=36,
            seed=1,
            tier="compared",
            behaviours=tuple(Behaviour(name) for name in behaviours),
            reference_episodes=5,
            reference_budget=300,
        ),
        tmp_path / "dataset",
    )
    final = dataset.column("final_throughput")
    mean = {
        name: final[dataset.column("policy") == i].mean()
        for i, name in enumerate(dataset.metadata.policy_names)
    }
    best = max(mean[name] for name in behaviours[:4])
    assert mean["local-search"] > 0.98 * best  # not the same episodes
    assert mean["greedy-capacity"] > mean["random"]
    scores = dataset.metadata.reference_scores
    assert scores["search"]["n"] == scores["random"]["n"] == 5
    assert dataset.normalised(scores["search"]["mean"]) == pytest.approx(100)
    assert dataset.normalised(scores["random"]["mean"]) == pytest.approx(0)


def test_the_step_wise_rules_place_in_the_episodes_order(tmp_path):
    recipe = Recipe(
        env={**TOY, "order": "index"},
        episodes=6,
        tier="greedy",
        behaviours=(Behaviour("greedy"),),
        reference_episodes=0,
    )
    busy = COUNTER_NAMES.index("task_clock_us")
    for episode in collect(recipe, tmp_path / "dataset"):
        load = np.zeros(32)
        work = episode.incumbent_counters[:, busy].astype(float)
        for slice_ in range(8):
            core = episode.final_cores[slice_]
            workers = load_machine("toy").workers
            assert load[core] == pytest.approx(load[workers].min())
            load[core] += work[slice_]


def test_epsilon_noise_respects_the_constraint(tmp_path):
    env = {"machine": "toy", "slices": 12, "constraints": {"max_slices_per_core": 2}}
    recipe = Recipe(
        env=env,
        episodes=4,
        tier="noisy",
        behaviours=(Behaviour("random", epsilon=1.0),),
        reference_episodes=0,
    )
    dataset = collect(recipe, tmp_path / "dataset")
    for actions in dataset.column("actions"):
        assert np.bincount(actions).max() == 2


def test_an_existing_folder_is_kept_unless_told_otherwise(tmp_path):
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    collect(recipe, tmp_path / "dataset")
    with pytest.raises(DatasetError, match="exists already"):
        collect(recipe, tmp_path / "dataset")
    collect(recipe, tmp_path / "dataset", overwrite=True)
    (tmp_path / "precious").mkdir()
    with pytest.raises(DatasetError, match="no dataset"):
        collect(recipe, tmp_path / "precious", overwrite=True)


def never(done, total):
    raise AssertionError("an episode was collected")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_target_that_cannot_be_written_is_refused_before_collecting(tmp_path, overwrite):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    for target in (
        tmp_path / "folder",
        tmp_path / "file",
        tmp_path / "file" / "dataset",
        tmp_path / ("x" * 300),
        Path("/proc/self/dataset"),
    ):
        with pytest.raises(DatasetError, match=re.escape(str(target))):
            collect(recipe, target, progress=never, overwrite=overwrite)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_before_collecting(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DatasetError, match="cannot be written: Permission denied"):
            collect(Recipe(env=TOY, episodes=1), tmp_path / "a" / "b", progress=never)
    finally:
        tmp_path.chmod(0o700)


def test_interrupted_collection_leaves_nothing(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    recipe = Recipe(env=TOY, episodes=3, reference_episodes=0)
    with pytest.raises(KeyboardInterrupt):
        collect(recipe, tmp_path / "dataset", progress=stop)
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import sys
from pmoss_datasets.collection import Recipe, collect
if __name__ == "__main__":
    recipe = Recipe(env={"machine": "toy", "slices": 8}, episodes=100000, reference_episodes=0)
    say = lambda done, total: print(done, flush=True)
    collect(recipe, sys.argv[1], progress=say, processes=2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_children_die_with_a_killed_parent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "dataset")],
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    workers = [pid for pid in children if "spawn_main" in _command(pid)]
    assert len(workers) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while any("spawn_main" in _command(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any("spawn_main" in _command(pid) for pid in workers)
    assert not (tmp_path / "dataset").exists()


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"episodes": 0}, "episodes = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"reference_episodes": 1}, "reference_episodes = 1"),
        ({"tier": "golden"}, "golden"),
        ({"tier": "A", "behaviours": [{"policy": "lpt"}]}, "id 'pmoss/"),
        ({"behaviours": [{"policy": "lpd"}]}, "lpd"),
        ({"behaviours": [{"policy": "lpt", "weight": 0}]}, "weight = 0"),
        ({"behaviours": [{"policy": "lpt", "epsilon": 2}]}, "epsilon = 2"),
        ({"behaviours": [{"policy": "lpt", "budget": 5}]}, "budget"),
        ({"behaviours": [{"weight": 1}]}, "behaviours"),
        ({"surprise": 1}, "surprise"),
        ({"env": {**TOY, "machin": "toy"}}, "env: machin: unknown; known are .*machine, "),
        ({"env": {"self": 1}}, "env: self: unknown"),
        ({"env": {"max_episode_steps": 3}}, "max_episode_steps"),  # gymnasium.make's own
        ({"env": {"machine": 5}}, "env: machine = 5: must be a text"),
        ({"env": ["toy"]}, "env = .*: must be a table"),
    ],
)
def test_wrong_recipes_are_named(change, text):
    with pytest.raises(PmossError, match=text):
        Recipe.from_dict({"env": TOY, **change})


def test_recipes_are_read_from_files(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        'episodes = 2\ntier = "lpt"\n[env]\nmachine = "toy"\nslices = 8\n'
        '[[behaviours]]\npolicy = "lpt"\nepsilon = 0.5\n'
    )
    recipe = Recipe.from_toml(path)
    assert recipe.id == "pmoss/toy-btree-ycsb-a/lpt-v0"
    assert recipe.behaviours == (Behaviour("lpt", epsilon=0.5),)
    path.write_text("episodes = ")
    with pytest.raises(DescriptionError, match=r"recipe\.toml: is not valid TOML"):
        Recipe.from_toml(path)
    with pytest.raises(DescriptionError, match="cannot be read"):
        Recipe.from_toml(tmp_path / "absent.toml")


def test_unknown_machines_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UnknownNameError, match="machine"):
        collect(Recipe(env={"machine": "toi"}, episodes=1), tmp_path / "dataset")
    assert list(tmp_path.iterdir()) == []


def test_collected_datasets_verify(tmp_path):
    recipe = Recipe(env=TOY, episodes=2, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "dataset")
    dataset.verify()
    assert open_dataset(tmp_path / "dataset").policy_name(0) in dataset.metadata.policy_names

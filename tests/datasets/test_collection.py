"""Recipes, and that a recipe alone decides a dataset."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect, open_dataset
from pmoss_datasets.collection import about, partial_path
from pmoss_datasets.result_files import ResultFile
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_datasets.spatial.playing import SEARCH
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
        if not name.startswith("co_tenant"):  # padded to the most co-tenants in the dataset
            np.testing.assert_array_equal(few.column(name), many.column(name)[:3])
    assert not np.array_equal(few.column("seed"), other.column("seed"))


def test_every_prefix_holds_the_mixture_in_proportion():
    recipe = Recipe(env=TOY)
    picks = np.array([recipe.behaviour(i) for i in range(400)])
    weights = [behaviour.weight for behaviour in recipe.behaviours]
    shares = np.array(weights) / sum(weights)
    for n in (50, 200, 400):
        counts = np.bincount(picks[:n], minlength=len(weights))
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
    assert dataset.normalized_score(scores["search"]["mean"]) == pytest.approx(100)
    assert dataset.normalized_score(scores["random"]["mean"]) == pytest.approx(0)
    start = scores["incumbent"]["mean"]
    gain = scores["search"]["mean"] - start
    assert dataset.normalized_score(gain, "improvement") == pytest.approx(100)


@pytest.mark.parametrize("policy", ["annealing", "greedy-marginal", "exact"])
def test_every_search_can_be_collected_from(policy, tmp_path):
    budget = None if policy == "exact" else 30
    env = {"machine": "toy", "slices": 4}
    recipe = Recipe(env=env, episodes=2, behaviours=(Behaviour(policy, budget=budget),))
    dataset = collect(recipe, tmp_path / "data")
    assert len(dataset) == 2
    assert np.isfinite(dataset.column("final_throughput")).all()


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


def test_an_interrupted_collection_goes_on_where_it_stopped(tmp_path):
    recipe = Recipe(env=TOY, episodes=6, reference_episodes=2, reference_budget=20)
    whole = collect(recipe, tmp_path / "whole")

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(recipe, tmp_path / "dataset", progress=stop)
    partial = tmp_path / "dataset.partial"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.partial", "whole"]
    # A kill may cut the record that is being written.
    partial.write_bytes(partial.read_bytes()[:-5])
    with pytest.raises(
        DatasetError, match=r"dataset\.partial: holds results of another command: recipe differ"
    ):
        collect(Recipe(env=TOY, episodes=7), tmp_path / "dataset")
    told = []
    dataset = collect(recipe, tmp_path / "dataset", lambda *done: told.append(done), processes=2)
    assert told[0] == (2, 8) and told[-1] == (8, 8)
    assert dataset.metadata == whole.metadata
    assert not partial.exists()


def test_one_process_at_a_time_collects_into_a_folder(tmp_path):
    recipe = Recipe(env=TOY, episodes=2, reference_episodes=0)

    def meanwhile(done, total):
        if done == 1:
            with pytest.raises(DatasetError, match="another command is writing it"):
                collect(recipe, tmp_path / "dataset")

    assert len(collect(recipe, tmp_path / "dataset", progress=meanwhile)) == 2


SCRIPT = """
import sys
from pmoss_datasets import Recipe, collect
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
    last = [parent.stdout.readline() for _ in range(10)][-1]
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    workers = [pid for pid in children if "spawn_main" in _command(pid)]
    assert len(workers) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any("spawn_main" in _command(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any("spawn_main" in _command(pid) for pid in workers)
    # A kill -9 costs the episodes in flight, of which each worker has one.
    done = int(last.split()[0])
    assert not (tmp_path / "dataset").exists()
    recipe = Recipe(env={"machine": "toy", "slices": 8}, episodes=100000, reference_episodes=0)
    path = partial_path(tmp_path / "dataset")
    with ResultFile(path, about(recipe), key=("number",)) as kept:
        assert len(kept.rows) >= done > 5


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
        ({"behaviours": [{"policy": "lpt", "visits": 5}]}, "visits = 5"),
        ({"behaviours": [{"policy": "lpt", "arguments": ["x"]}]}, "arguments"),
        ({"behaviours": [{"weight": 1}]}, r"behaviours\[0\]\.policy: is missing"),
        ({"surprise": 1}, "surprise"),
        ({"env": {**TOY, "machin": "toy"}}, "env: machin: unknown; known are .*machine, "),
        ({"env": {"self": 1}}, "env: self: unknown"),
        ({"env": {"max_episode_steps": 3}}, "max_episode_steps"),  # gymnasium.make's own
        ({"env": {"machine": 5}}, "env: machine = 5: must be a text"),
        ({"env": ["toy"]}, "env = .*: must be a table"),
        ({"env": {"backend": 5}}, "env: backend = 5: must be a text"),
        ({"episodes": 2.5}, r"episodes = 2\.5: must be a whole number"),
        ({"seed": True}, "seed = True: must be a whole number"),
        ({"tier": 5}, "tier = 5: must be a text"),
        ({"counterfactuals": "no"}, "counterfactuals = 'no': must be true or false"),
        ({"behaviours": 5}, "behaviours = 5: must be a list"),
        ({"behaviours": [5]}, r"behaviours\[0\] = 5: must be a table"),
        ({"behaviours": ["random"]}, r"behaviours\[0\] = 'random': must be a table"),
        ({"behaviours": [{"policy": 5}]}, r"behaviours\[0\]\.policy = 5: must be a text"),
        ({"behaviours": [{"policy": SEARCH, "visits": 1.5}]}, r"visits = 1\.5: must be a whole"),
        ({"behaviours": [{"policy": SEARCH, "budget": 2.5}]}, r"budget = 2\.5: must be a whole"),
        ({"behaviours": [{"policy": "lpt", "weight": "x"}]}, "weight = 'x': must be a number"),
        (
            {"behaviours": [{"policy": "lpt", "weight": float("nan")}]},
            "weight = nan: must be above",
        ),
        ({"behaviours": [{"policy": "lpt", "epsilon": True}]}, "epsilon = True: must be a number"),
        ({"behaviours": [{"policy": "a:b", "arguments": "x"}]}, "arguments = 'x': must be a list"),
        ({"behaviours": [{"policy": "a:b", "arguments": [1]}]}, r"arguments\[0\] = 1: must be a t"),
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
    for content, text in (
        (b"episodes = ", "is not valid TOML"),
        (b"\x7fELF\xd0", "is not valid TOML"),
        (b'tier = "golden"', "unknown tier 'golden'"),
        (b'[[behaviours]]\npolicy = "lpd"', "unknown policy 'lpd'"),
        (b"counterfactuals = 1", "counterfactuals = 1: must be true or false"),
    ):
        path.write_bytes(content)
        with pytest.raises(DescriptionError, match=rf"recipe\.toml: {text}"):
            Recipe.from_toml(path)
    with pytest.raises(DescriptionError, match="cannot be read"):
        Recipe.from_toml(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("change", "task"),
    [
        ({}, "toy-btree-ycsb-a"),
        ({"slices": 8, "reward": "terminal", "noise": 0, "constraints": {}}, "toy-btree-ycsb-a"),
        ({"load": "open:1.5", "interference": "busy_core"}, "toy-btree-ycsb-a-open-1_5-busy-core"),
        ({"machine": "random:3"}, "random-3-btree-ycsb-a"),
        ({"machine": "of/_My Toy.2.toml"}, "my-toy-2-btree-ycsb-a"),
        ({"observation": "paper"}, "toy-btree-ycsb-a-observation-paper"),
        ({"counters": "software"}, "toy-btree-ycsb-a-counters-software"),
        ({"noise": 1}, "toy-btree-ycsb-a-noise-1"),
        ({"noise": 1.0}, "toy-btree-ycsb-a-noise-1"),
        ({"noise": 0.5, "order": "load"}, "toy-btree-ycsb-a-order-load-noise-0_5"),
        (
            {"workload_seed": 7, "incumbent": "grouped"},
            "toy-btree-ycsb-a-incumbent-grouped-workload-seed-7",
        ),
        ({"constraints": {"max_slices_per_core": 2}}, "toy-btree-ycsb-a-max-slices-per-core-2"),
        ({"backend_options": {"b": 1, "a": 2}}, "toy-btree-ycsb-a-a-2-b-1"),
    ],
)
def test_a_task_is_named_after_all_that_its_datasets_differ_in(change, task):
    recipe = Recipe(env={"machine": "toy", **change})
    assert recipe.task == task
    assert recipe.id == f"pmoss/{task}/mixed-v0"


def test_unknown_machines_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UnknownNameError, match="machine"):
        collect(Recipe(env={"machine": "toi"}, episodes=1), tmp_path / "dataset")
    assert list(tmp_path.iterdir()) == []


def test_collected_datasets_verify(tmp_path):
    recipe = Recipe(env=TOY, episodes=2, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "dataset")
    dataset.verify()
    assert open_dataset(tmp_path / "dataset").policy_name(0) in dataset.metadata.policy_names


def test_a_way_of_a_search_is_one_search_from_early_to_late(tmp_path):
    way = Behaviour("local-search", budget=400, visits=4)
    recipe = Recipe(
        env={**TOY, "slices": 16}, episodes=8, tier="way", behaviours=(way,), reference_episodes=0
    )
    dataset = collect(recipe, tmp_path / "dataset")
    seeds, final = dataset.column("seed"), dataset.column("final_throughput")
    assert [way.budget_of_visit(i) for i in range(4)] == [4, 20, 89, 400]
    for first in (0, 4):
        assert len(set(seeds[first : first + 4])) == 1
        assert (np.diff(final[first : first + 4]) >= 0).all()
        assert final[first + 3] > final[first]
    assert seeds[0] != seeds[4]
    assert [recipe.visit(i) for i in (0, 3, 4)] == [(0, 0), (0, 3), (4, 0)]


class FirstLegal:
    """A policy of someone else: the first tile that is allowed."""

    def __init__(self, path):
        self.path = path
        self.gains = []

    def reset(self):
        self.gains.clear()

    def act(self, observation, action_mask):
        assert np.array_equal(observation["position_mask"].ravel(), action_mask)
        return int(np.flatnonzero(action_mask)[0])

    def observe(self, gain):
        self.gains.append(gain)


def test_imported_policies_play(tmp_path, monkeypatch):
    module = types.ModuleType("mine")
    module.make = FirstLegal
    monkeypatch.setitem(sys.modules, "mine", module)
    env = {"machine": "toy", "slices": 12, "constraints": {"max_slices_per_core": 2}}
    behaviours = (Behaviour("mine:make", arguments=("x.npz",)),)
    recipe = Recipe(env=env, episodes=2, tier="mine", behaviours=behaviours, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "dataset")
    workers = load_machine("toy").workers
    assert (np.diff(dataset.column("final_cores")[0][dataset.column("order")[0]]) >= 0).all()
    assert dataset.column("final_cores").min() == workers.min()
    assert dataset.metadata.policy_names == ("mine:make(x.npz)",)
    for policy, text in (
        ("nowhere:make", "cannot be imported"),
        (".nowhere:make", "cannot be imported"),
        ("mine:absent", "imported"),
        ("mine:make", r"policy 'mine:make': .*\(--argument\) \[\]: TypeError: .* missing"),
    ):
        recipe = Recipe(env=env, episodes=1, tier="mine", behaviours=(Behaviour(policy),))
        with pytest.raises(DescriptionError, match=text):
            collect(recipe, tmp_path / "other")


def test_propensities_are_the_chances_of_what_was_chosen(tmp_path):
    behaviours = (Behaviour("lpt", epsilon=0.25), Behaviour("random"), Behaviour("lpt"))
    recipe = Recipe(
        env={"machine": "toy", "slices": 64},
        episodes=30,
        tier="chances",
        behaviours=behaviours,
        reference_episodes=0,
    )
    dataset = collect(recipe, tmp_path / "dataset")
    policy, chance = dataset.column("policy"), dataset.column("propensity")
    stray, follow = np.float32(0.25 / 6), np.float32(0.75 + 0.25 / 6)
    noisy = chance[policy == 0]
    assert set(np.unique(noisy)) == {stray, follow}
    assert (noisy == stray).mean() == pytest.approx(0.25 * 5 / 6, abs=0.04)
    assert (chance[policy == 1] == np.float32(1 / 6)).all()
    assert (chance[policy == 2] == 1).all()


def test_counterfactuals_are_what_the_backend_says_of_every_core(tmp_path):
    recipe = Recipe(env=TOY, episodes=2, reference_episodes=0, counterfactuals=True)
    dataset = collect(recipe, tmp_path / "dataset")
    assert dataset.metadata.optional_fields == ("counterfactual",)
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **dataset.metadata.env_kwargs).unwrapped
    tiles = env.machine.tile_of_core[env.machine.workers]
    for episode in dataset:
        for worker, tile in enumerate(tiles.tolist()):
            env.reset(seed=episode.seed)
            for t, action in enumerate(episode.actions.tolist()):
                if t == 5:
                    *_, info = env.step(tile)
                    break
                env.step(action)
            assert np.float32(info["throughput"]) == episode.counterfactual[5, worker]
    plain = collect(Recipe(env=TOY, episodes=2, reference_episodes=0), tmp_path / "plain")
    assert plain[0].counterfactual is None
    assert "counterfactual" not in plain.metadata.checksums


def test_errors_of_workers_are_the_errors_of_this_process(tmp_path):
    recipe = Recipe(env={"machine": "toi"}, episodes=2, reference_episodes=0)
    with pytest.raises(UnknownNameError, match="unknown machine 'toi'"):
        collect(recipe, tmp_path / "dataset", processes=2)
    assert list(tmp_path.iterdir()) == []


OUTSIDE = """
from pmoss_env.baselines import MODEL, grouped, uses

@uses(MODEL, asks=True)
def deep(context, budget=3):
    for _ in range(budget):
        context.backend.place(grouped(context))
    return grouped(context)
"""


def test_baselines_of_other_packages_collect_as_ours(install_package, tmp_path):
    install_package("outside_search", {"pmoss.baselines": {"deep": "outside_search:deep"}}, OUTSIDE)
    behaviours = [{"policy": "deep", "budget": 2}, {"policy": "deep"}]
    small = {"env": TOY, "episodes": 2, "reference_episodes": 0}
    recipe = Recipe.from_dict({**small, "behaviours": behaviours})
    assert SPATIAL.takes_budget("deep") and "deep" in SPATIAL.policies()
    dataset = collect(recipe, tmp_path / "x")
    assert dataset.metadata.policy_names == ("deep-2", "deep")
    with pytest.raises(DescriptionError, match="grouped: budget = 2: only policies that search"):
        Recipe.from_dict({**small, "behaviours": [{"policy": "grouped", "budget": 2}]})

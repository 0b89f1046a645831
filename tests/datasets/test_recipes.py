"""Recipes: what they may say, and the names of their tasks."""

import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe
from pmoss_datasets.spatial.playing import SEARCH
from pmoss_env.errors import DescriptionError, PmossError

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


def test_every_prefix_holds_the_mixture_in_proportion():
    recipe = Recipe(env=TOY)
    picks = np.array([recipe.behaviour(i) for i in range(400)])
    weights = [behaviour.weight for behaviour in recipe.behaviours]
    shares = np.array(weights) / sum(weights)
    for n in (50, 200, 400):
        counts = np.bincount(picks[:n], minlength=len(weights))
        assert np.abs(counts - n * shares).max() < 4


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
        ({"behaviours": [{"policy": "lpt", "fixed": 5}]}, "fixed = 5: it reads the incumbent"),
        ({"behaviours": [{"policy": "random", "fixed": -1}]}, "fixed = -1"),
        ({"behaviours": [{"policy": "random", "fixed": 2, "epsilon": 0.1}]}, "epsilon must be 0"),
        ({"behaviours": [{"policy": "a:b", "scattered": True}]}, "fixed, scattered"),
        ({"behaviours": [{"weight": 1}]}, r"behaviours\[0\]\.policy: is missing"),
        ({"surprise": 1}, "surprise"),
        (
            {"env": {**TOY, "machin": "toy"}},
            "env: machin: unknown; did you mean 'machine'. known are .*machine, ",
        ),
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
        (rb'"a\nb" = 1', "a\nb: unknown"),
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

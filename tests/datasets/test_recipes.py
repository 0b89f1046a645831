"""Recipes: what they may say, the names of their tasks, and what plays their episodes."""

import sys
import types

import gymnasium
import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.policies import Measured, SchedulePolicy
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_datasets.spatial.playing import SEARCH
from pmoss_env.errors import DescriptionError, PmossError, UnsupportedError
from pmoss_env.machines import load_machine

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


def test_every_prefix_holds_the_mixture_in_proportion():
    recipe = Recipe(env=TOY)
    picks = np.array([recipe.behaviour(i) for i in range(400)])
    weights = [behaviour.weight for behaviour in recipe.behaviours]
    shares = np.array(weights) / sum(weights)
    for n in (50, 200, 400):
        assert np.abs(np.bincount(picks[:n], minlength=len(weights)) - n * shares).max() < 4


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
        ({"env": {**TOY, "machin": "toy"}}, "machin: unknown; did you mean 'machine'. known are"),
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
        ({"behaviours": [{"policy": "lpt", "weight": np.nan}]}, "weight = nan: must be above"),
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
    assert recipe.task == task and recipe.id == f"pmoss/{task}/mixed-v0"


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
    recipe = Recipe(
        env={"machine": "toy", "slices": 64},
        episodes=30,
        tier="chances",
        behaviours=(Behaviour("lpt", epsilon=0.25), Behaviour("random"), Behaviour("lpt")),
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


OUTSIDE = """
from pmoss_env.baselines import MODEL, grouped, uses

@uses(MODEL, needs_backend=True)
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
    assert collect(recipe, tmp_path / "x").metadata.policy_names == ("deep-2", "deep")
    with pytest.raises(DescriptionError, match="grouped: budget = 2: only policies that search"):
        Recipe.from_dict({**small, "behaviours": [{"policy": "grouped", "budget": 2}]})


SPATIAL_ID = "pmoss/SpatialScheduling-v0"
TOY_ENV = {"machine": "toy", "slices": 8}


def played(policy, seed=3, **changes):
    domain = domain_of_env(SPATIAL_ID)
    env = domain.make_env({**TOY_ENV, **changes})
    env.reset(seed=seed)
    if isinstance(policy, Measured):
        policy.check_env(env)
    judge = domain.judge(env)
    try:
        return domain.play(env, policy, seed, judge), env.session
    finally:
        judge.close()
        env.close()


def test_measurements_have_the_noise_and_the_counters_of_the_episode():
    readings = []

    def look(context):
        assert context.backend is None
        readings.append(context.measurements.measure(context.incumbent))
        return context.incumbent

    _, session = played(Measured(SchedulePolicy(look), 1), noise=1.0, counters="software")
    assert readings[0].provenance["noise"] == 1.0
    assert np.array_equal(
        readings[0].counters_available, session.incumbent_snapshot.counters_available
    )
    # The reading is another one than that which the episode began with.
    assert readings[0].throughput != session.incumbent_snapshot.throughput


def test_a_policy_that_cannot_plan_plays_as_ever():
    class First:
        def reset(self):
            pass

        def act(self, observation, mask):
            return int(mask.argmax())

    policy = Measured(First(), 10)
    assert played(policy)[0].actions == played(First())[0].actions and policy.used == 0


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DescriptionError, match="measurements = -2"):
        Measured(SchedulePolicy("lpt"), -2)
    policy = Measured(SchedulePolicy("lpt"), 1)
    env = domain_of_env("pmoss/ThreadScheduling-v0").make_env({})
    with pytest.raises(UnsupportedError, match="no schedules that could be run"):
        policy.check_env(env)
    env.close()
    with pytest.raises(UnsupportedError, match="call check_env"):
        policy.plan(None, None)

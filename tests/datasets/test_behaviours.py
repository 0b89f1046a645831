"""What plays the episodes of a recipe, and what is recorded of it."""

import sys
import types

import gymnasium
import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import load_machine

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core", "order": "load"}


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
    dataset = collect(recipe, tmp_path / "x")
    assert dataset.metadata.policy_names == ("deep-2", "deep")
    with pytest.raises(DescriptionError, match="grouped: budget = 2: only policies that search"):
        Recipe.from_dict({**small, "behaviours": [{"policy": "grouped", "budget": 2}]})

"""Trajectory quality, state-action coverage, and outcomes relative to the instance."""

import numpy as np
import pytest

from pmoss_datasets.card import card
from pmoss_datasets.catalog import load
from pmoss_datasets.collection import collect
from pmoss_datasets.quality import relative_outcomes
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.suite import SHIPPED
from pmoss_env.errors import DescriptionError, UnsupportedError

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}


def collected(folder, *policies, **more):
    behaviours = tuple({"policy": policy} for policy in policies)
    recipe = Recipe(env=TOY, episodes=24, tier="x", behaviours=behaviours, **more)
    return collect(recipe, folder / "-".join(policies))


def test_an_instance_is_its_own_scale(tmp_path):
    dataset = collected(tmp_path, "random", "lpt", reference_budget=300, relative=True)
    assert list(dataset.problems()) == []
    low, high = dataset.column("instance_random"), dataset.column("instance_search")
    assert (low < high).all() and len(set(high.tolist())) == len(dataset)
    relative = relative_outcomes(dataset)
    final = dataset.column("final_throughput")
    assert np.array_equal(relative, (final - low) / (high - low))
    assert relative.max() <= 1.0 + 1e-9
    policy = dataset.column("policy")
    assert relative[policy == 1].mean() > relative[policy == 0].mean()
    text = card(dataset)
    assert "relative to the instance" in text and "each episode's own instance" in text


@pytest.mark.parametrize("id_", SHIPPED)
def test_every_shipped_card_tells_both(id_):
    text = card(load(id_))
    assert "Trajectory quality (TQ)" in text and "State-action coverage (SACo)" in text


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DescriptionError, match="has no search to compare with"):
        Recipe(domain="threads", relative=True)
    env = {**TOY, "backend": "simulated"}
    from pmoss_datasets.domain import find_domain

    with pytest.raises(UnsupportedError, match="cannot be searched"):
        find_domain("spatial").player(Recipe(env=env, relative=True))

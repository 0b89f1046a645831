"""What needs a described machine is refused on this host before its index is loaded."""

from typing import Any

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect, find_domain
from pmoss_datasets.card import card
from pmoss_datasets.continual.domain import ORACLES
from pmoss_datasets.recipes import Behaviour
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.machines import load_machine

CONTINUAL = find_domain("continual")
HERE: dict[str, Any] = {
    **{"backend": "hardware", "machine": "host", "slices": 8, "drift": "none"},
    **{"epochs": 2, "epoch_seconds": 0.02, "moves_per_epoch": 2},
    "backend_options": {"records": 5_000, "warmup_seconds": 0.01},
}

pytestmark = pytest.mark.skipif(
    load_machine("host").workers.size < 2, reason="needs two worker cores"
)


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index may be loaded."""

    def begin(*_: Any) -> None:
        raise AssertionError("the index is loaded")

    monkeypatch.setattr(LiveIndex, "begin", begin)


@pytest.mark.usefixtures("unloaded")
def test_scores_are_refused_with_a_way_out() -> None:
    with pytest.raises(UnsupportedError, match=r"scores need the law oracle.*pmoss run rollout"):
        CONTINUAL.judge(CONTINUAL.make_env(HERE))


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("name", [*ORACLES, "planner", "seasonal-planner", "thorough-planner"])
def test_who_plans_in_a_model_is_named_with_a_way_out(name: str) -> None:
    env = CONTINUAL.make_env(HERE)
    policy = CONTINUAL.policy(name)
    way = "choose another policy" if name in ORACLES else "repair, kernel-like, tries, or the agent"
    with pytest.raises(UnsupportedError, match=rf"^{name}: .*{way}"):
        policy.check_env(env)
    with pytest.raises(UnsupportedError, match=f"^{name}: "):
        policy.begin(env, np.random.default_rng())
    with pytest.raises(DescriptionError, match=f"{name}: plans in a described machine, and this"):
        Recipe(domain="continual", env=HERE, behaviours=[Behaviour(name)], reference_episodes=0)


def test_a_dataset_of_this_host_has_no_scores_and_says_that_it_does_not_repeat(tmp_path) -> None:
    asked = CONTINUAL.asked({name: value for name, value in HERE.items() if name != "machine"})
    assert asked == {"env": HERE, "reference_episodes": 0}
    assert CONTINUAL.asked({"slices": 8}) == {"env": {"slices": 8}}
    recipe = Recipe(domain="continual", **asked, **{**CONTINUAL.tiers()["random"], "episodes": 2})
    dataset = collect(recipe, tmp_path / "here")
    dataset.verify()
    assert "it does not repeat" in card(dataset) and "same bits" not in card(dataset)

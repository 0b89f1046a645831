"""A domain of others: one small module behind an entry point gets all that ours have."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from pmoss_datasets import Behaviour, Recipe, collect, domains, find_domain, open_dataset
from pmoss_datasets.card import card
from pmoss_datasets.domain import GROUP, domain_of_env
from pmoss_datasets.formats import D4RLView
from pmoss_datasets.formats.minari import to_minari
from pmoss_datasets.stepwise.actions import Actions
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    PluginError,
    UnknownNameError,
    UnsupportedError,
)

CORRIDOR = '''
import gymnasium
import numpy as np
from gymnasium import spaces

from pmoss_datasets.stepwise import StepDomain


class CorridorEnv(gymnasium.Env):
    """Walk to the right end; the start depends on the seed."""

    def __init__(self, length=6):
        self.length = length
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(self.length - 1))
        return self.see(), self.info()

    def step(self, action):
        self.place += (-1, 0, 1)[action]
        return self.see(), -1.0, self.place == self.length - 1, False, self.info()

    def see(self):
        return np.array([self.place / self.length], np.float32)

    def info(self):
        return {"action_mask": np.array([self.place > 0, 0, 1], np.int8), "place": self.place}


gymnasium.register("toys/Corridor-v0", "corridor_package:CorridorEnv")


class Corridor(StepDomain):
    name = "corridor"
    env_id = "toys/Corridor-v0"
    rules = {"right": lambda env, observation, mask, rng: 2}
    infos = ("place",)


CORRIDOR = Corridor()
'''


@pytest.fixture
def corridor(install_package):
    install_package(
        "corridor_package", {GROUP: {"corridor": "corridor_package:CORRIDOR"}}, CORRIDOR
    )
    find_domain.cache_clear()
    yield find_domain("corridor")
    find_domain.cache_clear()
    gymnasium.registry.pop("toys/Corridor-v0", None)
    sys.modules.pop("corridor_package", None)


def make(path, **changes):
    recipe = Recipe(domain="corridor", env={"length": 5}, episodes=8, seed=3, **changes)
    return collect(recipe, path)


def test_a_domain_of_others_is_collected_verified_opened_and_replayed(corridor, tmp_path):
    assert "corridor" in domains()
    dataset = make(tmp_path / "data")
    assert dataset.metadata.id == "pmoss/corridor-length-5/mixed-v0"
    assert dataset.metadata.domain == "corridor"
    dataset.verify()
    assert open_dataset(tmp_path / "data").checksum == dataset.checksum
    lengths = dataset.lengths
    assert len(set(lengths.tolist())) > 1 and dataset.steps == lengths.max()
    env = gymnasium.make("toys/Corridor-v0", length=5)
    assert domain_of_env("toys/Corridor-v0") is corridor
    expander = dataset.expander()
    for episode in dataset:
        shown = [env.reset(seed=episode.seed)[0]]
        paid, places = [], []
        for action in episode.actions:
            observation, reward, ended, _, info = env.step(action)
            shown.append(observation)
            paid.append(reward)
            places.append(info["place"])
        assert ended
        expanded = expander.observations(episode, last=True)
        np.testing.assert_array_equal(expanded["observation"], np.stack(shown))
        np.testing.assert_array_equal(corridor.rewards_of(episode, "environment"), paid)
        np.testing.assert_array_equal(episode.infos["place"][1:], places)
        assert episode.outcome == sum(paid)
        assert expander.masks(episode).shape == (episode.steps, 3)
        rollout = corridor.rerun(env.unwrapped, episode.seed, episode.actions.tolist())
        assert rollout.outcome == episode.outcome and rollout.illegal_actions == 0
    assert "corridor" in card(dataset) or "toys/Corridor-v0" in card(dataset)


def test_scores_and_chances(corridor, tmp_path):
    dataset = make(tmp_path / "data", behaviours=(Behaviour("right", epsilon=0.5),))
    assert dataset.metadata.policy_names[0] == "right+eps0.5"
    low, high = dataset.reference_returns()
    assert low < high
    assert dataset.normalized_score(high) == pytest.approx(100)
    for episode in dataset:
        share = 1 / dataset.expander().masks(episode).sum(axis=1)
        np.testing.assert_allclose(episode.propensity, 0.5 * share + 0.5 * (episode.actions == 2))
    env = corridor.make_env({"length": 5})
    judge = corridor.judge(env)
    rollout = corridor.play(env, corridor.policy("right"), 7, judge)
    low, high = judge.reference(7, budget=1, draws=20)
    assert judge.outcome(rollout) == high == -len(rollout.actions) > low
    judge.close()


def test_other_tools_read_it(corridor, tmp_path):
    dataset = make(tmp_path / "data")
    flat = D4RLView(dataset).qlearning()
    assert flat["observations"].shape == (dataset.lengths.sum(), 1)
    assert flat["terminals"].sum() == len(dataset)
    assert not flat["infos/next_action_mask"][:, 1].any()
    pytest.importorskip("minari")
    assert to_minari(dataset, tmp_path / "minari").total_episodes == len(dataset)


def test_what_a_domain_does_not_know_is_refused(corridor, tmp_path):
    for changes, error, text in [
        ({"env": {"width": 3}}, DescriptionError, "env: width: unknown; known are length"),
        ({"behaviours": (Behaviour("left"),)}, UnknownNameError, "unknown policy 'left'"),
        ({"behaviours": (Behaviour("right", budget=3),)}, DescriptionError, "nothing in 'corr"),
        ({"counterfactuals": True}, DescriptionError, "counterfactuals: not known"),
        ({"tier": "golden"}, UnknownNameError, "tier"),
        ({"domain": "corridors"}, UnknownNameError, "Did you mean 'corridor'"),
    ]:
        with pytest.raises(error, match=text):
            Recipe(**{"domain": "corridor", **changes})
    with pytest.raises(UnknownNameError):
        corridor.make_env({}, "pmoss/SpatialScheduling-v0")


def test_what_is_no_domain_is_refused(install_package):
    install_package("no_domain", {GROUP: {"none": "no_domain:THREE"}}, "THREE = 3")
    find_domain.cache_clear()
    with pytest.raises(PluginError, match="'no_domain:THREE' is no Domain"):
        find_domain("none")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_numbers_and_actions_are_one_to_one(parts, data):
    actions = Actions(tuple(parts))
    number = data.draw(st.integers(0, int(np.prod(parts)) - 1))
    assert actions.number(actions.action(number)) == number
    masks = [data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for n in parts]
    mask = np.concatenate(masks).astype(np.int8)
    chosen = np.atleast_1d(actions.action(number))
    assert actions.allowed(number, mask) == all(m[c] for m, c in zip(masks, chosen, strict=True))
    if all(any(m) for m in masks):
        assert actions.allowed(actions.draw(mask, np.random.default_rng(0)), mask)
        assert actions.chance(mask) == pytest.approx(1 / np.prod([sum(m) for m in masks]))


def test_what_is_no_action_is_refused():
    actions = Actions((2, 3))
    assert actions.columns == 5
    for action in (1, [1], [0, 3], [0, -1], [0, 0.5]):
        with pytest.raises(IllegalActionError):
            actions.number(action)
    mask = np.ones(5, np.int8)
    assert not actions.allowed(6, mask) and not actions.allowed(-1, mask)
    assert Actions.of(spaces.MultiDiscrete([2, 3]), "x") == actions
    for space in (spaces.Discrete(3, start=1), spaces.Box(0, 1), spaces.MultiDiscrete([[2, 3]])):
        with pytest.raises(UnsupportedError, match="x: action space"):
            Actions.of(space, "x")

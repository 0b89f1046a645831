"""Compact observations: small, and with all that the other modes show."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.spatial import in_full, observation_space
from pmoss_env.errors import UnsupportedError
from pmoss_env.machines import load_machine
from tests.envs.episodes import SPATIAL

NODES = {"actions": "core_node", "constraints": {"node_memory_gib": [0.1, 0.6]}}


@pytest.mark.parametrize(
    "options",
    [
        {"slices": 24},
        {"machine": "toy", "slices": 9, "order": "load", "noise": 1.0},
        {"machine": "toy", "slices": 8, **NODES},
        {"machine": "toy", "slices": 8, "on_illegal": "terminate"},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["full", "paper", "complete"])
def test_it_says_what_the_other_modes_show(options, mode):
    small = gymnasium.make(SPATIAL, observation="compact", **options)
    large = gymnasium.make(SPATIAL, observation=mode, **options)
    machine = small.unwrapped.machine
    shown, expected = small.reset(seed=3)[0], large.reset(seed=3)[0]
    small.action_space.seed(4)
    ended = False
    while not ended:
        views = in_full(shown, small.unwrapped.episode_facts(), machine)
        for key, values in expected.items():
            assert views[key].dtype == values.dtype, key
            assert np.array_equal(views[key], values), key
        action = small.action_space.sample()
        shown, *outcome, _ = small.step(action)
        expected, *same, _ = large.step(action)
        assert outcome == same
        ended = outcome[1]
    assert set(expected) <= set(views)


def test_a_step_shows_at_most_a_kilobyte():
    env = gymnasium.make(SPATIAL, observation="compact")
    observation, _ = env.reset(seed=0)
    assert env.unwrapped.slices == 256
    assert sum(values.nbytes for values in observation.values()) <= 1000


def test_the_facts_of_all_rows_are_read_without_copies():
    envs = gymnasium.make_vec(
        SPATIAL, num_envs=2, machine="toy", slices=6, observation="compact", copy=False
    )
    with pytest.raises(ResetNeeded):
        envs.unwrapped.episode_facts()
    envs.reset(seed=5)
    facts = envs.unwrapped.episode_facts()
    first = {key: values.copy() for key, values in facts.items()}
    for _ in range(7):  # the last call starts the next episodes
        envs.step(np.flatnonzero(envs.unwrapped.action_masks()[0])[:2])
    for key, values in facts.items():
        assert not values.flags.writeable
        assert np.shares_memory(values, envs.unwrapped.episode_facts()[key])
        for i, env in enumerate(envs.unwrapped.sub_environments()):
            assert np.array_equal(values[i], env.episode_facts()[key])
    assert not np.array_equal(facts["slice_counters"], first["slice_counters"])
    envs.close()


def test_facts_of_all_rows_belong_to_the_compact_form():
    envs = gymnasium.make_vec(SPATIAL, num_envs=1, machine="toy", slices=4)
    envs.reset(seed=0)
    with pytest.raises(UnsupportedError, match="compact"):
        envs.unwrapped.episode_facts()
    envs.close()


def test_a_place_needs_no_more_than_16_bits(monkeypatch):
    monkeypatch.setattr("pmoss_env.envs.spatial.observation.MOST_PLACES", 5)
    with pytest.raises(UnsupportedError, match="complete"):
        observation_space(load_machine("toy"), 4, "compact")

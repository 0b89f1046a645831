"""Expansion gives what the live environment gives, bit for bit."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest

import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_datasets import Recipe, collect
from pmoss_datasets.card import card
from pmoss_datasets.domain import find_domain
from pmoss_datasets.spatial import playing
from pmoss_datasets.spatial.expansion import returns_to_go, rewards
from pmoss_datasets.spatial.rollouts import in_words
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.errors import DatasetError, UnknownNameError, UnsupportedError

CORE_NODE = {
    **{"machine": "toy", "slices": 8, "actions": "core_node", "observation": "complete"},
    "constraints": {"node_memory_gib": [0.1, 0.6]},
}
TASKS = [
    {"machine": "toy", "slices": 8, "interference": "busy_core"},
    {"machine": "toy", "slices": 8, "order": "load", "noise": 1.0},
    {"machine": "toy", "slices": 12, "constraints": {"max_slices_per_core": 2}},
    {"machine": "toy", "slices": 8, "observation": "paper", "load": "saturated"},
    {"machine": "toy", "slices": 8, "observation": "compact"},
    {"machine": "toy", "slices": 8, "observation": "compact", "actions": "core_node"},
    {"machine": "toy", "slices": 8, "observation": "complete", "order": "load"},
    {"machine": "skylake-x-8n", "slices": 64, "order": "load", "interference": "busy_core"},
    {"machine": "toy", "slices": 8, "counters": "software"},
    CORE_NODE,
]


@pytest.fixture(scope="module", params=range(len(TASKS)), ids=lambda i: f"task{i}")
def dataset(request, tmp_path_factory):
    recipe = Recipe(env=TASKS[request.param], episodes=6, seed=3, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("data") / "dataset")


def live(dataset, episode, reward):
    """Observations (T + 1), masks (T + 1), rewards and last info of the real environment."""
    env = gymnasium.make(
        "pmoss/SpatialScheduling-v0", **{**dataset.metadata.env_kwargs, "reward": reward}
    )
    observation, info = env.reset(seed=episode.seed)
    observations, masks, gained = [observation], [info["action_mask"]], []
    for action in episode.actions:
        observation, value, _, _, info = env.step(int(action))
        observations.append(observation)
        masks.append(info["action_mask"])
        gained.append(value)
    return observations, masks, np.array(gained), info, env.unwrapped


def test_observations_and_masks_are_the_live_ones(dataset):
    expander = dataset.domain.expander(dataset)
    for episode in dataset:
        observations, masks, _, info, env = live(dataset, episode, "terminal")
        assert expander.actions == env.action_space.n
        for last in (False, True):
            steps = dataset.steps + last
            expanded = expander.observations(episode, last=last)
            assert set(expanded) == set(observations[0])
            for key, value in expanded.items():
                expected = np.stack([o[key] for o in observations[:steps]])
                assert value.dtype == expected.dtype
                np.testing.assert_array_equal(value, expected, err_msg=key)
            np.testing.assert_array_equal(
                expander.masks(episode, last=last), np.stack(masks[:steps])
            )
        assert info["throughput"] == episode.final_throughput


@pytest.mark.parametrize("mode", REWARDS)
def test_rewards_are_the_live_ones(dataset, mode):
    for episode in list(dataset)[:3]:
        _, _, gained, info, _ = live(dataset, episode, mode)
        expected = info["slice_throughput"] if mode == "slice" else gained
        np.testing.assert_array_equal(rewards(episode, mode), expected)
        to_go = returns_to_go(episode, mode)
        np.testing.assert_allclose(to_go, np.cumsum(expected[::-1])[::-1], rtol=1e-9, atol=1e-9)


def test_snapshots_schedules_and_instance_are_the_live_ones(dataset):
    for episode in list(dataset)[:3]:
        *_, env = live(dataset, episode, "terminal")
        assert episode.incumbent == env.incumbent and episode.final == env.schedule
        assert episode.instance == env.instance
        for which, real in (("incumbent", env.incumbent_snapshot), ("final", env.final_snapshot())):
            snapshot = episode.snapshot(which, dataset.metadata)
            assert snapshot.throughput == real.throughput
            assert snapshot.offcore_names == real.offcore_names
            np.testing.assert_array_equal(snapshot.slice_throughput, real.slice_throughput)
            np.testing.assert_array_equal(snapshot.counters_available, real.counters_available)
            np.testing.assert_array_equal(
                snapshot.slice_counters, real.slice_counters.astype(np.float32)
            )


def test_unmeasured_steps_give_no_improvement_reward(tmp_path):
    dataset = collect(Recipe(env=TASKS[0], episodes=1, reference_episodes=0), tmp_path / "dataset")
    episode = dataclasses.replace(dataset[0], throughput=np.array([np.nan] * 7 + [1.0]))
    with pytest.raises(DatasetError, match="throughput: not measured"):
        rewards(episode, "improvement")
    with pytest.raises(UnknownNameError, match="reward"):
        rewards(episode, "penalty")


def test_actions_that_do_not_lead_to_the_nodes_are_reported(tmp_path):
    policies = ("random", "lpt", "best-fit", "local-search")
    behaviours = tuple({"policy": name, "epsilon": e} for name in policies for e in (0.0, 0.5))
    recipe = Recipe(env=CORE_NODE, episodes=8, reference_episodes=2, behaviours=behaviours)
    dataset = collect(recipe, tmp_path / "dataset")
    wrong = dataclasses.replace(dataset[0], actions=dataset[0].actions ^ 1)
    fields = [field.name for field in dataset.metadata.fields]
    arrays = {name: np.stack([np.asarray(getattr(wrong, name))]) for name in fields}
    problems = list(dataset.domain.problems(arrays, dataset.metadata, dataset.machine))
    assert any("is not where the actions put the data" in line for line in problems)


def test_counterfactuals_are_of_cores_alone():
    recipe = Recipe(env=CORE_NODE, counterfactuals=True)
    with pytest.raises(UnsupportedError, match="use actions='core'"):
        find_domain("spatial").player(recipe)


ROW: dict[str, Any] = {
    **{"incumbent_mq_per_s": 1.0, "final_mq_per_s": 2.0, "incumbent_p99_us": 3.0, "p99_us": 4.0},
    **{"moved_slices": 3, "cores": [0] * 8, "restored": None},
}


def _provenance(*slices: int) -> dict[str, Any]:
    return {"data": {"not_in_place": {str(slice_): "the node is full" for slice_ in slices}}}


def test_a_dataset_tells_of_every_episode(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The incumbent and the end of each episode; the last has all data in place.
    counts = iter([0, 2, 1, 0, 0, 0])
    monkeypatch.setattr(playing, "misplaced", lambda provenance: next(counts))
    recipe = Recipe(env={"machine": "toy", "slices": 8}, episodes=3, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "data")
    assert dataset.metadata.provenance["slices_not_in_place"] == {"0": [0, 2], "1": [1, 0]}
    assert "In 2 of 3 episodes the kernel had not put the data" in card(dataset)


def test_a_rollout_says_that_data_stayed_elsewhere() -> None:
    sentence = in_words({**ROW, "provenance": _provenance(1, 2, 3)})
    assert "data of 3 slices are not where the schedule wants them" in sentence
    assert "not where" not in in_words({**ROW, "provenance": _provenance()})

"""The D4RL form holds what the environment showed, paid and allowed; d3rlpy learns from it."""

import sys
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest

import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_datasets import Dataset, Recipe, collect
from pmoss_datasets.formats import D4RLView
from pmoss_datasets.formats.d3rlpy import find_d3rlpy, import_d3rlpy, to_d3rlpy
from pmoss_datasets.formats.d4rl import write_d4rl
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.errors import DatasetError, DescriptionError, MissingExtraError, UnknownNameError


def test_every_step_is_the_live_one(dataset):
    data = D4RLView(dataset).qlearning()
    kwargs = {**dataset.metadata.env_kwargs, "reward": "terminal"}
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **kwargs)
    space, steps = env.observation_space, dataset.steps
    row = 0
    for episode in dataset:
        observation, info = env.reset(seed=episode.seed)
        for action in episode.actions:
            flat = gymnasium.spaces.flatten(space, observation)
            assert data["observations"].dtype == flat.dtype
            np.testing.assert_array_equal(data["observations"][row], flat)
            np.testing.assert_array_equal(data["infos/action_mask"][row], info["action_mask"])
            observation, reward, ended, _, info = env.step(int(action))
            assert data["actions"][row] == action
            assert data["rewards"][row] == np.float32(reward)
            assert data["terminals"][row] == ended
            following = gymnasium.spaces.flatten(space, observation)
            np.testing.assert_array_equal(data["next_observations"][row], following)
            np.testing.assert_array_equal(data["infos/next_action_mask"][row], info["action_mask"])
            row += 1
    assert row == len(data["actions"]) == len(dataset) * steps
    for key, name in (("seed", "seed"), ("behavior_probability", "propensity")):
        values = [np.broadcast_to(getattr(episode, name), steps) for episode in dataset]
        np.testing.assert_array_equal(data[f"infos/{key}"], np.concatenate(values))
    assert data["terminals"].sum() == len(dataset) and not data["timeouts"].any()


def test_a_mask_chooses_the_episodes_where_it_is_true(dataset):
    view, mask = D4RLView(dataset), np.zeros(len(dataset), dtype=bool)
    mask[[1, 3]] = True
    by_number, by_mask = view.qlearning([1, 3]), view.qlearning(mask)
    for key, values in by_number.items():
        np.testing.assert_array_equal(by_mask[key], values)
    assert len(list(view.sequences(mask.tolist()))) == 2
    for wrong in (mask[:-1], [0.5], 3):
        with pytest.raises(DescriptionError, match=r"a mask of .* Booleans, one for each episode"):
            view.dictionary(wrong)


@pytest.mark.parametrize("mode", REWARDS)
def test_scores_are_those_of_the_dataset(dataset, mode):
    view = D4RLView(dataset, mode)
    returns = view.dictionary()["rewards"].reshape(len(dataset), -1).sum(axis=1)
    score = view.get_normalized_score(returns)
    np.testing.assert_array_equal(dataset.normalized_score(returns, mode), 100 * score)
    low, high = dataset.reference_returns(mode)
    assert view.get_normalized_score(low) == 0 and view.get_normalized_score(high) == 1
    assert view.dictionary([0])["metadata/ref_max_score"] == high


def test_other_modes_are_refused(dataset):
    with pytest.raises(UnknownNameError, match="unknown reward 'bogus'"):
        D4RLView(dataset, "bogus")


def test_episodes_of_different_lengths_make_one_file(tmp_path):
    env = {"machine": "toy", "slices": 6, "epochs": 3}
    recipe = Recipe(domain="continual", env=env, episodes=6, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "dataset")
    assert len(set(dataset.lengths.tolist())) > 1
    write_d4rl(dataset, tmp_path / "x.hdf5")
    with h5py.File(tmp_path / "x.hdf5") as file:
        for key, values in D4RLView(dataset).dictionary().items():
            if not key.startswith("metadata/"):
                np.testing.assert_array_equal(file[key][()], values, err_msg=key)


def test_a_target_is_looked_at_before_the_work(dataset, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("kept")
    monkeypatch.setattr(
        "pmoss_datasets.spatial.expansion.Expander.observations", lambda *_, **__: 1 / 0
    )
    for out, text in [
        (tmp_path, "is a folder"),
        (tmp_path / "file", "exists already"),
        (tmp_path / "file" / "x", "cannot be written: Not a directory"),
    ]:
        with pytest.raises(DatasetError, match=f"^{out}: {text}"):
            write_d4rl(dataset, out, overwrite=text == "is a folder")
    with pytest.raises(ZeroDivisionError):
        write_d4rl(dataset, tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "kept"


TASK = {"machine": "toy", "slices": 8, "reward": "terminal"}


@pytest.fixture(scope="module")
def d3rlpy() -> Any:
    return import_d3rlpy()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    recipe = Recipe(env=TASK, episodes=5, reference_episodes=2, reference_budget=50)
    return collect(recipe, tmp_path_factory.mktemp("data") / "dataset")


@pytest.mark.parametrize("form", ["tuple", "flat"])
def test_boundaries_values_and_actions_are_kept(dataset: Dataset, form: Any) -> None:
    expander = Expander(dataset)
    data = to_d3rlpy(dataset, "improvement", observation=form)
    assert data.size() == 5 and data.dataset_info.action_size == dataset.machine.tiles
    for theirs, mine in zip(data.episodes, dataset, strict=True):
        assert theirs.terminated and len(theirs) == 8
        np.testing.assert_array_equal(theirs.actions[:, 0], mine.actions)
        paid = rewards(mine, "improvement").astype(np.float32)
        np.testing.assert_array_equal(theirs.rewards[:, 0], paid)
        observations = expander.observations(mine)
        if form == "tuple":
            for theirs_part, key in zip(theirs.observations, expander.space.spaces, strict=True):
                assert theirs_part.dtype == observations[key].dtype
                np.testing.assert_array_equal(theirs_part, observations[key])
        else:
            for t in range(8):
                shown = {key: value[t] for key, value in observations.items()}
                flat = gymnasium.spaces.flatten(expander.space, shown)
                np.testing.assert_array_equal(theirs.observations[t], flat)


def test_no_episodes_are_refused(dataset: Dataset) -> None:
    with pytest.raises(DescriptionError, match="episodes: none"):
        to_d3rlpy(dataset, episodes=[])


def test_a_mask_chooses_what_d3rlpy_gets(dataset: Dataset) -> None:
    data = to_d3rlpy(dataset, episodes=np.arange(len(dataset)) == 2)
    np.testing.assert_array_equal(data.episodes[0].actions[:, 0], dataset[2].actions)
    assert data.size() == 1


def test_without_d3rlpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    for ask in (find_d3rlpy, import_d3rlpy, lambda: to_d3rlpy(None)):  # type: ignore[arg-type]
        with pytest.raises(MissingExtraError, match=r"'\.\[d3rlpy\]'"):
            ask()

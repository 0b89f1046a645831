"""d3rlpy learns from a dataset as it is shown to it."""

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_datasets import Dataset, Recipe, collect
from pmoss_datasets.formats.d3rlpy import find_d3rlpy, import_d3rlpy, to_d3rlpy
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.errors import DescriptionError, MissingExtraError

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


def test_without_d3rlpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    for ask in (find_d3rlpy, import_d3rlpy, lambda: to_d3rlpy(None)):  # type: ignore[arg-type]
        with pytest.raises(MissingExtraError, match=r"'\.\[d3rlpy\]'"):
            ask()

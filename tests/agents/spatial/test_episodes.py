"""What is refused before training, and which episodes count as the best."""

import numpy as np
import pytest

from pmoss_agents.spatial.episodes import best_episodes, check_learnable
from pmoss_datasets import Recipe, collect, open_dataset
from pmoss_env.errors import DatasetError

TOY = {"machine": "toy", "slices": 8}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "dataset"
    collect(Recipe(env=TOY, episodes=6, reference_episodes=0), folder)
    return folder


@pytest.fixture
def dataset(path):
    return open_dataset(path)


def change(dataset, column, where, value):
    array = dataset.column(column).copy()
    array[where] = value
    dataset._columns[column] = array


@pytest.mark.parametrize("reward", ["terminal", "slice", "improvement"])
def test_a_whole_dataset_can_be_learned_from(dataset, reward):
    check_learnable(dataset, reward)


def test_one_action_only_is_refused(dataset):
    tile = int(dataset.column("actions")[0, 0])
    change(dataset, "actions", slice(None), tile)
    with pytest.raises(DatasetError, match=f"tile {tile} is the only one in all 6 episodes"):
        check_learnable(dataset, "terminal")


@pytest.mark.parametrize(
    ("column", "reward"),
    [
        ("final_throughput", "terminal"),
        ("final_slice_throughput", "slice"),
        ("throughput", "improvement"),
    ],
)
def test_unknown_returns_are_refused(dataset, column, reward):
    change(dataset, column, 3, np.nan)
    with pytest.raises(DatasetError, match="episode 3"):
        check_learnable(dataset, reward)


def test_steps_without_a_mask_are_refused(dataset, monkeypatch):
    monkeypatch.setattr(
        "pmoss_datasets.spatial.expansion.Expander.masks",
        lambda self, episode: np.zeros((8, dataset.machine.tiles), dtype=np.int8),
    )
    with pytest.raises(DatasetError, match="episode 0: position_mask: no tile is allowed at step"):
        check_learnable(dataset, "terminal")


def test_actions_outside_the_mask_are_refused(dataset):
    forbidden = int(np.flatnonzero(~dataset.machine.worker_tiles)[0])
    change(dataset, "actions", (2, 5), forbidden)
    with pytest.raises(DatasetError, match=f"episode 2, entry 5: actions = {forbidden}: is no"):
        check_learnable(dataset, "terminal")


def test_the_best_episodes(dataset):
    final, start = dataset.column("final_throughput"), dataset.column("incumbent_throughput")
    assert best_episodes(dataset, 0.01).tolist() == [final.argmax()]
    assert set(best_episodes(dataset, 0.5)) == set(np.argsort(final)[3:])
    assert best_episodes(dataset, 0.01, "improvement").tolist() == [(final - start).argmax()]
    assert best_episodes(dataset, 1.0).tolist() == list(range(6))

"""The sequence view holds the expanded episodes."""

import pickle

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect
from pmoss_datasets.spatial.expansion import Expander, returns_to_go
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError

torch = pytest.importorskip("torch")

from pmoss_datasets.formats import D4RLView, SequenceView  # noqa: E402


@pytest.mark.parametrize("observation", ["full", "paper", "complete"])
def test_items_and_batches_are_the_expanded_episodes(tmp_path, observation):
    env = {"machine": "toy", "slices": 8, "observation": observation}
    dataset = collect(Recipe(env=env, episodes=4, reference_episodes=0), tmp_path / "dataset")
    expander = Expander(dataset)
    for mode in REWARDS:
        view = SequenceView(dataset, mode)
        assert len(view) == 4
        observations = expander.observations(dataset[2])
        item = view[2]
        assert ("slice_view" in item) == (observation != "paper")
        assert ("slice_tiles" in item) == (observation == "complete")
        for key, value in item.items():
            if key == "actions":
                expected = dataset[2].actions
            elif key == "returns":
                expected = returns_to_go(dataset[2], mode).astype(np.float32)
            elif key in ("meta", "incumbent_view", "slice_counters", "incumbent_tiles"):
                expected = observations[key][0]
            else:
                expected = observations[key]
            np.testing.assert_array_equal(value.numpy().ravel(), expected.ravel(), err_msg=key)
        batch = view.batch([2, 0])
        for key, value in item.items():
            assert torch.equal(batch[key][0], value)
    with pytest.raises(IndexError):
        SequenceView(dataset)[4]
    with pytest.raises(DescriptionError, match="indices: none"):
        SequenceView(dataset).batch([])
    mask = np.array([False, True, False, True])
    assert torch.equal(view.batch(mask)["actions"], view.batch([1, 3])["actions"])
    with pytest.raises(UnknownNameError, match="reward 'latency'"):
        SequenceView(dataset, "latency")


def test_a_loader_may_have_workers(tmp_path):
    dataset = collect(
        Recipe(env={"machine": "toy", "slices": 4}, episodes=2, reference_episodes=0),
        tmp_path / "dataset",
    )
    for view in (SequenceView(dataset), D4RLView(dataset)):
        copy = pickle.loads(pickle.dumps(view))
        own, same = (
            each[1] if isinstance(each, SequenceView) else each.dictionary([1])
            for each in (view, copy)
        )
        assert all(np.array_equal(own[key], same[key]) for key in own)


def test_pairs_of_tile_and_node_are_refused(tmp_path):
    env = {"machine": "toy", "slices": 4, "actions": "core_node"}
    data = collect(Recipe(env=env, episodes=2, reference_episodes=0), tmp_path / "dataset")
    with pytest.raises(DatasetError, match="its actions are pairs of tile and node"):
        SequenceView(data)


def test_data_without_the_views_are_refused_before_the_first_item(tmp_path):
    stay = {"behaviours": [{"policy": "stay"}], "domain": "continual"}
    continual = {"machine": "toy", "slices": 8, "drift": "busy-cores", "epochs": 4}
    compact = {"machine": "toy", "slices": 8, "observation": "compact"}
    for number, (env, recipe) in enumerate([(continual, stay), (compact, {})]):
        data = collect(
            Recipe(env=env, episodes=2, reference_episodes=0, **recipe), tmp_path / str(number)
        )
        with pytest.raises(DatasetError, match=r"machine_view: .* observation='full', 'paper' or"):
            SequenceView(data)

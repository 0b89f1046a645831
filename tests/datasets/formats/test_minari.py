"""Stock Minari opens what we write, and what its tools write on our environment comes back."""

import shutil

import numpy as np
import pytest

from pmoss_datasets.formats.minari import to_minari
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.errors import DatasetError

minari = pytest.importorskip("minari")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


@pytest.mark.parametrize("mode", REWARDS)
def test_stock_minari_loads_it(dataset, root, mode, recwarn):
    to_minari(dataset, root, mode)
    loaded = minari.load_dataset(dataset.metadata.id)
    assert [str(w.message) for w in recwarn if "None" in str(w.message)] == []
    assert loaded.total_episodes == len(dataset)
    assert loaded.total_steps == len(dataset) * dataset.steps
    expander = Expander(dataset)
    env = loaded.recover_environment()
    for stored, episode in zip(loaded.iterate_episodes(), dataset, strict=True):
        observations = expander.observations(episode, last=True)
        assert set(stored.observations) == set(observations)
        for key, value in observations.items():
            assert stored.observations[key].dtype == value.dtype
            np.testing.assert_array_equal(stored.observations[key], value)
        np.testing.assert_array_equal(stored.actions, episode.actions)
        np.testing.assert_array_equal(stored.rewards, rewards(episode, mode))
        assert stored.terminations.tolist() == [False] * 11 + [True]
        assert not stored.truncations.any()
        legal = stored.infos["action_mask"]
        assert legal[np.arange(12), stored.actions].all()
    # The environment it recovers is the one that was played.
    observation, _ = env.reset(seed=dataset[0].seed)
    np.testing.assert_array_equal(observation["slice_view"], first_of(loaded, "slice_view"))
    paid = [env.step(int(action))[1] for action in dataset[0].actions]
    if mode != "slice":  # known in hindsight only
        np.testing.assert_array_equal(paid, rewards(dataset[0], mode))
    returns = np.array([rewards(episode, mode).sum() for episode in dataset])
    scores = minari.get_normalized_score(loaded, returns)
    np.testing.assert_array_equal(dataset.normalized_score(returns, mode), 100 * scores)


def first_of(loaded, key):
    return next(iter(loaded.iterate_episodes([0]))).observations[key][0]


def test_what_is_there_is_kept_and_failures_leave_nothing(dataset, root, monkeypatch):
    to_minari(dataset, root)
    with pytest.raises(DatasetError, match="exists already"):
        to_minari(dataset, root)
    to_minari(dataset, root, overwrite=True)
    target = root / dataset.metadata.id
    shutil.rmtree(target)
    monkeypatch.setattr("pmoss_datasets.formats.minari._minari_metadata", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        to_minari(dataset, root)
    assert list(target.parent.iterdir()) == []
    with pytest.raises(ZeroDivisionError):
        to_minari(dataset, root / "new" / "root")
    assert not (root / "new").exists()

"""Stock Minari opens what we write, and what its tools write on our environment comes back."""

import shutil

import gymnasium
import h5py
import numpy as np
import pytest

from pmoss_datasets.formats.minari import from_minari, to_minari
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


def test_unmeasured_steps_name_file_and_episode(unmeasured, root):
    where = f"{unmeasured.path}/data.hdf5: episode 0: throughput: not measured"
    with pytest.raises(DatasetError, match=where):
        to_minari(unmeasured, root, "improvement")
    assert not root.exists()


def test_a_full_disk_is_one_line_and_leaves_nothing(dataset, converted_on_a_full_disk, tmp_path):
    target = tmp_path / "new" / dataset.metadata.id
    message = f"error: {target}: cannot be written: File too large\n"
    assert converted_on_a_full_disk(tmp_path / "new", "minari") == (2, message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", REWARDS)
def test_there_and_back(dataset, root, tmp_path, mode):
    if mode == "slice":
        pytest.skip("the live environment does not pay shares, so they cannot be checked by play")
    stored = to_minari(dataset, root, mode)
    again = from_minari(stored, tmp_path / "again")
    again.verify()
    for field in again.metadata.fields:
        if field.name not in ("policy", "propensity", "episode"):
            np.testing.assert_array_equal(again.column(field.name), dataset.column(field.name))


def random_episode(env, seed, buffer_class, number):
    """An episode in Minari's own buffer, as its users fill one by hand."""
    observation, info = env.reset(seed=seed)
    observations, actions, paid, ended = [observation], [], [], False
    rng = np.random.default_rng(seed)
    while not ended:
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, reward, ended, _, info = env.step(action)
        observations.append(observation)
        actions.append(action)
        paid.append(reward)
    return buffer_class(
        id=number,
        seed=seed,
        observations={key: np.stack([o[key] for o in observations]) for key in observations[0]},
        actions=np.array(actions),
        rewards=paid,
        terminations=[False] * (len(actions) - 1) + [True],
        truncations=[False] * len(actions),
    )


@pytest.fixture
def collected(root):
    """Three random episodes of a ready-made id, by Minari's own functions."""
    from minari.data_collector import EpisodeBuffer

    env = gymnasium.make("pmoss/toy-v0")
    buffers = [random_episode(env, 100 + i, EpisodeBuffer, i) for i in range(3)]
    return minari.create_dataset_from_buffers(
        "theirs/random-v0", buffers, env=env, algorithm_name="chance", description="x"
    )


@pytest.mark.filterwarnings("ignore:.*is set to None")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"actions": 0}, r"episode 1: actions: step 2: the mask forbids action 0"),
        ({"rewards": 5.0}, r"episode 1: rewards: step 2 is 5\.0: the environment pays"),
        ({"observations/slice_view": 7.0}, r"episode 1: observations/slice_view: step 2"),
        ({"terminations": None}, r"episode 1: terminations: the episode was not played"),
    ],
)
def test_their_damage_is_refused(collected, tmp_path, change, text):
    [(name, value)] = change.items()
    with h5py.File(collected.storage.data_path / "main_data.hdf5", "a") as file:
        if value is None:
            file["episode_1/terminations"][-1] = False
        else:
            file[f"episode_1/{name}"][2] = value
    with pytest.raises(DatasetError, match=text):
        from_minari(collected, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def replaced(name, change):
    """Puts what ``change`` makes of an array in its place."""

    def damage(file):
        value = change(file[name][()])
        del file[name]
        file[name] = value

    return damage


@pytest.mark.filterwarnings("ignore:.*is set to None")
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda file: file.pop("episode_1"), "episode 1: .*'episode_1' doesn't exist"),
        (lambda file: file.pop("episode_1/actions"), "episode 1: .*'actions' doesn't exist"),
        (lambda file: file.pop("episode_1/observations/meta"), "1: observations/meta: is missing"),
        (replaced("episode_1/rewards", lambda a: a[:2]), r"episode 1: rewards: \(2,\): must be"),
        (replaced("episode_1/actions", lambda a: a[:2]), r"episode 1: .*: \(\d+,\): must be \(2,"),
        (replaced("episode_1/actions", lambda a: a + 0.5), "actions: float64: must be whole"),
        (replaced("episode_1/observations/meta", lambda a: a[:, :2]), r"meta: \(\d+, 2\): must be"),
        (lambda file: file["episode_1"].attrs.update(seed=-4), "episode 1: seed: -4: must be"),
        (lambda file: file["episode_1"].attrs.update(seed="x"), "episode 1: seed: .*'x'"),
        (lambda file: file["episode_1"].attrs.pop("seed"), "episode 1: seed: is missing"),
    ],
)
def test_damage_names_file_episode_and_field(collected, tmp_path, damage, text):
    path = collected.storage.data_path / "main_data.hdf5"
    with h5py.File(path, "a") as file:
        damage(file)
    with pytest.raises(DatasetError, match=text) as caught:
        from_minari(collected, tmp_path / "mine")
    assert str(caught.value).startswith(f"{path}: episode 1: ")
    assert not (tmp_path / "mine").exists()


@pytest.mark.filterwarnings("ignore:.*is set to None")
def test_truncated_and_foreign_files_are_named(collected, dataset, tmp_path):
    path = collected.storage.data_path / "main_data.hdf5"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5000])
    with pytest.raises(DatasetError, match=f"^{path}: episode 0: .*truncated"):
        from_minari(collected, tmp_path / "mine")
    with pytest.raises(DatasetError, match=f"^{path.parent}: cannot be opened.*truncated"):
        from_minari(path.parent, tmp_path / "mine")
    path.write_bytes(whole)
    about = path.with_name("metadata.json")
    about.write_text(about.read_text().replace(r"\"toy\"", r"\"absent\""))
    with pytest.raises(DatasetError, match=f"^{path.parent}: env_spec: .*absent"):
        from_minari(path.parent, tmp_path / "mine")
    with pytest.raises(DatasetError, match=f"^{dataset.path}: is a dataset of pmoss"):
        from_minari(dataset.path, tmp_path / "mine")


@pytest.mark.filterwarnings("ignore")
def test_data_of_other_environments_are_refused(root, tmp_path):
    from minari.data_collector import EpisodeBuffer

    env = gymnasium.make("CartPole-v1")
    buffer = EpisodeBuffer(
        observations=np.zeros((2, 4), np.float32),
        actions=np.zeros(1, np.int64),
        rewards=[0.0],
        terminations=[True],
        truncations=[False],
    )
    other = minari.create_dataset_from_buffers("cart/x-v0", [buffer], env=env)
    with pytest.raises(DatasetError, match="env_spec: is of CartPole-v1"):
        from_minari(other, tmp_path / "mine")
    with pytest.raises(DatasetError, match="cannot be opened by Minari"):
        from_minari(tmp_path / "absent", tmp_path / "mine")


@pytest.mark.filterwarnings("ignore")
def test_minaris_collector_wraps_the_environment(root, tmp_path):
    pytest.importorskip(
        "jax", reason="Minari's DataCollector needs jax: pip install minari[create]"
    )
    env = minari.DataCollector(gymnasium.make("pmoss/toy-v0"), record_infos=True)
    for seed in (5, 6):
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            action = int(np.flatnonzero(info["action_mask"])[seed % 3])
            *_, ended, _, info = env.step(action)
    data = env.create_dataset("theirs/collector-v0")
    dataset = from_minari(data, tmp_path / "mine")
    assert dataset.column("seed").tolist() == [5, 6]

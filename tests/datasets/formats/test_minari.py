"""Minari opens what we write, and what its tools write comes back; failures leave nothing."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from pmoss_datasets.formats.d4rl import write_d4rl
from pmoss_datasets.formats.minari import to_minari
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.envs.spatial.env import REWARDS
from pmoss_env.errors import DatasetError

pytest.importorskip("torch")
from pmoss_datasets.formats import SequenceView

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
        assert stored.infos["action_mask"][np.arange(12), stored.actions].all()
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


@pytest.mark.parametrize(
    "convert",
    [
        lambda data, folder: write_d4rl(data, folder / "new" / "x.hdf5", "improvement"),
        lambda data, folder: to_minari(data, folder / "new", "improvement"),
        lambda data, folder: SequenceView(data, "improvement")[0],
    ],
)
def test_unmeasured_steps_name_file_and_episode(unmeasured, tmp_path, convert):
    where = f"{unmeasured.path}/data.hdf5: episode 0: throughput: not measured"
    with pytest.raises(DatasetError, match=where):
        convert(unmeasured, tmp_path)
    assert list(tmp_path.iterdir()) == []


#: No file may grow beyond 16 kB: what a full disk says, the kernel says. In a process of its own,
#: as HDF5 can take one with it.
FULL = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)); "
    "from pmoss_env.cli import main; main()"
)


@pytest.mark.parametrize("form", ["d4rl", "minari"])
def test_a_full_disk_is_one_line_and_leaves_nothing(dataset, tmp_path, form):
    out = tmp_path / "new" / "x.hdf5" if form == "d4rl" else tmp_path / "new"
    words = ["data", "convert", str(dataset.path), str(out), "--to", form]
    command = [sys.executable, "-B", "-c", FULL, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    target = out if form == "d4rl" else out / dataset.metadata.id
    # In a pipe the bars of the progress go there too.
    lines = [line for line in done.stderr.splitlines() if "\u2501" not in line]
    assert lines == [f"error: {target}: cannot be written: File too large"]
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []

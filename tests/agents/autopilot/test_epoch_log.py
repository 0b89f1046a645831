"""The file of epochs as a dataset: what it holds is what the environment showed."""

import json

import numpy as np
import pytest

from pmoss_datasets.continual.epoch_log import log_dataset, log_episodes, pack, read_log, unpack
from pmoss_datasets.formats import D4RLView
from pmoss_env.errors import DatasetError
from pmoss_env.result_files import ResultFile
from tests.cli.invoking import pmoss

#: A kill within a line, at the beginning, in the middle and before its end.
CUTS = (1, 100, 2000)


def test_an_observation_comes_back_to_the_bit():
    observation = {"a": np.array([[0.1, 3.0]], dtype=np.float32), "b": np.arange(3, dtype=np.int32)}
    back = unpack(json.loads(json.dumps(pack(observation))))
    for key, value in observation.items():
        np.testing.assert_array_equal(back[key], value)
        assert back[key].dtype == value.dtype
    with pytest.raises(DatasetError, match="dtype 'object'"):
        unpack({"a": {**pack(observation)["a"], "dtype": "object"}})


def test_every_session_becomes_an_episode(log, tmp_path):
    pmoss("data", "convert", str(log), str(tmp_path / "data"), "--to", "pmoss")
    dataset = log_dataset(log, tmp_path / "data", overwrite=True)
    dataset.verify()
    _, rows = read_log(log)
    assert [len(rows), len(dataset)] == [13, 2]
    for episode, epochs in zip(dataset, (9, 2), strict=True):
        session = [row for row in rows if row["session"] == episode.seed]
        begins = np.flatnonzero(episode.observations["moves_left"][:, 0] == 1.0)
        # The last row of a session only shows how the epoch before it ended.
        assert begins.size == epochs + 1 == len(session)
        assert episode.rewards.sum() == pytest.approx(sum(r["reward"] for r in session[:-1]))
        for row, state in zip(session, begins, strict=True):
            observation = unpack(row["seen"])
            for key, value in observation.items():
                np.testing.assert_array_equal(episode.observations[key][state], value)
        tiles = episode.observations["slice_tiles"]
        moved = (tiles[1:] != tiles[:-1]).any(axis=1)
        slices = tiles.shape[1]
        within = ~np.isin(np.arange(1, tiles.shape[0]), begins)
        leaves = episode.actions // 2 == slices if dataset.machine.tiles == 2 else None
        if leaves is not None:
            assert not (moved & within & leaves).any()
    flat = D4RLView(dataset).dictionary()
    assert len(flat["actions"]) == dataset.lengths.sum()
    assert dataset.metadata.policy_names == ("repair",)


@pytest.mark.parametrize("bytes_of_it", CUTS)
def test_only_whole_rows_count_after_a_kill(log, tmp_path, bytes_of_it):
    whole = log.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(whole[: last + bytes_of_it])
    assert len(read_log(cut)[1]) == 12
    assert cut.stat().st_size == last + bytes_of_it  # a reader changes nothing
    settings, _ = read_log(cut)
    header = json.loads(whole.splitlines()[0])
    with ResultFile(cut, header, ("session", "epoch")) as file:
        assert len(file.rows) == 12
    assert cut.stat().st_size == last and settings == header["settings"]


def test_epochs_that_went_wrong_end_an_episode(log):
    _, rows = read_log(log)
    rows = rows[:10]
    assert len(log_episodes(rows)) == 1
    for name, value in (("trouble", "it raised"), ("illegal", 1)):
        spoiled = [{**row, name: value} if row["epoch"] == 5 else row for row in rows]
        before, after = log_episodes(spoiled)
        assert before.infos["epoch"][-1] == 4.0 and after.infos["epoch"][0] == 5.0
    lost = [row for row in rows if row["epoch"] != 5]
    assert [episode.infos["epoch"][0] for episode in log_episodes(lost)] == [0.0, 5.0]


def test_what_is_no_file_of_epochs_is_refused(log, tmp_path):
    with pytest.raises(DatasetError, match="cannot be read"):
        read_log(tmp_path / "nothing")
    (tmp_path / "other").write_text("{}\n")
    with pytest.raises(DatasetError, match="no file of epochs"):
        read_log(tmp_path / "other")
    elder = tmp_path / "elder"
    header, *rows = map(json.loads, log.read_text().splitlines())
    for row in rows:
        for name in ("seen", "row_crc32"):
            del row[name]
    elder.write_text("".join(json.dumps(each) + "\n" for each in (header, *rows)))
    output = pmoss("data", "convert", str(elder), str(tmp_path / "d"), "--to", "pmoss", status=2)
    assert "has no seen: an older version wrote it" in " ".join(output.split())
    elder.write_text(json.dumps({**header, "settings": {}}) + "\n")
    with pytest.raises(DatasetError, match="names no drift"):
        read_log(elder)
    short_log = tmp_path / "one"
    short_log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(DatasetError, match="two epochs in a row"):
        log_dataset(short_log, tmp_path / "data")

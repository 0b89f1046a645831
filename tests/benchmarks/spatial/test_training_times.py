"""Times of updates: who is timed, what is kept, and what is refused."""

import json

import pytest

torch = pytest.importorskip("torch")

from pmoss_benchmarks.spatial.training_times import LEARNERS, is_whole, run_training_times  # noqa: E402
from pmoss_datasets import Recipe  # noqa: E402
from pmoss_env.errors import (  # noqa: E402
    DatasetError,
    DescriptionError,
    UnknownNameError,
    UnsupportedError,
)

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}


RECIPE = Recipe(env=TOY, episodes=8, reference_episodes=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of datasets; the recipe's is made when it is asked for."""
    return tmp_path_factory.mktemp("data")


def test_rows_are_of_updates_after_the_first_and_are_kept(data, tmp_path):
    out = tmp_path / "times.jsonl"
    told = []
    rows = run_training_times(
        RECIPE,
        data,
        learners=["surrogate", "bc"],
        seconds=0.0,
        out=out,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 2), (2, 2)]
    assert [(row["learner"], row["device"], row["gpu"]) for row in rows] == [
        ("surrogate", "cpu", None),
        ("bc", "cpu", None),
    ]
    for row in rows:
        # No second was asked for: the fewest that there may be, and the first is not timed.
        assert row["updates"] == 2
        assert 0 < row["low"] <= row["median"] <= row["high"]
        assert row["of"] > row["updates"]
    header, *kept = (json.loads(line) for line in out.read_text().splitlines())
    assert header["kind"] == "training-times"
    assert [{**one, "row_crc32": 0} for one in kept] == [{**row, "row_crc32": 0} for row in rows]
    # The same call makes nothing anew; one with more learners adds to it.
    more = run_training_times(
        RECIPE, data, learners=["surrogate", "bc", "cql"], seconds=0.0, out=out
    )
    assert more[:2] == rows and more[2]["learner"] == "cql"
    # A row that lacks its times is made anew; rows without a seal are of older files.
    lines = out.read_text().splitlines(keepends=True)
    out.write_text(lines[0] + '{"learner": "bc", "device": "cpu"}\n')
    assert is_whole(run_training_times(RECIPE, data, learners=["bc"], seconds=0.0, out=out)[0])
    with pytest.raises(DatasetError):
        run_training_times(RECIPE, data, learners=["bc"], seconds=0.5, out=out)


def test_what_is_unknown_or_absent_is_refused(data, monkeypatch):
    with pytest.raises(UnknownNameError, match="lpt"):
        run_training_times(RECIPE, data, learners=["lpt"])
    with pytest.raises(DescriptionError, match="tpu"):
        run_training_times(RECIPE, data, learners=["bc"], devices=["tpu"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        run_training_times(RECIPE, data, learners=["bc"], devices=["cpu", "cuda"])


def test_what_cannot_be_timed_is_refused_before_anything_is_timed(data, tmp_path):
    out = tmp_path / "times.jsonl"
    with pytest.raises(DescriptionError, match="at least 2 are needed"):
        run_training_times(RECIPE, data, learners=["bc"], seconds=0.0, changes={"updates": 1})
    with pytest.raises(DescriptionError, match="device: give it by"):
        run_training_times(RECIPE, data, learners=["bc"], changes={"device": "cuda"}, out=out)
    with pytest.raises(DescriptionError, match="updates"):
        run_training_times(RECIPE, data, changes={"updates": 3}, out=out)  # some play instead
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(DescriptionError, match="seconds = "):
            run_training_times(RECIPE, data, learners=["bc"], seconds=seconds, out=out)
    assert not out.exists()


def test_every_learner_has_settings_that_its_agent_takes():
    for name, learner in LEARNERS.items():
        settings = learner.settings("skylake-x-8n-btree-ycsb-a-busy-core")
        assert "agent" not in settings, name
    paper, faster = (LEARNERS[f"decision-transformer-paper{end}"] for end in ("", ", bfloat16"))
    assert faster.settings("toy") == {**paper.settings("toy"), "precision": "bfloat16"}

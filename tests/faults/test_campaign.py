"""A slice of the campaign of mutations; with ``-m heavy`` all of it."""

import os
from pathlib import Path

import pytest

from tests.faults import campaign, inputs, mutations


@pytest.fixture
def deterministic():
    import numpy as np

    return lambda number: np.random.default_rng([0, number])


def test_a_mutation_repeats(deterministic):
    for data, text in ((b'{"a": [1, "x"]}', "json"), (b"a = 1\nb = 'x'\n", "toml"), (b"12 3", "")):
        first = [mutations.mutated(data, text, deterministic(n)) for n in range(20)]
        assert first == [mutations.mutated(data, text, deterministic(n)) for n in range(20)]
        assert len(set(first)) > 10


def test_every_sound_file_is_accepted_and_what_goes_wrong_is_reported(tmp_path, monkeypatch):
    sound = tmp_path / "sound"
    sound.mkdir()
    inputs.make(sound)
    monkeypatch.setattr(campaign, "mutated", lambda data, *_: data)
    for number, name in enumerate(inputs.KINDS):
        row = campaign.run_one(sound, number)
        assert (row["kind"], row["outcome"], row["same"]) == (name, "accepted", True), row
    kinds = {
        "foreign": lambda folder: 1 // 0,
        "executed": lambda folder: os.system("true"),
        "crash": lambda folder: os.abort(),
        "memory": lambda folder: bytearray(1 << 40),
        "hang": lambda folder: _spin(),
        "wrong data": lambda folder: str(folder),
    }
    monkeypatch.setattr(campaign, "SECONDS", 1)
    for outcome, read in kinds.items():
        kind = inputs.Kind("schedule/schedule.json", read, sealed=outcome == "wrong data")
        monkeypatch.setattr(campaign, "KINDS", {"schedule": kind})
        assert campaign.run_one(sound, 0)["outcome"] == outcome


def _spin():
    while True:
        pass


def test_a_slice_of_the_campaign(tmp_path):
    log = tmp_path / "log.jsonl"
    counts = campaign.run(log, 60, float("inf"))
    assert counts["accepted"] + counts["refused"] == 60, counts
    assert campaign.run(log, 60, float("inf")) == counts  # from the log


@pytest.mark.heavy
def test_the_campaign():
    """Goes on where $PMOSS_FAULTS_LOG ends."""
    log = Path(os.environ.get("PMOSS_FAULTS_LOG", "build/faults.jsonl"))
    counts = campaign.run(log, 2400, float("inf"))
    print(dict(counts))
    assert {name: counts[name] for name in campaign.FAULTS} == dict.fromkeys(campaign.FAULTS, 0)
    assert counts["accepted"] + counts["refused"] == 2400

"""A slice of the campaign of mutations; with ``-m heavy`` all of it."""

import os

import pytest

from tests.faults import campaign, inputs


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign") / "sound"
    folder.mkdir()
    inputs.make(folder)
    return folder


def test_every_sound_file_is_accepted_and_what_goes_wrong_is_reported(sound, monkeypatch):
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


@pytest.mark.parametrize("mutations", [60, pytest.param(2400, marks=pytest.mark.heavy)])
def test_a_mutated_file_is_accepted_or_refused(sound, mutations):
    for number in range(mutations):
        row = campaign.run_one(sound, number)
        assert row["outcome"] in ("accepted", "refused"), row

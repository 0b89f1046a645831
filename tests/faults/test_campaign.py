"""A slice of the campaigns of mutations and of kills; with -m heavy all of them."""

import os

import pytest

from tests.faults import campaign, inputs, kills


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


WORKS = len(kills.WORKS)
FEW = [
    number
    for number in range(3 * WORKS)
    if [*kills.WORKS][number % WORKS] in ("collect", "evaluate")
]


@pytest.mark.parametrize("numbers", [FEW, pytest.param(range(200), marks=pytest.mark.heavy)])
def test_what_is_killed_goes_on(tmp_path, numbers):
    whole: dict[str, str] = {}
    for number in numbers:
        row = kills.run_one(number, tmp_path, whole)
        assert row["faults"] == [], row

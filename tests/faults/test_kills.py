"""A few kills of the campaign; with ``-m heavy`` all of them."""

import pytest

from tests.faults import kills

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

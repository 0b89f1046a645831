"""A few kills of the campaign; with ``-m heavy`` all of them."""

import os
from pathlib import Path

import pytest

from tests.faults import kills


@pytest.mark.parametrize("name", ["collect", "evaluate"])
def test_a_few_kills(tmp_path, name):
    whole: dict[str, str] = {}
    work = list(kills.WORKS).index(name)
    for number in range(work, work + 3 * len(kills.WORKS), len(kills.WORKS)):
        row = kills.run_one(number, tmp_path, whole)
        assert row["faults"] == [], row


@pytest.mark.heavy
def test_all_kills():
    """Goes on where $PMOSS_KILLS_LOG ends."""
    log = Path(os.environ.get("PMOSS_KILLS_LOG", "build/kills.jsonl"))
    counts = kills.run(log, 200, float("inf"))
    print(dict(counts))
    assert {name: counts[name] for name in kills.FAULTS} == dict.fromkeys(kills.FAULTS, 0)
    assert counts["kills"] == 200

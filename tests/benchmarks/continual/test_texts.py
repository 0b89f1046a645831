"""The block about migration shows what was measured."""

from dataclasses import asdict
from functools import partial

import pytest

from pmoss_benchmarks.cells import Cell, run_cells
from pmoss_benchmarks.continual.migration import MigrationOptions, measure_cell
from pmoss_benchmarks.texts.pages import BLOCKS
from pmoss_benchmarks.texts.stored import Stored


@pytest.fixture
def stored(tmp_path):
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    return Stored(tmp_path)


def test_the_card_of_migration_tells_what_is_missed(stored):
    options = MigrationOptions(trials=1, pairs=1, record_bytes=1.0, queries=100_000, slices=8)
    run_cells(
        partial(measure_cell, options),
        [Cell("toy", "btree", "lookups")],
        settings=asdict(options),
        command="pmoss benchmark migration",
        out=stored.folder / "migration.json",
    )
    text = BLOCKS["migration"](stored)
    assert "| toy | none | " in text and "Each row holds 1 trial, under closed load." in text
    assert "In each 2 slices of 8 go to other nodes" in text
    assert "Wanted are at most 10 % of error" in text and "Missed: " in text

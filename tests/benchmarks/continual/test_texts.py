"""The block about continual scheduling shows what a comparison wrote."""

import shutil

import pytest

from pmoss_benchmarks.continual.headroom import HeadroomOptions, compare
from pmoss_benchmarks.texts.pages import BLOCKS
from pmoss_benchmarks.texts.stored import Stored


@pytest.fixture
def stored(tmp_path):
    folder = tmp_path / "benchmarks" / "results" / "continual"
    folder.mkdir(parents=True)
    env = {"machine": "toy", "slices": 8, "epochs": 2}
    options = HeadroomOptions(env, episodes=2, tuning=1, tuning_epochs=1)
    compare(
        ["jobs"],
        options,
        policies=["stay", "delayed-oracle", "law-oracle"],
        agents=["pmoss_datasets.continual.rules:Interleave"],
        out=folder / "headroom.json",
    )
    yield Stored(tmp_path)
    shutil.rmtree(folder)


def test_every_policy_has_its_row(stored):
    text = BLOCKS["continual-headroom"](stored)
    assert "`jobs`, 2 paired episodes." in text
    assert "| stay |" in text and "| law-oracle |" in text and "100.0 [100.0, 100.0]" in text
    assert "On this model the law oracle serves " in text and "more than `stay`: " in text
    assert "headroom.json" in text
    assert "| Interleave |" in text and "`Interleave` closes " in text


def test_every_task_has_its_verdict(stored):
    text = BLOCKS["continual-tasks"](stored)
    assert "| `jobs`, on toy | stay | 2 | " in text
    assert "| yes |" in text or "| no: " in text

"""What an agent serves when a share of the best is wanted."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from pmoss_benchmarks.offline import wanted
from pmoss_benchmarks.offline.wanted import (
    FORMAT,
    WantedCell,
    WantedOptions,
    measure_cell,
    rank_correlation,
    recheck,
)
from pmoss_datasets import load
from pmoss_datasets.suite import TOY
from pmoss_env.errors import DatasetError, DescriptionError

SMALL = {"layers": 1, "heads": 1, "width": 8, "channels": 4, "updates": 2, "warmup": 1}


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setattr(wanted, "build", lambda id_, *_, **__: load(id_))
    return WantedOptions(
        TOY, shares=(0.4, 1.0), episodes=2, budget=64, changes=SMALL, references=str(tmp_path)
    )


def test_each_episode_is_played_for_each_share(options):
    found = measure_cell(options, WantedCell(TOY))
    served = np.array(found["served"])
    assert served.shape == (2, 2)
    assert (served > 0).all()
    shares = (served / found["best"]).mean(axis=1)
    assert [one["value"] for one in found["curve"]] == pytest.approx(shares)
    assert -1 <= found["correlation"]["value"] <= 1
    assert not {"folder", "references", "agents"} & set(options.settings)


def test_what_is_stored_plays_again(options, tmp_path):
    path = tmp_path / "wanted.json"
    cell = {"task": TOY, "seed": 0, **measure_cell(options, WantedCell(TOY))}
    report = {"format": FORMAT, "settings": options.settings, "cells": [cell]}
    path.write_text(json.dumps(report))
    assert recheck(path, 2) == []
    cell["served"][1][0] *= 1.5
    path.write_text(json.dumps(report))
    found = recheck(path, 2)
    assert [line.split(":")[0] for line in found[-1:]] == ["training 0, episode 0, wanted 1"]
    assert any("curve" in line for line in found)
    path.write_text(json.dumps({"format": FORMAT}))
    with pytest.raises(DatasetError, match="is no report of `pmoss benchmark wanted`"):
        recheck(path)


def test_the_agent_is_told_what_is_wanted(options, monkeypatch):
    told = []
    target = "pmoss_agents.spatial.decision_transformer.DecisionTransformer.set_target"
    monkeypatch.setattr(target, lambda self, throughput: told.append(throughput))
    found = measure_cell(options, WantedCell(TOY))
    assert told == pytest.approx([share * best for best in found["best"] for share in (0.4, 1.0)])


def test_ranks_are_compared_over_all_episodes():
    wishes = (0.3, 0.6, 0.9)
    rising = np.array([[0.3, 0.31], [0.5, 0.6], [0.9, 0.8]])
    found = rank_correlation(wishes, rising)
    assert found["value"] > 0.9
    assert found["low"] <= found["value"] <= found["high"] + 0.1
    assert found["of_means"] == pytest.approx(1.0)
    assert rank_correlation(wishes, -rising)["of_means"] == pytest.approx(-1.0)
    assert rank_correlation(wishes, np.ones((3, 2)))["value"] == 0.0


def test_what_was_trained_before_is_trained_no_more(options, tmp_path, monkeypatch):
    found = measure_cell(options, WantedCell(TOY))
    kept = replace(options, agents=str(tmp_path / "agents"))
    assert kept.settings == options.settings
    first = measure_cell(kept, WantedCell(TOY))
    monkeypatch.setattr("pmoss_agents.trainer.train", None)
    assert measure_cell(kept, WantedCell(TOY)) == first == {**found, "metrics": {}}


def test_what_is_far_out_of_reach_has_no_rank(options):
    found = measure_cell(replace(options, shares=(0.4, 1.0, 2.0)), WantedCell(TOY))
    served = np.array(found["served"]) / found["best"]
    assert len(found["curve"]) == 3
    assert found["correlation"] == rank_correlation((0.4, 1.0), served[:2])


def test_what_cannot_be_wanted_is_refused(options):
    for shares in ((1.0,), (1.0, 2.0), (0.0, 0.5, 1.0)):
        with pytest.raises(DescriptionError, match=re.escape(f"shares = {list(shares)}: must be")):
            WantedOptions(TOY, shares=shares)
    with pytest.raises(DescriptionError, match="'bc': must learn from data and take a wanted"):
        measure_cell(WantedOptions(TOY, agent="bc", shares=(0.5, 1.0)), WantedCell(TOY))

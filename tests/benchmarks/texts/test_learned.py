"""What learned, on the papers' pages: ratios with intervals, and what was not played."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.texts import learned
from pmoss_benchmarks.texts.stored import Stored

STORED = Stored(Path(__file__).resolve().parents[3])
TASK = "milan-nps4-btree-ycsb-a"


def test_ratios_are_of_means_and_their_intervals_of_episodes() -> None:
    of = learned.throughputs(STORED, learned.MACHINES, "same-task", TASK)
    assert {"os-default", "grouped", "lpt", "surrogate", "local-search"} <= set(of)
    assert {values.shape for values in of.values()} == {(10,)}
    found = learned.ratios(of, "surrogate")
    one = found["over SE:N"]
    assert one.value == pytest.approx(of["surrogate"].mean() / of["shared-everything"].mean())
    assert one.low is not None and one.high is not None
    assert one.low < one.value < one.high
    each = [found[f"over {name}"].value for name in ("OS:D", "OS:I", "SE:N", "SN:N")]
    assert found["mean over the four shared"].value == pytest.approx(np.mean(each))
    assert found["over the best shared"].value == pytest.approx(min(each))
    same = learned.ratios({**of, "copy": of["grouped"]}, "copy")["over Grouped"]
    assert (same.value, same.low, same.high) == pytest.approx((1, 1, 1))


def test_a_column_whose_schedules_did_not_play_is_left_out() -> None:
    of = learned.throughputs(STORED, learned.MACHINES, "same-task", TASK)
    del of["os-default"]
    found = learned.ratios(of, "surrogate")
    assert "over OS:D" not in found and "mean over all eight" not in found
    assert "over OS:I" in found and "over the best SN:T" in found


def test_what_was_not_played_is_named() -> None:
    text = learned.standing(STORED)
    cells = STORED[f"{learned.PAPER}/summary.json"]["cells"].values()
    for agent in ("surrogate", "decision-transformer"):
        [part] = [one for one in text.split("\n- ") if one.startswith(f"`{agent}`")]
        played = {(cell["track"], cell["task"]) for cell in cells if cell["agent"] == agent}
        assert f"played {len(played)} of 40" in part
        assert len(played) + part.count("-btree-") + part.count("-rtree-rtree") == 40
    pairs = learned.pairs(["over LPT"], ["noise/" + TASK], "", STORED)
    assert f"Not played yet: `noise/{TASK}`" in pairs


def test_the_mean_of_the_papers_servers_is_told_where_all_were_played() -> None:
    names = ("skylake-x-8n", "milan-nps4", "milan-nps1", "sandy-bridge", "grace-hopper")
    text = learned.servers(["over SE:N"], names, "", STORED)
    each = []
    for name in names:
        of = learned.throughputs(STORED, learned.MACHINES, "same-task", f"{name}-btree-ycsb-a")
        each.append(learned.ratios(of, "surrogate")["over SE:N"].value)
    assert f"| mean of the 5 servers | closed load | surrogate | {np.mean(each):.2f} |" in text
    assert "mean of the" not in learned.servers(["over SE:N"], names[:4], "", STORED)


def test_nothing_is_told_of_what_no_run_played() -> None:
    assert learned.throughputs(STORED, learned.MACHINES, "noise", TASK) == {}

"""What groups of inputs are worth: rows, their summary, and going on after a stop."""

import pytest

pytest.importorskip("torch")

from pmoss_agents.spatial.encoders import GROUPS
from pmoss_benchmarks.spatial.ablation import run_ablation, summary
from pmoss_datasets.suite import TOY
from pmoss_env.errors import DatasetError, DescriptionError

FEW = {"seeds": 1, "data": 12, "episodes": 1, "search_budget": 50}
SMALL = {"updates": 2, "layers": 1, "heads": 2, "width": 16}


def test_each_group_is_left_out_once_and_a_run_goes_on(tmp_path):
    out = tmp_path / "ablation.jsonl"
    rows = run_ablation(TOY, "decision-transformer", changes=SMALL, out=out, **FEW)
    assert [row["without"] for row in rows] == ["", *GROUPS]
    lines = out.read_text().splitlines()
    out.write_text("\n".join(lines[:4]) + "\n")
    seen = []
    again = run_ablation(
        TOY,
        "decision-transformer",
        changes=SMALL,
        out=out,
        progress=lambda done, total: seen.append((done, total)),
        **FEW,
    )
    assert [row["score"] for row in again] == [row["score"] for row in rows]
    assert seen[-1] == (7, 7)
    other = {**SMALL, "updates": 3}
    with pytest.raises(DatasetError, match="ablation"):
        run_ablation(TOY, "decision-transformer", changes=other, out=out, **FEW)


def test_the_summary_compares_with_all_inputs():
    rows = [
        {"without": group, "seed": seed, "score": score + seed}
        for group, score in (("", 90.0), ("core", 40.0))
        for seed in range(2)
    ]
    assert summary(rows) == [("", 90.5, 0.0), ("core", 40.5, 50.0)]


def test_an_agent_without_groups_is_refused():
    with pytest.raises(DescriptionError, match="agent = 'pair-policy'"):
        run_ablation(TOY, "pair-policy")


def test_an_agent_is_left_its_own_groups():
    small = {"members": 1, "updates": 2, "width": 8, "features": 4, "demands": 2, "rounds": 1}
    rows = run_ablation(TOY, "surrogate", changes=small, **FEW)
    assert [row["without"] for row in rows] == ["", *GROUPS, "cost"]

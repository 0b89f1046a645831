"""The committed results replay, and the README shows what they hold."""

import json
import re
from pathlib import Path

import pytest

from pmoss_env.evaluation import aggregate, read_results, replay

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
README = (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.jsonl")), ids=lambda path: path.stem)
def test_committed_results_replay_to_the_last_bit(path: Path) -> None:
    assert replay(path).mismatches == ()


def test_readme_shows_the_committed_table() -> None:
    for summary in aggregate(read_results(RESULTS / "demo" / "results.jsonl")[1]):
        low, high = summary.throughput_low, summary.throughput_high
        cell = re.escape(f"{summary.throughput:.1f} [{low:.1f}, {high:.1f}]")
        assert re.search(rf"^  {summary.policy} +{cell} ", README, re.M), summary.policy


def test_readme_shows_the_committed_performance() -> None:
    for figure in json.loads((RESULTS / "performance.json").read_text())["figures"]:
        assert f"| {figure['name']} | {figure['median']:.4g} [" in README
        assert figure["reached"] in (None, True), figure

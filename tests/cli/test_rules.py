"""The list of rules and searches holds every baseline."""

from pmoss_env.baselines import BASELINES, SHARED_BASELINES
from tests.cli.invoking import pmoss_json


def test_every_baseline_has_a_row() -> None:
    assert [row["name"] for row in pmoss_json("list", "rules")] == [*BASELINES, *SHARED_BASELINES]

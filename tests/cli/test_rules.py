"""The list of rules and searches holds every baseline, in words for readers."""

import json

from pmoss_env.baselines import BASELINES, SEARCHES, SHARED_BASELINES, STATIC_BASELINES
from pmoss_env.baselines.walk import DEFAULT_BUDGET
from tests.cli.invoking import pmoss

ROWS = {
    row["name"]: [value for key, value in row.items() if key != "name"]
    for row in json.loads(pmoss("list", "rules", "--json"))
}


def test_every_baseline_has_a_row() -> None:
    assert list(ROWS) == [*BASELINES, *SHARED_BASELINES]


def test_a_row_tells_what_it_may_use() -> None:
    assert {name for name, (_, knows, _) in ROWS.items() if knows == "nothing"} == {
        *STATIC_BASELINES,
        "incumbent",
        *SHARED_BASELINES,
    }
    for name, (_, _, evaluations) in ROWS.items():
        if name == "exact":
            assert evaluations == "all it needs"
        else:
            assert evaluations == (f"{DEFAULT_BUDGET:,}" if name in SEARCHES else "0"), name

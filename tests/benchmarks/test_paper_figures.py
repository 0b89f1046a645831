from pathlib import Path

import pytest

from pmoss_benchmarks.validation.targets import judge
from pmoss_env.errors import DescriptionError


def test_a_figure_is_judged_by_its_range_and_no_evidence_where_it_was_fitted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "figures.toml"
    figures = [
        'statement = "a"\nlow = 0.5\nhigh = 1.0',
        'statement = "b of {name}"\nlow = 0.5\nhigh = 1.0',
        'what = "c"\nlow = 0.5\nhigh = 1.0\nfitted = true',
        'what = "d"\nlow = 0.5\nhigh = 1.0\nbasis = "a parameter"',
    ]
    path.write_text("[usual]\ncause = ''\n[[figure]]\n" + "\n[[figure]]\n".join(figures))
    ours = {"a": 1.0, "b of x": 1.1, "c": 1.1, "d": 0.7}
    judged = judge(path, ours, name="x")
    assert [row["verdict"] for row in judged] == ["inside", "outside", "fitted", "fitted"]
    assert [row["ours"] for row in judged] == list(ours.values())
    assert judged[1]["statement"] == "b of x" and judged[1]["cause"] == ""
    for wrong in ({"a": 1.0}, {**ours, "e": 1.0}):
        with pytest.raises(DescriptionError, match="needs a figure and a value"):
            judge(path, wrong, name="x")

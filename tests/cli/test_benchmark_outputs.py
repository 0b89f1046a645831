"""Old names of benchmarks answer with the study of today."""

from pathlib import Path

from pmoss_benchmarks.cli.benchmark.commands import RENAMED_STUDIES
from pmoss_benchmarks.study import Results
from tests.cli.invoking import pmoss

STUDIES = Results(Path(__file__).resolve().parents[2])


def test_a_benchmark_that_is_a_study_now_says_so() -> None:
    for old, study in RENAMED_STUDIES.items():
        output = pmoss("benchmark", old, "--machine", "toy", status=2)
        assert f"`pmoss benchmark {old}` is now `pmoss study run {study}`" in output
        assert STUDIES.study(study).name == study

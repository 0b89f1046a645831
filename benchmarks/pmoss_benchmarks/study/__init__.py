"""Studies: a description in TOML, one runner, one store of rows, one replay.

A study is ``benchmarks/studies/NAME.toml``. Its rows lie in ``benchmarks/results/NAME.jsonl``. What
a cell does stands in the module of ``pmoss_benchmarks.functions`` that the description names.
"""

from pmoss_benchmarks.study.description import Study, read_study, studies_in
from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.runner import replay_study, run_study
from pmoss_benchmarks.study.store import Results, StoredStudy, read_stored

__all__ = [
    "Results",
    "Run",
    "StoredStudy",
    "Study",
    "read_stored",
    "read_study",
    "replay_study",
    "run_study",
    "studies_in",
]

"""How tests make a row again."""

from types import ModuleType
from typing import Any

from pmoss_benchmarks.study.function import Run
from pmoss_benchmarks.study.runner import differences_of


def recheck(function: ModuleType, run: Run, row: dict[str, Any]) -> list[str]:
    """One line for each value of a row that comes out different."""
    if hasattr(function, "again"):
        return differences_of(function, row, function.again(run, row))
    # A row has the fields of its cell.
    cell_again = (
        function.Work(run)(row) if hasattr(function, "Work") else function.measure(run, row)
    )
    return differences_of(function, row, cell_again)

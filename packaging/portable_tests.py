"""Runs the tests of models, environments, data and agents on an installed portable build.

    python packaging/portable_tests.py [words of pytest]

The tests are copied aside, so that what is installed runs and not the checkout. A test that asks
for this host, or for an extra that is missing, ends with a typed error. It counts as skipped, and
its name is printed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pmoss_env.errors import MissingExtraError, PlatformError
from pmoss_env.platforms import looks_at_host

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDERS = ("envs", "baselines", "datasets", "agents", "workloads")
FILES = ("test_analytic.py", "test_simulated.py", "test_data_facts.py", "test_rtree.py")
#: Processes of their own meet the refusals here, so the tests see other errors. One test reads the
#: results of a checkout.
LEFT_OUT = (
    "--ignore=tests/envs/threads/live",
    "--ignore=tests/envs/test_other_gymnasium.py",
    "--deselect=tests/datasets/test_suite.py"
    "::test_a_task_is_named_after_what_it_is_and_holds_the_measured_headroom",
)


class Refusals:
    """Which tests ask for what is not here, by the error."""

    def __init__(self) -> None:
        self.names: dict[type[Exception], list[str]] = {
            kind: [] for kind in (PlatformError, MissingExtraError, ModuleNotFoundError)
        }

    def _forgive(self, report: Any, call: Any, name: str) -> None:
        """Makes a refusal a skipped test."""
        if call is None or call.excinfo is None:
            return
        # A module that cannot be imported ends with an error of pytest, by the one of the module. A
        # test that waits for another error ends with one of pytest while this one is handled.
        error = call.excinfo.value
        met = (error, error.__cause__, error.__context__)
        for refusal, names in self.names.items():
            if any(isinstance(each, refusal) and not _is_ours(each) for each in met):
                names.append(name)
                report.outcome = "skipped"
                report.longrepr = (name, 0, refusal.__name__)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Of a file whose head asks for something."""
        report = yield
        self._forgive(report, getattr(report, "call", None), collector.nodeid)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Of a test."""
        report = yield
        self._forgive(report, call, item.nodeid)
        return report


def _is_ours(error: BaseException) -> bool:
    """Whether a module of this project is missing, which is no refusal."""
    name = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    return name.startswith(("pmoss", "tests"))


def main() -> int:
    """Runs the tests; the status is that of pytest."""
    assert not looks_at_host(), "this build looks at its host: it is no portable one"
    words = sys.argv[1:]
    if not any(word.startswith("tests") for word in words):
        words += [f"tests/{name}" for name in (*FOLDERS, *(f"backends/{file}" for file in FILES))]
    refusals = Refusals()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(REPOSITORY / "tests", Path(folder, "tests"))
        shutil.copy(REPOSITORY / "pyproject.toml", folder)
        Path(folder, "benchmarks").mkdir()  # cards name results of a checkout
        Path(folder, "benchmarks", "results").symlink_to(REPOSITORY / "benchmarks" / "results")
        os.chdir(folder)
        status = pytest.main(
            ["-m", "not heavy", "-p", "no:cacheprovider", *LEFT_OUT, *words], [refusals]
        )
        os.chdir(REPOSITORY)
    for refusal, names in refusals.names.items():
        print(f"{refusal.__name__}: {len(names)}", *names, sep="\n  ")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

"""The example libraries, for the tests that need them."""

import os

import pytest

from pmoss_benchmarks.performance.programs import Example, examples
from tests.native.builds import REQUIRED

EXAMPLES = examples()


def need_example(example: Example) -> None:
    """Skips the test at hand where its package is missing, or fails it where it is required."""
    if not example.missing():
        return
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(example.missing())
    pytest.skip(f"NOT RUN: {example.missing()}")

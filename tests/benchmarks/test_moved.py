"""Old import paths give the modules of today, with a warning."""

import importlib
import sys

import pytest

from pmoss_benchmarks.moved import MOVED


@pytest.mark.parametrize("name", [*MOVED, "evaluation.statistics"])
def test_an_old_path_gives_the_module_of_today(name: str) -> None:
    first, _, below = name.partition(".")
    today = importlib.import_module(".".join(filter(None, (MOVED[first], below))))
    sys.modules.pop(f"pmoss_benchmarks.{name}", None)
    with pytest.warns(DeprecationWarning, match=MOVED[first]):
        assert importlib.import_module(f"pmoss_benchmarks.{name}") is today


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pmoss_benchmarks.evaluations")

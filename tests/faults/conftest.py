"""What the tests of damaged and hostile input share."""

import sys

import pytest

from pmoss_datasets import Recipe, collect
from tests.faults.tampering import FRAGMENT, change_metadata


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A small dataset, not to be changed."""
    recipe = Recipe(env={"machine": "toy", "slices": 4}, episodes=3, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("faults") / "dataset")


@pytest.fixture
def tampered(whole, tmp_path):
    """Gives a copy of the dataset with other metadata and the checksum to it."""

    def copy(**changes):
        return change_metadata(whole.path, tmp_path / "tampered", **changes)

    return copy


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A module that leaves a trace when it is imported or called: (its name, its trace)."""
    trace = tmp_path / "executed"
    name = f"canary_{FRAGMENT}"
    code = f"open({str(trace)!r}, 'a').write('imported')\ndef make(*_, **__):\n    1 / 0\n"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield name, trace
    sys.modules.pop(name, None)

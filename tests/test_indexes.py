"""The kinds of index, and what each of them must have."""

from pathlib import Path

import numpy as np
import pytest

import pmoss_env
from pmoss_env import _native, indexes
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import PluginError, UnknownNameError
from pmoss_env.indexes import DEFAULT, holds_points, index_kind, index_names
from pmoss_env.workloads import load_workload, resized
from tests.native.builds import REPOSITORY


def test_kinds_are_found_by_name() -> None:
    assert index_names() == sorted(index_names())
    assert DEFAULT in index_names()
    with pytest.raises(UnknownNameError, match=r"index 'rtre'.*rtree"):
        index_kind("rtre")


@pytest.mark.parametrize("name", index_names())
def test_a_kind_serves_records_and_profiles_its_usual_workload(name: str) -> None:
    kind = index_kind(name)
    workload = load_workload(kind.usual_workload)
    assert workload.index == kind.name == name
    assert holds_points(name) == (kind.records == "points")
    native = native_workload(resized(workload, 20_000), seed=1)
    runner = _native.Runner(native, name, slices=16, huge_pages=False)
    runner.load()
    assert runner.size == 20_000
    trace = kind.record(native, 16, queries=1_000, line_sampling=1, page_sampling=1)
    assert (trace.size, trace.slices) == (1_000, 16)
    profiler = kind.make_profiler(native, 16, queries=1_000, line_sampling=1, page_sampling=1)
    np.testing.assert_allclose(profiler.profiles(1).share.sum(), 1.0)


def test_the_header_is_the_one_of_the_source() -> None:
    folder = Path(pmoss_env.get_include())
    assert folder.is_absolute()
    source = REPOSITORY / "native" / "include" / "pmoss" / "index.h"
    assert (folder / "pmoss" / "index.h").read_text() == source.read_text()


def test_an_installation_has_it_beside_the_extension(tmp_path, monkeypatch) -> None:
    header = tmp_path / "include" / "pmoss" / "index.h"
    header.parent.mkdir(parents=True)
    header.touch()
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    assert pmoss_env.get_include() == str(tmp_path / "include")


def test_an_installation_without_it_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    monkeypatch.setattr(indexes, "__file__", str(tmp_path / "pmoss_env" / "indexes.py"))
    with pytest.raises(PluginError, match="install pmoss-env again"):
        pmoss_env.get_include()

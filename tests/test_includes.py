"""The folder of the C header."""

from pathlib import Path

import pytest

import pmoss_env
from pmoss_env import includes
from pmoss_env.errors import PluginError
from tests.native.builds import REPOSITORY


def test_the_header_is_the_one_of_the_source() -> None:
    found = Path(pmoss_env.get_include())
    assert found.is_absolute()
    source = REPOSITORY / "native" / "include" / "pmoss" / "index.h"
    assert (found / "pmoss" / "index.h").read_text() == source.read_text()


def test_an_installation_has_it_beside_the_extension(tmp_path, monkeypatch) -> None:
    header = tmp_path / "include" / "pmoss" / "index.h"
    header.parent.mkdir(parents=True)
    header.touch()
    monkeypatch.setattr(includes, "_EXTENSION", str(tmp_path / "_native.so"))
    assert pmoss_env.get_include() == str(tmp_path / "include")


def test_an_installation_without_it_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(includes, "_EXTENSION", str(tmp_path / "_native.so"))
    monkeypatch.setattr(includes, "__file__", str(tmp_path / "pmoss_env" / "includes.py"))
    with pytest.raises(PluginError, match="install pmoss-env again"):
        pmoss_env.get_include()

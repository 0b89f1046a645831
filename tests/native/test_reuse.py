"""What tests/native/reuse.py takes from another build, and what it lets the compiler make."""

import json
from pathlib import Path

import pytest

from tests.native import reuse

SOURCE = "index/search.cpp"
HEADER = "index/search.hpp"
OBJECT = "index/CMakeFiles/pmoss_index.dir/search.cpp.o"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A compiler's words in a copy of a checkout that has been built."""
    for root in ("own", "copy"):
        for name, text in {SOURCE: "int f();", HEADER: "", "other.hpp": ""}.items():
            path = tmp_path / root / "native" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / root / "pmoss_env").mkdir()
        (tmp_path / root / "pmoss_env" / "counters.toml").write_text("")
    build = tmp_path / "own" / "build"
    (build / OBJECT).parent.mkdir(parents=True)
    (build / OBJECT).write_text("object")
    source = tmp_path / "own" / "native" / SOURCE
    command = f"ccache c++ -I{build} -O3 -fPIC -o {OBJECT} -c {source}"
    commands = [{"file": str(source), "command": command}]
    (build / "compile_commands.json").write_text(json.dumps(commands))
    native = tmp_path / "own" / "native"
    monkeypatch.setattr(reuse, "NATIVE", native)
    monkeypatch.setattr(reuse, "TABLE", tmp_path / "own" / "pmoss_env" / "counters.toml")
    monkeypatch.setattr(reuse, "sources_of", lambda *_: [native / SOURCE, native / HEADER])
    monkeypatch.chdir(tmp_path)
    flags = ["-Iother", "-isystem", "python", "-O3", "-fPIC", "-Werror", "-MD", "-MF", "made.d"]
    return ["c++", *flags, "-o", OBJECT, "-c", str(tmp_path / "copy" / "native" / SOURCE)]


def test_the_same_object_is_taken_with_what_it_depends_on(words: list[str], tmp_path: Path) -> None:
    Path(OBJECT).parent.mkdir(parents=True)
    reuse.main(tmp_path / "own" / "build", words)
    assert Path(OBJECT).read_text() == "object"
    rule = Path("made.d").read_text()
    assert rule.startswith(f"{OBJECT}: ")
    names = [Path(name).name for name in rule.split()[1:]]
    assert names == ["counters.toml", "search.cpp", "search.hpp"]


@pytest.mark.parametrize("changed", [SOURCE, HEADER, "../pmoss_env/counters.toml"])
def test_nothing_is_taken_when_a_file_differs(
    words: list[str], tmp_path: Path, changed: str
) -> None:
    (tmp_path / "copy" / "native" / changed).write_text("int g();")
    assert reuse.same_object(tmp_path / "own" / "build", words) is None


def test_nothing_is_taken_of_unknown_sources(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "sources_of", lambda *_: [])
    assert reuse.same_object(tmp_path / "own" / "build", words) is None

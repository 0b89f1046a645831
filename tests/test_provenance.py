"""Results name the code that makes them, and its changes are found."""

import json
import sys
from pathlib import Path

import pytest

from pmoss_env import provenance as module
from pmoss_env.provenance import changed_since, code_of, provenance


def test_a_result_names_command_version_machine_and_code() -> None:
    report = json.loads(json.dumps(provenance(["pmoss_benchmarks.validation.targets"])))
    assert report["command"]
    assert report["version"]
    assert report["machine"]["architecture"]
    digests = report["code"]["digests"]
    # What the modules import counts, and so does the model behind it.
    assert {"pmoss_benchmarks/validation", "pmoss_env/backends", "pmoss_env/machines"} <= {*digests}
    assert "native/analytic" in digests
    assert not any("cli" in folder for folder in digests)
    assert changed_since(report["code"]) == []


def test_a_change_is_named_by_its_folder() -> None:
    code = provenance(["pmoss_benchmarks.functions.fidelity"])["code"]
    code["digests"]["pmoss_env/backends"] = "0" * 16
    code["digests"]["native/analytic"] = "0" * 16
    assert changed_since(code) == ["native/analytic", "pmoss_env/backends"]
    code["modules"].append("pmoss_benchmarks.no_longer_there")
    assert changed_since(code) == ["pmoss_benchmarks/no_longer_there"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pmoss_imagined"
    (folder / "presets").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "first.py").write_text("def f():\n    from pmoss_imagined import second\n")
    (folder / "second.py").write_text('"""Words."""\n\nX = 1\n')
    (folder / "third.py").write_text("X = 1\n")
    (folder / "presets" / "a.toml").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "PACKAGES", ("pmoss_imagined",))
    for cached in (module._imports, module._place, module._statements):
        cached.cache_clear()
    return folder


def now_changed(code: dict) -> list[str]:
    for cached in (module._imports, module._statements):
        cached.cache_clear()
    return changed_since(code)


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("second.py", '"""Other words."""\n\n# A comment.\nX = 1\n', False),
        ("second.py", '"""Words."""\n\nX = 2\n', True),
        ("third.py", "X = 2\n", False),  # that nothing imports
        ("presets/a.toml", "# A comment.\na = 1\n", False),
        ("presets/a.toml", "a = 2\n", True),
    ],
)
def test_statements_count_and_words_do_not(package, name, text, counts):
    code = code_of(["pmoss_imagined.first"], ())
    assert set(code["digests"]) == {"pmoss_imagined"}
    assert now_changed(code) == []
    (package / name).write_text(text)
    assert now_changed(code) == (["pmoss_imagined"] if counts else [])
    sys.modules.pop("pmoss_imagined", None)


def test_an_installation_without_native_sources_compares_the_rest(monkeypatch):
    code = code_of(["pmoss_benchmarks.functions.fidelity"])
    monkeypatch.setattr(module, "_native_files", lambda folder: [])
    assert changed_since(code) == []

"""The layers: no import points up a layer, and no files import each other in a circle."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

from tests.sources import REPOSITORY, module_of, sources

DOCS = REPOSITORY / "docs"
#: From the bottom up, with the folder that holds each package.
LAYERS = {
    "pmoss_env": REPOSITORY,
    "pmoss_datasets": REPOSITORY / "datasets",
    "pmoss_agents": REPOSITORY / "agents",
    "pmoss_benchmarks": REPOSITORY / "benchmarks",
}


def modules() -> dict[str, Path]:
    """Every module of the packages by its dotted name."""
    paths = {}
    for package, root in LAYERS.items():
        for path in (root / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports(path: Path) -> Iterator[str]:
    """What a file imports anywhere: at its top, inside functions, for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: line {node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def graph() -> dict[str, set[str]]:
    """For each module those that it imports; ``from a import b`` means a.b where that is a file."""
    every = modules()
    edges = {}
    for name, path in every.items():
        wanted = list(imports(path))
        inside = {target for target in wanted if target in every}
        # `from a.b import c` names the module a.b too; where c is a file of its own, only that.
        named = {target.rpartition(".")[0] for target in wanted if target in every}
        plain = {
            target
            for target in inside
            if target not in named
            or any(w.rpartition(".")[0] == target and w not in every for w in wanted)
        }
        edges[name] = plain - {name}
    return edges


@pytest.mark.parametrize("package", LAYERS)
def test_no_import_points_up(package: str) -> None:
    order = list(LAYERS)
    above = tuple(order[order.index(package) + 1 :])
    for path in (LAYERS[package] / package).rglob("*.py"):
        for target in imports(path):
            assert not target.split(".")[0].startswith(above or ("-",)), f"{path}: {target}"


def test_no_files_import_each_other_in_a_circle() -> None:
    TopologicalSorter(graph()).prepare()  # CycleError names the files


def test_files_are_small() -> None:
    for path in sources(".py"):
        text = path.read_text(encoding="utf-8")
        if not path.is_relative_to(REPOSITORY / "tests"):
            assert text.count("\n") <= 450, f"{path}: too long, split it"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                assert lines <= 100, f"{path}: {node.name} has {lines} lines"
    for path in sources(".cpp", ".hpp", ".inc"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 600, f"{path}: too long, split it"


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    return module_of("docs/draw_layers.py")


def test_the_map_shows_every_folder(drawing: ModuleType) -> None:
    shown = set(re.findall(r">([\w/]+)</text>", drawing.PICTURE.read_text()))
    folders = {name.removeprefix("envs/") for _, name in drawing.measured()[0]}
    missing = folders - shown
    assert not missing, f"run python docs/draw_layers.py: {missing} are not on the map"


def test_every_folder_has_a_sentence(drawing: ModuleType) -> None:
    text = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+)`", text.partition("## Rules")[0]))
    named |= {"files", "spatial", "continual", "threads", "access_path"}
    folders = {name.partition("/")[0] for _, name in drawing.measured()[0]}
    named |= {name.partition("/")[0] for name in named} | {"envs"}
    assert not folders - named, "CONTRIBUTING.md, The layers"

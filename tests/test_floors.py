"""The house: no import points up a floor, and no files import each other in a circle."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import REPOSITORY, sources

#: From the ground up, with the folder that holds each package.
FLOORS = {
    "pmoss_env": REPOSITORY,
    "pmoss_datasets": REPOSITORY / "datasets",
    "pmoss_agents": REPOSITORY / "agents",
    "pmoss_benchmarks": REPOSITORY / "benchmarks",
}


def modules() -> dict[str, Path]:
    """Every module of the house by its dotted name."""
    paths = {}
    for package, root in FLOORS.items():
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


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                circles.append(sorted(group))

    for node in edges:
        if node not in index:
            visit(node)
    return circles


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """The functions of a C++ file by name, with their numbers of lines.

    A function begins at the first line of its head. It ends at the brace of the same indentation,
    which clang-format sees to. Lambdas count to the function around them.
    """
    lines = text.splitlines()
    inside = ""  # the end of the function that is being read
    name, first, head = "", 0, ""
    for number, line in enumerate(lines):
        if inside:
            if line.startswith(inside) and not line.startswith(f"{inside} else"):
                yield name, number - first + 1
                inside, head = "", ""
            continue
        if not line.strip() or re.match(r"\s*(//|#|public:|private:|protected:)", line):
            head = ""
            continue
        first, head = (first, f"{head} {line.strip()}") if head else (number, line)
        if line.rstrip().endswith("{"):
            indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
            if named := _function_of(head):
                name, inside = named, f"{indent}}}"
            else:
                head = ""
        elif line.rstrip().endswith((";", "}", ":")):
            if line.rstrip().endswith("}") and (named := _function_of(head)):
                yield named, number - first + 1
            head = ""


def _function_of(head: str) -> str:
    """The name of the function that a head and a brace begin; "" for anything else."""
    head = re.sub(r"\balignas\(.*?\)", "", head)
    if re.match(r"\s*(namespace|class|struct|enum|union|extern)\b[^()]*\{", head):
        return ""
    match = re.search(r"([\w~]+|operator\W+)\s*\(", head.partition("{")[0])
    return match[1] if match else ""


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_points_up_a_floor(package: str) -> None:
    order = list(FLOORS)
    above = tuple(order[order.index(package) + 1 :])
    for path in (FLOORS[package] / package).rglob("*.py"):
        for target in imports(path):
            assert not target.split(".")[0].startswith(above or ("-",)), f"{path}: {target}"


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(graph()) == []


def test_a_circle_would_be_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_rooms_are_small() -> None:
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
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 600, f"{path}: too long, split it"
        for name, lines in cpp_functions(text):
            assert lines <= 100, f"{path}: {name} has {lines} lines"


def test_functions_in_cpp_are_measured() -> None:
    path = REPOSITORY / "native" / "analytic" / "trace_profile.cpp"
    lengths = dict(cpp_functions(path.read_text(encoding="utf-8")))
    assert {"popularity", "fit_mixture", "classify", "profile_trace"} <= set(lengths)
    assert lengths["popularity"] == 1
    lines = "int f(\n    int a) {\n  if (a) {\n    a = 0;\n  }\n  return a;\n}\n"
    assert list(cpp_functions(f"struct S {{\n  S() {{ }}\n}};\n{lines}")) == [("S", 1), ("f", 7)]

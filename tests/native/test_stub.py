"""What the module shows: the names of its stub, and nothing to other libraries."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pmoss_env import _native
from pmoss_env.types import COUNTER_NAMES

STUB = Path(__file__).resolve().parents[2] / "pmoss_env" / "_native.pyi"
TYPES_ONLY = {"ModelSnapshot", "RunningEpoch", "SimulatedMigration"}


def members(body: list[ast.stmt]) -> set[str]:
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")} - TYPES_ONLY


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def test_stub_and_module_have_the_same_names() -> None:
    tree = ast.parse(STUB.read_text())
    assert members(tree.body) == public(_native)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name not in TYPES_ONLY:
            assert members(node.body) == public(getattr(_native, node.name)), node.name


def test_the_stub_names_no_counter() -> None:
    """So that a new row of the table needs no line there: what has counters maps their names."""
    nodes = list(ast.walk(ast.parse(STUB.read_text())))
    strings = {node.value for node in nodes if isinstance(node, ast.Constant)}
    bodies = [node.body for node in nodes if isinstance(node, ast.Module | ast.ClassDef)]
    assert not set(COUNTER_NAMES) & (strings | set().union(*map(members, bodies)))


def functions(tree: ast.Module) -> Iterator[tuple[str, str, list[ast.FunctionDef]]]:
    """Owner ("" for the module), name and all overloads of each function of the stub."""
    bodies = {"": tree.body}
    bodies |= {n.name: n.body for n in tree.body if isinstance(n, ast.ClassDef)}
    for owner, body in bodies.items():
        by_name: dict[str, list[ast.FunctionDef]] = {}
        for node in body:
            if isinstance(node, ast.FunctionDef):
                by_name.setdefault(node.name, []).append(node)
        for name, overloads in by_name.items():
            if not overloads[0].decorator_list or len(overloads) > 1:
                yield owner, name, overloads


def parameters(function: ast.FunctionDef) -> tuple[list[str], list[str], int]:
    """Names that may go by position, names that may not, and how many may be left out."""
    arguments = function.args
    plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args) if a.arg != "self"]
    optional = len(arguments.defaults) + sum(d is not None for d in arguments.kw_defaults)
    return plain, [a.arg for a in arguments.kwonlyargs], optional


def signatures(name: str, text: str) -> list[ast.FunctionDef]:
    """The signatures in a docstring of pybind11."""
    nodes = []
    for line in re.findall(rf"^(?:\d+\. )?{re.escape(name)}\((.*)\) -> ", text, re.MULTILINE):
        plain = re.sub(r"<[^<>]*>|inf\b", "...", line)
        [node] = ast.parse(f"def f({plain}): ...").body
        assert isinstance(node, ast.FunctionDef)
        nodes.append(node)
    return nodes


def test_parameters_are_those_of_the_module() -> None:
    for owner, name, overloads in functions(ast.parse(STUB.read_text())):
        if owner in TYPES_ONLY:
            continue
        thing = getattr(getattr(_native, owner) if owner else _native, name)
        documented = [parameters(node) for node in signatures(name, thing.__doc__ or "")]
        declared = [parameters(node) for node in overloads]
        if len(documented) == 1:
            documented *= len(declared)  # one function for numbers and for arrays
        assert sorted(declared) == sorted(documented), f"{owner}.{name}"


@pytest.mark.skipif(sys.platform != "linux", reason="nm reads ELF")
def test_no_library_of_the_process_can_take_the_place_of_a_function() -> None:
    if (nm := shutil.which("nm")) is None:
        pytest.skip("nm of binutils is missing")
    command = [nm, "--dynamic", "--defined-only", "--format=just-symbols", _native.__file__]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["PyInit__native"]

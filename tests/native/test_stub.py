"""The type stub names what the module has, and nothing else."""

import ast
from pathlib import Path

from pmoss_env import _native

STUB = Path(__file__).resolve().parents[2] / "pmoss_env" / "_native.pyi"
TYPES_ONLY = {"ModelSnapshot"}


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

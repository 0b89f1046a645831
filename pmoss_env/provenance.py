"""The provenance of a result: command, version, machine, and digests of its code.

The code of a result is all that its modules import, directly or indirectly, and layers of the
native code. Digests omit comments, docstrings and empty lines. They are stored per folder, so that
a stale result can name the changed folders.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pmoss_env import __version__, _native
from pmoss_env.platforms import looks_at_host

PACKAGES = ("pmoss_env", "pmoss_datasets", "pmoss_agents", "pmoss_benchmarks")
#: Floors of the native code that modelled results need; results of this host need all.
MODELLED: tuple[str, ...] = (
    *("analytic", "environment", "index", "kinds", "machine", "recording", "simulator"),
    *("threads", "workload"),
)
MEASURED: tuple[str, ...] = (*MODELLED, "numa", "pmu", "runtime", "scan")
#: Modules that do not affect the numbers: commands, writers of results, tables and pictures.
_COMMANDS = "cli"
_WRITERS = ("pmoss_env.provenance", "pmoss_env.version")
_TABLES = (
    *("pmoss_benchmarks.offline.ranking", "pmoss_benchmarks.offline.tables"),
    *("pmoss_benchmarks.study.tables", "pmoss_env.pictures"),
)
#: Rooms of a package that no other result needs: they count only where they are named themselves.
_SHOWS = frozenset({"autopilot", "demo", "explaining"})
#: Of today's digests. Stored ones without a form have form 1.
_FORM = 2
_ENDINGS = (".cpp", ".hpp", ".inc", ".toml")


def provenance(modules: Sequence[str], native: Sequence[str] = MODELLED) -> dict[str, Any]:
    """The provenance of a result.

    Args:
        modules: modules that make it; their imports are added.
        native: layers of the native code that it needs.
    """
    return {
        "command": command_line(),
        "version": __version__,
        "machine": describe_machine(),
        "code": code_of(modules, native),
    }


def command_line() -> str:
    """The command line of this process, without the folder of the program."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def describe_machine() -> dict[str, Any]:
    """The machine as the kernel describes it; in a portable build as Python does."""
    if not looks_at_host() or not hasattr(os, "sysconf"):
        return {
            "cpu_model": platform.processor() or "unknown",
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
        }
    facts = dict(_native.host_facts("/"))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {**facts, "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30, 1)}


def code_of(modules: Sequence[str], native: Sequence[str] = MODELLED) -> dict[str, Any]:
    """Digests of the code behind a result.

    Args:
        modules: modules or packages by dotted name; those of other projects are ignored.

    Returns:
        ``modules`` and ``native`` as given, ``digests`` by folder, and the ``form`` of these.
        Native digests are missing where an installation has no sources.
    """
    return _code_of(modules, native, _FORM)


def _code_of(modules: Sequence[str], native: Sequence[str], form: int) -> dict[str, Any]:
    modules = [name for name in modules if name.partition(".")[0] in PACKAGES]
    files: dict[str, list[Path]] = {}
    for name in sorted(_closure(modules)):
        folder = name if _is_package(name) else name.rpartition(".")[0]
        files.setdefault(folder.replace(".", "/"), []).append(_file(name))
    for folder in list(files):
        files[folder] += _presets(_file(folder.replace("/", ".")).parent)
    for folder in native:
        if paths := _native_files(folder):
            files[f"native/{folder}"] = paths
    digests = {folder: _digest(paths, form) for folder, paths in sorted(files.items())}
    return {"modules": list(modules), "native": list(native), "digests": digests, "form": form}


def changed_since(code: Mapping[str, Any]) -> list[str]:
    """Folders whose code differs from that of a result.

    Args:
        code: result of code_of(), as stored.

    Returns:
        Folders, sorted; for a missing module its name as a path.
    """
    missing = [name for name in code["modules"] if not _exists(name)]
    if missing:
        return sorted(name.replace(".", "/") for name in missing)
    now = _code_of(code["modules"], code["native"], code.get("form", 1))["digests"]
    then = code["digests"]
    unknown = {name for name in then if name.startswith("native/") and name not in now}
    return sorted(name for name in {*now, *then} - unknown if now.get(name) != then.get(name))


def _closure(modules: Iterable[str]) -> set[str]:
    """The modules, those inside packages, and all modules of PACKAGES that they import."""
    closure: set[str] = set()
    waiting = [name for module in modules for name in _inside(module)]
    while waiting:
        name = waiting.pop()
        if name in closure or name in _WRITERS + _TABLES or _COMMANDS in name.split("."):
            continue
        closure.add(name)
        waiting += _imports(name)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return closure


def _inside(module: str) -> Iterator[str]:
    yield module
    if _is_package(module):
        root = _file(module).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if _SHOWS.isdisjoint(parts):
                yield ".".join([module, *(part for part in parts if part != "__init__")])


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Modules of PACKAGES that a module imports anywhere, also inside functions."""
    names: list[str] = []
    for node in ast.walk(ast.parse(_file(name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    names = [name for name in names if name.partition(".")[0] in PACKAGES]
    return tuple(name for name in names if _exists(name))


@cache
def _place(name: str) -> Path | None:
    """The source file of a module; None without one."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    base = Path(spec.origin).parent.joinpath(*rest)
    candidates = [base / "__init__.py", base.with_suffix(".py") if rest else base]
    return next((path for path in candidates if path.is_file()), None)


def _exists(name: str) -> bool:
    return _place(name) is not None


def _file(name: str) -> Path:
    place = _place(name)
    if place is None:
        raise ModuleNotFoundError(f"no module {name!r}")
    return place


def _is_package(name: str) -> bool:
    return _file(name).name == "__init__.py"


def _presets(folder: Path) -> list[Path]:
    """TOML files of a package: beside its modules, and in its folders without modules."""
    data = [path for path in folder.iterdir() if path.is_dir() and not any(path.glob("*.py"))]
    return sorted([*folder.glob("*.toml"), *(p for folder in data for p in folder.rglob("*.toml"))])


def _native_files(folder: str) -> list[Path]:
    """Sources of a native layer in a checkout; none in an installation."""
    root = _file("pmoss_env").parents[1] / "native" / folder
    return sorted(path for path in root.rglob("*") if path.suffix in _ENDINGS)


def _digest(paths: Sequence[Path], form: int) -> str:
    digest = hashlib.sha256()
    for path in sorted(set(paths)):
        digest.update(path.name.encode() + b"\0")
        digest.update("\n".join(_statements(path, form)).encode() + b"\0")
    return digest.hexdigest()[:16]


@cache
def _statements(path: Path, form: int) -> tuple[str, ...]:
    """The lines of a source file without docstrings, comment lines and empty ones.

    In form 1 they are not indented, so that a statement may leave a loop unnoticed.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            body = getattr(node, "body", None)
            if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
                continue
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                end = value.end_lineno or value.lineno
                lines[value.lineno - 1 : end] = [""] * (end - value.lineno + 1)
    mark = "//" if path.suffix in (".cpp", ".hpp", ".inc") else "#"
    if form == 1 or path.suffix != ".py":
        lines = [line.strip() for line in lines]
    # Preprocessor lines of C++ begin with a hash and count.
    return tuple(
        line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith(mark)
    )

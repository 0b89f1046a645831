"""Lint, types and format are tests like the others."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.native.builds import REPOSITORY, run

TOOLS = Path(sys.executable).parent
LAYERS = ["pmoss_env", "pmoss_datasets", "pmoss_agents", "pmoss_benchmarks"]

# Each folder of native/, and the others that its sources may include. A folder stands below all
# that may include it. The bindings stand on top and may include everything.
NATIVE_LAYERS = {
    "include": set(),  # what indexes of users include
    "counters": set(),
    "workload": set(),
    "numa": set(),
    "machine": {"counters", "workload"},
    "pmu": {"counters", "numa"},
    "threads": {"machine", "numa", "workload"},
    "index": {"numa", "workload"},
    "recording": {"index", "numa", "workload"},
    "scan": {"index", "numa", "workload"},
    "simulator": {"machine", "recording", "workload"},
    "analytic": {"index", "machine", "numa", "recording", "workload"},
    "environment": {"analytic", "counters", "index", "machine", "workload"},
    "runtime": {"index", "machine", "numa", "pmu", "workload"},
    "kinds": {"analytic", "index", "numa", "recording", "runtime", "workload"},
    "bindings": None,
}


check = partial(run, cwd=REPOSITORY)


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_ruff(command: str) -> None:
    check(str(TOOLS / "ruff"), *command.split(), ".")


def test_mypy_is_strict_on_the_public_packages() -> None:
    check(str(TOOLS / "mypy"))


def test_clang_format() -> None:
    sources = [str(p) for p in (REPOSITORY / "native").rglob("*") if p.suffix in (".cpp", ".hpp")]
    assert sources
    check(str(TOOLS / "clang-format"), "--dry-run", "--Werror", *sources)


def folder_of(package: str) -> Path:
    outer = {"pmoss_datasets": "datasets", "pmoss_agents": "agents"}.get(package, "benchmarks")
    return REPOSITORY / package if package == "pmoss_env" else REPOSITORY / outer / package


def test_native_folders_include_only_the_layers_below() -> None:
    native = REPOSITORY / "native"
    aside = {"bench", "examples", "portable", "tests"}
    folders = {path.name for path in native.iterdir() if path.is_dir()} - aside
    assert folders == set(NATIVE_LAYERS), "list every folder of native/ in NATIVE_LAYERS"
    below: set[str] = set()
    for folder, allowed in NATIVE_LAYERS.items():
        assert allowed is None or allowed <= below, f"{folder} includes a folder above it"
        below.add(folder)
        if allowed is None:
            continue
        for path in (native / folder).rglob("*.[chi]*"):
            for include in re.finditer(r'#include "(\w+)/', path.read_text()):
                assert include[1] in allowed | {folder}, (
                    f"{path}: {include[0]}: not in NATIVE_LAYERS"
                )


def test_outer_folders_are_no_packages() -> None:
    for name in ("agents", "datasets", "benchmarks"):
        assert not (REPOSITORY / name / "__init__.py").exists()


def test_core_imports_without_the_extras() -> None:
    program = (
        "import sys\n"
        "for name in ('torch', 'h5py', 'matplotlib', 'typer', 'rich', 'sklearn',\n"
        "             'stable_baselines3', 'sb3_contrib'):\n"
        "    sys.modules[name] = None\n"
        "import pmoss_env, gymnasium\n"
        "env = gymnasium.make('pmoss/toy-v0')\n"
        "env.reset(seed=0)\n"
        "env.step(env.unwrapped.action_masks().argmax())\n"
    )
    check(sys.executable, "-c", program)


def test_nothing_is_unpickled() -> None:
    pattern = re.compile(r"\b(?:pickle|joblib|dill|marshal)\b|allow_pickle\s*=\s*True")
    for package in LAYERS:
        for path in folder_of(package).rglob("*.py"):
            for line in path.read_text().splitlines():
                assert not pattern.search(line.partition("#")[0]), f"{path}: {line}"
                if re.search(r"\btorch\.load\(", line):
                    assert "weights_only=True" in line, f"{path}: {line}"

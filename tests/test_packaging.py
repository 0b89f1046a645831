"""Packages and layers: what they say of themselves, and what they may import."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import pmoss_env
from pmoss_env.platforms import looks_at_host
from tests.sources import REPOSITORY, module_of, sources

PYPROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
#: Other names for the same on conda-forge.
ON_CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base", "msgspec": "msgspec-python"}


def text_of(path: str) -> str:
    return (REPOSITORY / path).read_text("utf-8")


def words(requirements: list[str]) -> set[str]:
    """Requirements without blanks: "numpy>=2"."""
    return {requirement.replace(" ", "") for requirement in requirements}


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(text_of("packaging/conda/recipe.yaml"))
    return content


def test_this_build_gives_the_bits_of_every_build() -> None:
    selftest = module_of("packaging/selftest.py")
    selftest.check_indexes()
    assert selftest.digests() == selftest.EXPECTED
    assert looks_at_host()


def test_the_page_of_the_self_test_needs_the_core_alone() -> None:
    code = "\n".join(
        module_of("packaging/selftest.py").programs(
            REPOSITORY / "docs" / "start" / "first-episode.md"
        )
    )
    assert set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)) == {
        "gymnasium",
        "pmoss_env",
    }


def test_the_core_needs_numpy_and_gymnasium_alone() -> None:
    assert [re.split(r"\W", name)[0] for name in PROJECT["dependencies"]] == ["numpy", "gymnasium"]


def test_versions_are_one(recipe: dict[str, Any]) -> None:
    # A package takes its version from where the code has it.
    assert PROJECT["dynamic"] == ["version"]
    [provided] = PYPROJECT["tool"]["dynamic-metadata"]
    assert provided["field"] == "version"
    [written] = re.findall(r'^__version__ = "(.+)"$', text_of(provided["input"]), re.MULTILINE)
    assert written == pmoss_env.__version__ == recipe["context"]["version"]


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    [version, *_] = re.findall(
        r"^## \[(\S+)\] - \d{4}-\d\d-\d\d$", text_of("CHANGELOG.md"), re.MULTILINE
    )
    assert version == pmoss_env.__version__


def test_the_recipe_needs_what_the_project_needs(recipe: dict[str, Any]) -> None:
    needs = recipe["requirements"]
    python = f"python{PROJECT['requires-python']}"
    assert words(needs["run"]) == words([python, *PROJECT["dependencies"]])
    everywhere = [need for need in needs["host"] if isinstance(need, str)]
    assert words(PYPROJECT["build-system"]["requires"]) <= words(everywhere)
    assert {"if": "linux", "then": "libnuma"} in needs["host"]
    ours = {f"{PROJECT['name']}["}
    extras = {
        requirement
        for name in ("cli", "report", "datasets", "agents")
        for requirement in words(EXTRAS[name])
        if not requirement.startswith(tuple(ours))
    }
    renamed = {re.sub(r"^[\w-]+", lambda m: ON_CONDA.get(m[0], m[0]), name) for name in extras}
    assert words(needs["run_constraints"]) == renamed
    [command] = recipe["build"]["python"]["entry_points"]
    name, _, place = command.partition(" = ")
    assert PROJECT["scripts"] == {name: place}
    [about] = [recipe["about"]]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])


def test_wheels_are_made_for_every_python_of_the_classifiers() -> None:
    minors = re.findall(r"Python :: 3\.(\d+)", "\n".join(PROJECT["classifiers"]))
    settings = PYPROJECT["tool"]["cibuildwheel"]
    assert settings["build"] == [f"cp3{minor}-*" for minor in minors]
    for table in (settings, settings["macos"], settings["windows"]):
        for path in re.findall(r"\{project\}/(\S+)", table["test-command"]):
            assert (REPOSITORY / path).is_file(), path


def test_what_an_sdist_leaves_out_is_there() -> None:
    for path in PYPROJECT["tool"]["scikit-build"]["sdist"]["exclude"]:
        assert path == ".*" or (REPOSITORY / path.strip("/")).exists(), path


def test_the_container_has_a_user_and_names_the_capabilities() -> None:
    text = text_of("packaging/Dockerfile")
    users = re.findall(r"^USER (\w+)$", text, re.MULTILINE)
    assert users and users[-1] not in ("root", "0")
    assert {"PERFMON", "SYS_NICE"} <= set(re.findall(r"--cap-add (\w+)", text))
    [extras] = re.findall(r"\.whl\)\[([\w,]+)\]", text)
    assert set(extras.split(",")) <= set(EXTRAS)


def test_a_tag_is_published_once_all_wheels_are_tried() -> None:
    jobs = yaml.safe_load(text_of(".github/workflows/wheels.yml"))["jobs"]
    publish = jobs.pop("publish")
    assert publish["needs"] == [*jobs] and "refs/tags/v" in publish["if"]
    # No password: the index trusts the workflow itself.
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in text_of(".github/workflows/wheels.yml")


def test_workflows_call_what_is_there() -> None:
    workflows = list((REPOSITORY / ".github" / "workflows").glob("*.yml"))
    assert workflows
    for path in workflows:
        jobs = yaml.safe_load(path.read_text())["jobs"]
        steps = [step for job in jobs.values() for step in job["steps"]]
        for command in (step.get("run", "") for step in steps):
            for script in re.findall(r"(?:^|/)(packaging/\w+\.py)", command):
                assert (REPOSITORY / script).is_file(), f"{path.name}: {script}"
            for name in re.findall(r"^\./run (wheel|test|docs)\b", command):
                assert f"# ./run {name} " in text_of("run"), f"{path.name}: {command}"


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

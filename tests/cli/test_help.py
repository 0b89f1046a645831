"""Help texts, lists as JSON, and completion of the commands."""

import re
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import typer

from pmoss_datasets.suite import TOY
from pmoss_env.baselines import BASELINES, SHARED_BASELINES
from pmoss_env.cli.app import make_app
from tests.cli.invoking import PMOSS, pmoss, pmoss_json
from tests.native.builds import run
from tests.sources import REPOSITORY


def test_help_teaches_every_command() -> None:
    root = typer.main.get_command(make_app())
    leaves = list(_leaves(root, ()))
    assert 20 < len(leaves) <= 35, [words for words, _ in leaves]
    for words, command in leaves:
        assert "Example: pmoss" in (command.help or ""), words
        assert f"Example: pmoss {' '.join(words)}" in command.help, words
    top = pmoss("--help")
    for words, _ in leaves:
        assert words[0] in top
    assert "Usage:" in pmoss("data", "collect", "--help")


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands that users see, with their words."""
    if command.hidden:
        return
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name in command.commands:
        yield from _leaves(command.commands[name], (*words, name))


def _written() -> set[str]:
    """The commands in texts for readers and in examples of help, without templates' tags."""
    pages = [
        *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")),
        *(REPOSITORY / "docs").rglob("*.md"),
    ]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    examples = [c.help or "" for _, c in _leaves(typer.main.get_command(make_app()), ())]
    commands = re.findall(r"`(pmoss [^`]+)`|^\$ (pmoss .+)", "\n".join(texts), re.MULTILINE)
    commands += re.findall(r"Example: (pmoss .+?)()(?:\n\n|$)", "\n\n".join(examples), re.DOTALL)
    return {" ".join("".join(each).split()) for each in commands if "{{" not in "".join(each)}


def test_commands_in_texts_have_words_and_options_that_exist() -> None:
    written = _written()
    assert len(written) > 100
    root = typer.main.get_command(make_app())
    for text in written:
        command, words = root, shlex.split(text.partition(" -- ")[0])[1:]
        while words and words[0] in getattr(command, "commands", ()):
            command = command.commands[words.pop(0)]
        options = {name for one in command.params if not one.hidden for name in one.opts}
        options |= {name for one in command.params for name in one.secondary_opts} | {
            "--help",
            "-h",
        }
        used = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
        assert used <= options, f"{text}: {used - options}"


def test_machine_means_the_same_everywhere() -> None:
    words = ["-e", "slices=4", "--seeds", "1", "--episodes", "1", "--budget", "5"]
    assert "lpt" in pmoss("evaluate", "lpt", *words, "--schedules", "2", "--machine", "toy")
    for command in ("evaluate lpt", "data collect x", "train a.safetensors", "measure"):
        message = pmoss(*command.split(), "--machine", "toy", "-e", "machine=rome-7302", status=2)
        assert "--machine toy: -e machine=rome-7302 names another" in message
    message = pmoss("evaluate", "lpt", "-e", "machine=toy", "-e", "machine=rome-7302", status=2)
    assert "machine has a value already" in message


def test_pairs_mean_the_same_everywhere() -> None:
    meanings: dict[str, set[str]] = {"--env": set(), "--set": set(), "--option": set()}
    for _, command in _leaves(typer.main.get_command(make_app()), ()):
        for option in command.params:
            if option.opts[0] in meanings:
                meanings[option.opts[0]].add(option.help)
    assert [len(texts) for texts in meanings.values()] == [1, 1, 1]
    message = pmoss("measure", "lpt", "-e", "reward=slice", status=2)
    assert "unknown environment argument of a measurement 'reward'" in message
    assert "lpt" in pmoss("measure", "lpt", "-e", "backend=analytic", "-e", "machine=toy")


def test_help_imports_no_layer_that_it_can_do_without() -> None:
    program = (
        "import contextlib, io, sys; sys.argv = ['pmoss', '--help']\n"
        "from pmoss_env.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "print(sorted(sys.modules))"
    )
    imported = run(sys.executable, "-c", program)
    assert "pmoss_benchmarks.cli.commands" in imported
    for module in ("torch", "h5py", "pmoss_datasets.domain", "pmoss_env.baselines"):
        assert f"'{module}'" not in imported, module


def test_lists_are_json_on_request() -> None:
    assert "pmoss/toy-v0" in {each["id"] for each in pmoss_json("list", "environments")}
    assert {each["name"]: each["nodes"] for each in pmoss_json("list", "machines")}["toy"] == 2
    assert pmoss_json("list", "agents", "spatial")[0]["domain"] == "spatial"
    config = pmoss_json("list", "agents", "cql")["config"]
    assert config["updates"] == 600 and config["n_steps"] == 16 and config["gamma"] == 1.0
    wrong = pmoss("list", "agents", "cqll", status=2)
    assert "Did you mean 'cql'? Known: " in wrong and " more" in wrong
    assert pmoss_json("list", "workloads")
    assert {"id", "episodes", "mean outcome", "MB"} <= set(pmoss_json("list", "datasets")[0])
    assert pmoss_json("list", "machines", "toy")["parameters"]["clock_ghz"]["unit"] == "GHz"
    assert pmoss_json("list", "workloads", "ycsb-a")["lookup"] == 0.5
    toy = pmoss_json("list", "datasets", f"pmoss/{TOY}/mixed-v0")
    assert toy["env_kwargs"]["machine"] == "toy" and len(toy["checksum"]) == 64
    assert {"summary", "checks", "events"} <= set(pmoss_json("doctor"))


def test_completion_is_offered() -> None:
    # It goes by the name of the program. A test does not ask its parents for its shell.
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_PMOSS_COMPLETE" in run(PMOSS, "--show-completion", "bash", **environment)


def test_every_baseline_has_a_row() -> None:
    assert [row["name"] for row in pmoss_json("list", "rules")] == [*BASELINES, *SHARED_BASELINES]

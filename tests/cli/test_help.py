"""Help texts, lists as JSON, and completion of the commands."""

import os
import subprocess
import sys

from tests.cli.invoking import PMOSS, pmoss, pmoss_json


def test_help_teaches_every_command() -> None:
    learning = ["demo", "collect", "train", "export", "evaluate", "validate"]
    commands = [
        *learning,
        "rollout",
        "autopilot",
        "explain",
        "doctor",
        "machines",
        "workloads",
        "envs",
        "measure",
        "benchmark",
    ]
    top = pmoss("--help")
    for command in commands:
        assert command in top
        text = pmoss(command, "--help")
        assert "Usage:" in text
        if command in [*learning, "measure", "rollout", "explain", "autopilot"]:
            assert "Example: pmoss" in text


def test_help_imports_no_floor_that_it_can_do_without() -> None:
    program = (
        "import contextlib, io, sys; sys.argv = ['pmoss', '--help']\n"
        "from pmoss_env.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "print(sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pmoss_benchmarks.cli.commands" in done.stdout
    for module in ("torch", "h5py", "pmoss_datasets.domain", "pmoss_env.baselines"):
        assert f"'{module}'" not in done.stdout, module


def test_helps_show_angle_brackets_and_an_example_per_line() -> None:
    text = pmoss("measure", "-h")
    assert "closed:<queries" in " ".join(text.replace("│", " ").split())
    lines = [line.strip() for line in text.splitlines()]
    assert sum(line.startswith("Example: ") for line in lines) >= 5


def test_lists_are_json_on_request() -> None:
    environments = pmoss_json("envs")
    assert "pmoss/toy-v0" in {each["id"] for each in environments}
    assert {"name", "nodes"} <= set(pmoss_json("machines")[0])
    assert pmoss_json("agents", "list", "spatial")[0]["domain"] == "spatial"
    assert pmoss_json("workloads")
    assert {"summary", "checks", "events"} <= set(pmoss_json("doctor"))


def test_completion_is_offered() -> None:
    # It goes by the name of the program. A test does not ask its parents for its shell.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    words = [PMOSS, "--show-completion", "bash"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert "_PMOSS_COMPLETE" in done.stdout

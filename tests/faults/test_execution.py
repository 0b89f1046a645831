"""Nothing that is read is executed, by Python or by a terminal."""

import io
import signal
import subprocess
import sys
import zipfile

import pytest

from pmoss_datasets import Recipe, collect, open_dataset, suite
from pmoss_env.cli import main
from pmoss_env.cli.console import PlainConsole, Stages, table
from pmoss_env.cli.output import one_line
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.processes import ENDING
from tests.cli.invoking import pmoss


def test_a_rebuild_imports_nothing_that_the_metadata_names(tampered, canary):
    name, trace = canary
    recipe = {"env": {"machine": "toy", "slices": 4}, "episodes": 3, "reference_episodes": 0}
    behaviours = [{"policy": f"{name}:make", "arguments": ["an argument"]}]
    folder = tampered(recipe={**recipe, "behaviours": behaviours})
    output = pmoss("data", "verify", folder, "--rebuild", status=1)
    assert f"cannot be rebuilt: policy '{name}:make'" in output and f"--trust {name}:make" in output
    output = pmoss("data", "verify", folder, "--rebuild", "--trust", "another:make", status=1)
    assert f"--trust {name}:make" in output
    with pytest.raises(DescriptionError, match="what a file names is not imported"):
        suite.rebuild(open_dataset(folder), folder.parent / "again")
    assert not trace.exists()
    output = pmoss("data", "verify", folder, "--rebuild", "--trust", f"{name}:make", status=1)
    assert "cannot be made of its arguments" in output and trace.exists()


def test_a_recipe_file_imports_nothing_unless_the_command_names_it(canary, tmp_path):
    name, trace = canary
    path = tmp_path / "recipe.toml"
    path.write_text(f'[[behaviours]]\npolicy = "{name}:make"\n[env]\nmachine = "toy"\n')
    with pytest.raises(DescriptionError, match=rf"recipe\.toml: .*--trust {name}:make"):
        Recipe.from_toml(path)
    assert not trace.exists()
    with pytest.raises(DescriptionError, match="cannot be made of its arguments"):
        collect(Recipe.from_toml(path, [f"{name}:make"]), tmp_path / "out")


def test_a_dataset_of_a_foreign_function_is_another_dataset(tampered, canary):
    name, trace = canary
    recipe = Recipe(env={"machine": "toy", "slices": 4}, episodes=3, reference_episodes=0)
    folder = tampered(recipe={**recipe.as_dict(), "behaviours": [{"policy": f"{name}:make"}]})
    with pytest.raises(DatasetError, match="from another recipe"):
        suite.obtain(recipe, folder)
    assert not trace.exists()


def test_a_library_that_the_metadata_names_is_reported_and_the_others_are_checked(
    whole, tampered, tmp_path
):
    library = tmp_path / "index.so"
    library.write_bytes(b"\x7fELF")
    folder = tampered(env_kwargs={**whole.metadata.env_kwargs, "index": f"plugin:{library}"})
    output = pmoss("data", "verify", folder, whole.path, status=1)
    assert output.count("\n") == 1 and output.startswith(str(folder)) and "not registered" in output
    assert "foreign index" in pmoss("list", "datasets", "--root", folder.parent)
    output = pmoss("data", "verify", folder, "--plugin", library)
    assert "1 datasets, nothing wrong" in output and "not checked" not in output
    assert "no' cannot be read" in pmoss("data", "verify", folder, "--plugin", "no", status=2)


def test_what_needs_a_workload_that_is_gone_is_not_called_checked(whole, tampered):
    folder = tampered(env_kwargs={**whole.metadata.env_kwargs, "workload": "/gone/mine.toml"})
    output = pmoss("data", "verify", folder)
    assert "not checked: " in output and "workload = '/gone/mine.toml': cannot be loaded" in output
    assert "1 datasets, nothing wrong in what can be checked here" in output


#: Markup, an emoji, a link, an escape sequence, one of 8 bits, a change of direction, a surrogate.
HOSTILE = "a[/b][link=x]y :bomb: \x1b[2J \x9b31m \u202e \ud800 z"
SHOWN = r"a[/b][link=x]y :bomb: \x1b[2J \x9b31m \u202e \ud800 z"


def test_a_long_text_is_a_line_with_its_beginning_and_its_end():
    assert one_line(" two\r\n\tlines\u2028and\x0bthree ") == "two lines and three"
    assert one_line("an escape \x1b[2J") == r"an escape \x1b[2J"
    assert one_line("a" * 30, 30) == "a" * 30
    shortened = one_line("b" + "x" * 100 + "e", 30)
    assert shortened == "b" + "x" * 14 + " ... " + "x" * 9 + "e" and len(shortened) == 30


def test_tables_texts_and_progress_show_names_as_they_are(capsys):
    console = PlainConsole(200)
    console.print(f"{HOSTILE}: done")
    console.print(table(HOSTILE, ["name"], [[HOSTILE]]))
    assert capsys.readouterr().out.count(SHOWN) == 3
    with Stages() as stages:
        stages(HOSTILE, 1, 2)
        stages.note(HOSTILE)
    output = capsys.readouterr().out
    assert "\x1b[2J" not in output and "\x9b" not in output


@pytest.fixture
def same_signals():
    """The command line changes what signals do: in a test it is put back."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("same_signals")
@pytest.mark.parametrize("name", ["a[/b]", "x\x1b[2J\n"])
def test_an_error_is_one_line_that_commands_nothing(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "argv", ["pmoss", "list", "machines", name])
    with pytest.raises(SystemExit) as ended:
        main()
    output = capsys.readouterr().err
    assert ended.value.code == 2
    assert output.count("\n") == 1 and "\x1b" not in output and "unknown machine" in output


def test_a_machine_with_markup_in_its_name_is_shown(tmp_path):
    text = (PRESETS / "toy.toml").read_text()
    path = tmp_path / "machine.toml"
    path.write_text(text.replace('name = "toy"', 'name = "a[/b]\\u001b[2J"'))
    code = "from pmoss_env.cli import main; main()"
    words = [sys.executable, "-c", code, "list", "machines", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert r"a[/b]\x1b[2J" in done.stdout and "\x1b" not in done.stdout


def _in_a_class():
    """Python 3.11 tells of it as a RuntimeError where a class is being made."""

    class Interrupts:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    type("Made", (), {"part": Interrupts()})


def _in_an_archive():
    """An archive that is half-written cannot be closed, and says so."""
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        archive.open("half", "w")
        raise KeyboardInterrupt


@pytest.mark.usefixtures("same_signals")
@pytest.mark.parametrize("make_app", [_in_a_class, _in_an_archive])
def test_an_interrupt_of_an_import_is_an_interrupt(monkeypatch, capsys, make_app):
    monkeypatch.setattr("pmoss_env.cli.app.make_app", make_app)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130 and capsys.readouterr().err.startswith("interrupted")

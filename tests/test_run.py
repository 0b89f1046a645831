"""The script ./run, signals, and worker processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SHOWS = """#!/bin/sh
pwd
command -v pmoss
echo "$@"
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script with an installation that does nothing and a pmoss that says how it is called."""
    folder = tmp_path / "check out"
    (folder / "native").mkdir(parents=True)
    (folder / "native" / "a.cpp").touch()
    for path in ("run", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / path, folder / path)
    for path in ("counter_table.py", "counters.toml"):
        if (REPOSITORY / "pmoss_env" / path).exists():
            (folder / "pmoss_env").mkdir(exist_ok=True)
            shutil.copy(REPOSITORY / "pmoss_env" / path, folder / "pmoss_env" / path)
    write_program(folder / ".venv" / "bin" / "python", "#!/bin/sh\n")
    write_program(folder / ".venv" / "bin" / "pmoss", SHOWS)
    return folder


def call(script: Path, *words: str, where: Path, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(script), *words],
        cwd=where,
        env={**os.environ, "PYTHON": sys.executable, **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.skipif(shutil.which("g++") is None, reason="./run would install g++")
@pytest.mark.parametrize("through_a_link", [False, True])
def test_pmoss_runs_where_the_script_was_called(checkout, tmp_path, through_a_link):
    folder = tmp_path / "here"
    folder.mkdir()
    script = checkout / "run"
    if through_a_link:
        (tmp_path / "link").symlink_to(script)
        script = Path("../link")
    done = call(script, "measure", "--out", "a b.json", where=folder)
    assert done.returncode == 0, done.stderr
    pmoss = checkout / ".venv" / "bin" / "pmoss"
    assert done.stdout.splitlines() == [str(folder), str(pmoss), "measure --out a b.json"]


def test_an_old_python_gets_the_needed_version(checkout: Path, tmp_path: Path) -> None:
    """Every Python on the path is 3.10; nothing is installed."""
    tools = tmp_path / "tools"
    for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
        write_program(
            tools / name, '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12\nexit 1\n'
        )
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    done = call(checkout / "run", "demo", where=tmp_path, PATH=path, PYTHON="")
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "3.10" in done.stderr and "apt-get" not in done.stderr


#: A Python that makes an installation which does nothing.
MAKES = """#!/bin/sh
case "$*" in
  --version) echo Python 3.12.1 ;;
  *" venv "*) mkdir -p .venv/bin
    printf '#!/bin/sh\\n[ "$1" = --version ] && echo Python 3.12.1\\nexit 0\\n' >.venv/bin/python
    printf '#!/bin/sh\\necho ran\\n' >.venv/bin/pmoss
    chmod +x .venv/bin/python .venv/bin/pmoss
    echo made >&2 ;;
  *ensurepip*) exit "${WITHOUT:-0}" ;;
  *version_info*2]*) echo python3.12 ;;
esac
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="./run would install g++")
def test_an_installation_whose_python_is_gone_or_another_is_made_anew(checkout, tmp_path):
    python = tmp_path / "tools" / "python3.12"
    write_program(python, MAKES)
    inside = checkout / ".venv" / "bin" / "python"
    for text, makes in (
        ("#!/none\n", True),
        ("", False),
        ('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.11.2\nexit 0\n', True),
    ):
        if text:
            write_program(inside, text)
        done = call(checkout / "run", "list", where=tmp_path, PYTHON=str(python))
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
        assert ("made" in done.stderr) == makes


def test_another_python_gets_packages_of_its_own(checkout: Path, tmp_path: Path) -> None:
    python = tmp_path / "tools" / "python3.12"
    write_program(python, MAKES)
    write_program(tmp_path / "tools" / "python3", MAKES.replace("3.12", "3.10"))
    for name in ("apt-get", "sudo"):
        write_program(
            tmp_path / "tools" / name, '#!/bin/sh\necho "$@" >&2\nexit "${APT_FAILS:-0}"\n'
        )
    path = f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "PYTHON": str(python), "WITHOUT": "1"}
    done = call(checkout / "run", "list", where=tmp_path, **variables)
    assert done.returncode == 1
    assert "python3.12-venv" in done.stderr and "python3-venv" not in done.stderr
    assert f"{python} lacks venv" in done.stderr and "name another" in done.stderr
    # The update fails first, which says itself what is wrong.
    write_program(
        tmp_path / "tools" / "apt-get", '#!/bin/sh\ncase "$*" in *install*) exit 100 ;; esac\n'
    )
    write_program(tmp_path / "tools" / "sudo", '#!/bin/sh\nexec "$@"\n')
    done = call(checkout / "run", "list", where=tmp_path, **variables)
    assert done.returncode == 1 and "cannot install python3.12-venv: name a Python" in done.stderr


def test_a_python_that_cannot_be_used_is_named(checkout: Path, tmp_path: Path) -> None:
    done = call(checkout / "run", "list", where=tmp_path, PYTHON="python3.99")
    assert done.returncode == 1
    assert "PYTHON=python3.99: Python 3.11 or newer is needed" in done.stderr


def test_a_wheel_needs_no_installation(checkout: Path, tmp_path: Path) -> None:
    """The words go on as they are, and what they name stays relative to the caller's folder."""
    shutil.rmtree(checkout / ".venv")
    write_program(checkout / "build" / "wheel-tools" / "bin" / "python", SHOWS)
    done = call(checkout / "run", "wheel", "--out", "a b", where=tmp_path)
    assert done.returncode == 0, done.stderr
    script = checkout / "packaging" / "make_wheel.py"
    # Before the words stands the pmoss of the caller's path, if there is one.
    lines = [line for line in done.stdout.splitlines() if not line.endswith("/pmoss")]
    assert lines[-2:] == [str(tmp_path), f"{script} --out a b"]


PROGRAM = """
import multiprocessing
import signal
import time

from pmoss_env.processes import ENDING, interrupts_later

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    children = []
    for _ in range(2):
        with interrupts_later(for_children=True):
            children.append(context.Process(target=time.sleep, args=(600,)))
            children[-1].start()
    wanted = sum(1 << (number - 1) for number in ENDING)
    for child in children:
        with open(f"/proc/{child.pid}/status") as status:
            blocked = int(next(line for line in status if line.startswith("SigBlk")).split()[1], 16)
        print(blocked & wanted == wanted)
        child.kill()
    print(not signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_children_begin_with_the_ending_signals_blocked(tmp_path: Path) -> None:
    """The first child too: the standard library starts a process of its own before it."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True"] * 3, done.stderr

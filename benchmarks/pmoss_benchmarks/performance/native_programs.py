"""Builds and runs the programs of native/bench."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from pmoss_env.errors import BackendError

REPOSITORY = Path(__file__).resolve().parents[3]
#: Where they are built, and where their results may lie.
BUILD = REPOSITORY / "build" / "bench"


def build_program(name: str, file: str | None = None) -> Path:
    """Compiles one program, or a library; needs a source checkout and a compiler.

    Args:
        name: the target's.
        file: what is built, if its name is another one.

    Raises:
        BackendError: there is no source, a tool is missing or the build fails.
    """
    if not (REPOSITORY / "native" / "bench").is_dir():
        raise BackendError(f"{REPOSITORY} holds no native/bench: run this in a source checkout")
    run_program(
        *(_tool("cmake"), "-S", REPOSITORY / "native", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release"),
        *("-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_BUILD_BENCH=ON"),
    )
    run_program(_tool("cmake"), "--build", BUILD, "--target", name, "-j", "2")
    return next(path for path in BUILD.rglob(file or name) if path.is_file())


def run_program(*command: object) -> str:
    """What a command prints; BackendError with its last words if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BackendError(f"{' '.join(words)} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BackendError(f"{name} is not installed: pip install 'pmoss-env[dev]'")
    return found

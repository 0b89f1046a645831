"""Libraries of users with one fault each."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import pmoss_env
from tests.native.builds import REPOSITORY

SOURCE = REPOSITORY / "native" / "tests" / "kinds" / "faulty_plugin.cpp"


def build(source: Path, library: Path, *links: str) -> Path:
    """Compiles a library as its author would; skips where there is no compiler."""
    if shutil.which("c++") is None:
        pytest.skip("NOT RUN: there is no C++ compiler")
    words = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    linked = [f"-l{name}" for name in links]
    include = f"-I{pmoss_env.get_include()}"
    subprocess.run(["c++", *words, include, source, "-o", library, *linked], check=True)
    return library


def faulty_in(folder: Path) -> Callable[[str], Path]:
    """Gives libraries by their fault, which the name of the file chooses."""
    good = build(SOURCE, folder / "good.so")

    def library_with(fault: str) -> Path:
        library = folder / f"{fault}.so"
        if not library.exists():
            shutil.copy(good, library)
        return library

    return library_with

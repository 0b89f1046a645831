"""Builds and runs the C++ tests: as they ship, under ThreadSanitizer, and under ASan and UBSan."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CMAKE = Path(sys.executable).with_name("cmake")
SANITIZERS = {"plain": "", "thread": "thread", "address-undefined": "address,undefined"}
#: What each build runs. ThreadSanitizer looks at what runs in several threads: the rest of the
#: tests would take it a quarter of an hour. Both leave out the profiles of long recordings.
FILTERS = {
    "plain": "*",
    "thread": "*Concurrent*:BTree.*:SliceArena*:Batch*:Team*:BlockPool*:Runner*:SpscRing*:"
    "Counters*:Probe*:Window*:Item*:Affinity*",
    "address-undefined": "*-RTreeProfile*:*FormulaAgainstTrace*",
}


def run(*command: object, timeout: float, **environment: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(words)}\n{output[-6000:]}"
    return output


@pytest.mark.native
@pytest.mark.parametrize("name", SANITIZERS)
def test_native_tests_pass(name: str) -> None:
    build = REPOSITORY / "build" / f"tests-{name}"
    sanitizer = SANITIZERS[name]
    run(
        *(CMAKE, "-G", "Ninja", "-S", REPOSITORY / "native", "-B", build),
        *("-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_BUILD_TESTS=ON", "-DPMOSS_WERROR=ON"),
        f"-DPMOSS_SANITIZE={sanitizer}",
        f"-DCMAKE_BUILD_TYPE={'RelWithDebInfo' if sanitizer else 'Release'}",
        f"-DCMAKE_MAKE_PROGRAM={CMAKE.with_name('ninja')}",
        timeout=120,
    )
    run(CMAKE, "--build", build, "--target", "pmoss_tests", "-j", "2", timeout=900)
    # ThreadSanitizer needs the classic address layout.
    layout = ("setarch", "-R") if sanitizer == "thread" else ()
    output = run(
        *layout,
        build / "tests" / "pmoss_tests",
        f"--gtest_filter={FILTERS[name]}",
        timeout=600,
        TSAN_OPTIONS="halt_on_error=1",
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
    )
    assert "[  PASSED  ]" in output
    assert "[  FAILED  ]" not in output


@pytest.mark.native
@pytest.mark.heavy
def test_native_code_compiles_for_aarch64() -> None:
    compiler = shutil.which("aarch64-linux-gnu-g++")
    assert compiler, "install g++-aarch64-linux-gnu to run this"
    run(
        *(CMAKE, "-G", "Ninja", "-S", REPOSITORY / "native"),
        *("-B", REPOSITORY / "build" / "aarch64", "-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_WERROR=ON"),
        *(f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_SYSTEM_NAME=Linux"),
        *("-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_BUILD_TYPE=Release"),
        f"-DCMAKE_MAKE_PROGRAM={CMAKE.with_name('ninja')}",
        timeout=120,
    )
    run(CMAKE, "--build", REPOSITORY / "build" / "aarch64", "-j", "2", timeout=600)

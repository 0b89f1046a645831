"""Builds the C++ tests, each kind in a folder of its own."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CMAKE = Path(sys.executable).with_name("cmake")
SANITIZERS = {"plain": "", "thread": "thread", "address-undefined": "address,undefined"}


def run(*command: object, timeout: float, **environment: str) -> str:
    """Runs a command and returns what it printed; AssertionError with its end if it fails."""
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


def build_native(kind: str, *targets: str) -> Path:
    """Builds targets as one of SANITIZERS and returns the build's folder."""
    build = REPOSITORY / "build" / f"tests-{kind}"
    sanitizer = SANITIZERS[kind]
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        # Another process of the tests may want the same build.
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(
            *(CMAKE, "-G", "Ninja", "-S", REPOSITORY / "native", "-B", build),
            *("-DPMOSS_BUILD_MODULE=OFF", "-DPMOSS_BUILD_TESTS=ON", "-DPMOSS_WERROR=ON"),
            f"-DPMOSS_SANITIZE={sanitizer}",
            f"-DCMAKE_BUILD_TYPE={'RelWithDebInfo' if sanitizer else 'Release'}",
            f"-DCMAKE_MAKE_PROGRAM={CMAKE.with_name('ninja')}",
            timeout=120,
        )
        run(CMAKE, "--build", build, "--target", *targets, "-j", "2", timeout=1800)
    return build

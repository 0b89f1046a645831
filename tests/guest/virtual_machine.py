"""A small Linux guest with several NUMA nodes, on any host: QEMU emulates the processor.

The guest has a kernel, our own first program (native/tests/guest/guest_init.cpp) and the files that
it is given: statically linked programs need nothing else, guest_python.py knows what Python needs.
It shows where memory lies and which CPUs threads run on, never how fast anything is.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
#: Where ./run unpacks the guest's kernel.
KERNEL_FOLDER = REPOSITORY / "build" / "guest"


class GuestUnavailable(Exception):
    """The emulator or the guest's kernel is missing; the message says how to get it."""


@dataclass(frozen=True)
class Architecture:
    """A processor that QEMU emulates.

    Attributes:
        emulator: QEMU's program.
        package: Debian's package of it.
        kernels: pattern of the kernel's file, below KERNEL_FOLDER.
        words: QEMU's arguments besides the guest's shape.
        options: first words of the kernel's command line.
        required: set in the environment where a run without it must fail instead of skipping.
    """

    emulator: str
    package: str
    kernels: str
    words: tuple[str, ...]
    options: str
    required: str


X86 = Architecture(
    "qemu-system-x86_64",
    "qemu-system-x86",
    "vmlinuz-*",
    ("-cpu", "max", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"),
    # A starved emulator has no timer that the kernel would call one.
    "console=ttyS0 mitigations=off no_timer_check",
    "PMOSS_REQUIRE_GUEST",
)
#: One instruction takes one nanosecond of the guest's time, and its PMU counts instructions and
#: cycles exactly. No time of this host enters: idle time is skipped.
ARM = Architecture(
    "qemu-system-aarch64",
    "qemu-system-arm",
    "arm64/vmlinuz-*-arm64",
    (
        *("-machine", "virt,gic-version=3", "-cpu", "max,pmu=on,pauth-impdef=on"),
        *("-icount", "shift=0,sleep=off"),
    ),
    "console=ttyAMA0 mitigations=off",
    "PMOSS_REQUIRE_ARM_GUEST",
)
#: The same with a kernel whose pages have 16 KiB.
ARM_16K = replace(ARM, kernels="arm64/vmlinuz-*-arm64-16k")


@dataclass(frozen=True)
class Shape:
    """Nodes of a guest: pairs of them are near (distance 12), the others far (21).

    Attributes:
        nodes: how many.
        cpus_per_node: of each.
        mib_per_node: memory of each.
        memoryless: a node without memory, if any.
    """

    nodes: int = 4
    cpus_per_node: int = 2
    mib_per_node: int = 256
    memoryless: int | None = None


@dataclass(frozen=True)
class Outcome:
    """Exit status of the command, 125 if the guest did not report one, and the whole console."""

    status: int
    console: str


def emulator(architecture: Architecture) -> str:
    """The QEMU program; GuestUnavailable if there is none."""
    program = shutil.which(architecture.emulator)
    if program is None:
        raise GuestUnavailable(
            f"{architecture.emulator} is missing: apt-get install {architecture.package}"
        )
    return program


def kernel(architecture: Architecture) -> Path:
    """The guest's kernel; GuestUnavailable if there is none."""
    kernels = sorted(KERNEL_FOLDER.glob(architecture.kernels))
    if not kernels:
        raise GuestUnavailable(
            f"no {architecture.kernels} in {KERNEL_FOLDER}: ./run test fetches one"
        )
    return kernels[-1]


@dataclass(frozen=True)
class Member:
    """A file of the guest: what it holds, its type and mode, and when it was last changed.

    Python's byte code is only valid beside a source with the time that it was compiled from.
    """

    content: bytes
    mode: int = stat.S_IFREG | 0o644
    modified: int = 0

    @classmethod
    def of(cls, path: Path) -> Member:
        """The file or link at a path of this host."""
        status = path.lstat()
        link = stat.S_ISLNK(status.st_mode)
        content = os.readlink(path).encode() if link else path.read_bytes()
        return cls(content, status.st_mode, int(status.st_mtime))


def with_libraries(path: Path) -> dict[str, Member]:
    """All that a program or library of this host is linked with, by the paths in the guest."""
    output = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", output, re.MULTILINE)
    # By the names under which they are asked for, which are links here.
    return {name.lstrip("/"): Member(Path(name).read_bytes(), 0o100755) for name in paths}


def archive(files: Mapping[str, Member]) -> bytes:
    """A "newc" archive for the kernel to unpack, of files by their path; folders come first."""
    folders = sorted({part.as_posix() for path in files for part in Path(path).parents} - {"."})
    members = [(folder, Member(b"", stat.S_IFDIR | 0o755)) for folder in folders]
    members += [*files.items(), ("TRAILER!!!", Member(b"", 0))]
    parts = []
    for number, (path, file) in enumerate(members, start=1):
        name = path.encode() + b"\0"
        size = len(file.content)
        fields = (number, file.mode, 0, 0, 1, file.modified, size, 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        parts += [head, b"\0" * (-len(head) % 4), file.content, b"\0" * (-size % 4)]
    return b"".join(parts)


def _machine(shape: Shape) -> list[str]:
    cpus = shape.nodes * shape.cpus_per_node
    words = ["-smp", f"{cpus},sockets={shape.nodes},cores={shape.cpus_per_node},threads=1"]
    with_memory = shape.nodes - (shape.memoryless is not None)
    words += ["-m", f"{with_memory * shape.mib_per_node}M"]
    for n in range(shape.nodes):
        first = n * shape.cpus_per_node
        last = first + shape.cpus_per_node - 1
        node = f"node,nodeid={n},cpus={first}-{last}"
        if n != shape.memoryless:
            words += ["-object", f"memory-backend-ram,id=m{n},size={shape.mib_per_node}M"]
            node += f",memdev=m{n}"
        words += ["-numa", node]
    for n in range(shape.nodes):
        for m in range(n + 1, shape.nodes):
            value = 12 if n // 2 == m // 2 else 21
            words += ["-numa", f"dist,src={n},dst={m},val={value}"]
    return words


def run_in_guest(
    init: Path,
    command: Sequence[str],
    files: Mapping[str, Member],
    *,
    architecture: Architecture = X86,
    shape: Shape = Shape(),  # frozen
    environment: Mapping[str, str] | None = None,
    kernel_options: str = "numa_balancing=disable",
    timeout: float = 600,
) -> Outcome:
    """Boots a guest, runs one command in it and returns what it printed.

    Args:
        init: the built guest_init.
        command: the path of a program in the guest and its arguments.
        files: what the guest has, by path without the leading "/".
        architecture: of its processor.
        shape: of the guest.
        environment: what the command finds in its environment besides PMOSS_GUEST_NODES,
            PMOSS_GUEST_CPUS and, where a node has none, PMOSS_GUEST_MEMORYLESS.
        kernel_options: more words for the kernel's command line.
        timeout: seconds after which the guest is killed.

    Raises:
        GuestUnavailable: no emulator or no kernel.
        subprocess.TimeoutExpired: the guest did not end in time.
    """
    variables = {
        "PMOSS_GUEST_NODES": str(shape.nodes),
        "PMOSS_GUEST_CPUS": str(shape.cpus_per_node),
        **(environment or {}),
    }
    if shape.memoryless is not None:
        variables["PMOSS_GUEST_MEMORYLESS"] = str(shape.memoryless)
    words = [*(f"{name}={value}" for name, value in variables.items()), *command]
    own = {
        "init": Member(init.read_bytes(), stat.S_IFREG | 0o755),
        "command": Member(b"\0".join(word.encode() for word in words)),
    }
    with tempfile.TemporaryDirectory() as folder:
        initrd = Path(folder) / "initrd"
        initrd.write_bytes(archive({**files, **own}))
        done = subprocess.run(
            [
                emulator(architecture),
                # Said explicitly: a host that offers KVM may not be able to run a guest with it.
                *("-accel", "tcg,thread=single", *architecture.words),
                *("-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"),
                *_machine(shape),
                *("-kernel", str(kernel(architecture)), "-initrd", str(initrd)),
                "-append",
                f"{architecture.options} quiet panic=-1 {kernel_options}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    console = re.sub(r"\r", "", done.stdout.decode(errors="replace"))
    statuses = re.findall(r"^guest: status (\d+)$", console, re.MULTILINE)
    status = int(statuses[-1]) if statuses else 125
    if done.returncode > 128:
        status = (done.returncode >> 1) - 64
    return Outcome(status, console)


def need_guest(architecture: Architecture = X86) -> None:
    """Skips the tests at hand where there is no guest, or fails them where it is required."""
    try:
        emulator(architecture)
        kernel(architecture)
    except GuestUnavailable as missing:
        if os.environ.get(architecture.required, "") not in ("", "0"):
            pytest.fail(f"the tests in a guest cannot run: {missing}")
        pytest.skip(f"NOT RUN: the tests in a guest: {missing}")

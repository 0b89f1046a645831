"""What a submitted policy's process may do, once the kernel has taken the rest from it.

Landlock leaves it the files of Python, of the packages and of the submission, for reading alone.
A filter of system calls leaves it no other program, no other process and no network. Both need no
rights, and neither can be given back. What root may do beyond that is dropped. Linux since 5.13 has
both where it was built with them; elsewhere the process is bounded in time and memory only.

The constants are those of ``linux/landlock.h``, ``linux/seccomp.h``, ``linux/filter.h`` and
``linux/capability.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from pmoss_env.errors import PlatformError

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
#: All rights on files that a version of Landlock knows, by version; later ones know the last.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_RIGHTS_NOW = (1 << 16) - 1
#: Bytes of the attributes and of what they refuse: TCP since version 4, and signals since 6.
_NETWORK, _SCOPES = (4, 0b11), (6, 0b11)
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
#: The question whether a filter can answer so, and the answer: an error.
_ACTION_AVAILABLE, _ERROR = 2, 0x00050000
_CAPABILITIES = 0x20080522
_OUR_PACKAGES = ("pmoss_env", "pmoss_datasets", "pmoss_agents", "pmoss_benchmarks")
#: Not all of /usr: a checkout may lie there, such as in the usual folder of a container.
_SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/lib", "/lib64"),
    *("/etc/ld.so.cache", "/etc/localtime", "/dev/urandom"),
)
_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system")

#: Numbers of refused system calls: (x86-64, aarch64).
_REFUSED = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "memfd_create": (319, 279),
    "io_uring_setup": (425, 425),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Who knows the number of another process's memory or queue needs no shmget.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # What Landlock leaves of files that are not the process's own, and other processes.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    # Another real user would have other threads to count.
    "setuid": (105, 146),
    "setreuid": (113, 145),
    "setresuid": (117, 147),
    # They tell what others do with files.
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30),
}
#: Refused where their first argument names another process. A thread ends itself by tgkill.
_OWN_ONLY = {"prlimit64": (302, 261), "tgkill": (234, 131)}
#: Refused where their flags, the argument of this place, empty a file that is opened to be read:
#: Landlock keeps that since version 3 only.
_OPENING = {"open": (2, None, 1), "openat": (257, 56, 2)}
#: Their arguments lie where no filter can look; who calls them has older calls to fall back to.
_ABSENT = {"clone3": (435, 435), "openat2": (437, 437)}
_ASKS_FILTERS = (317, 277)
#: Machine, number of its audit architecture, clone; its place in the rows above.
_MACHINES = {"x86_64": (0xC000003E, 56, 0), "aarch64": (0xC00000B7, 220, 1)}
_CLONE_THREAD = 0x10000


def can_confine() -> bool:
    """Whether this kernel has what confine() needs: Landlock, and filters of system calls."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    try:
        library = ctypes.CDLL(None, use_errno=True)
        asked = _ASKS_FILTERS[_MACHINES[platform.machine()][-1]]
        _call(library.syscall, asked, _ACTION_AVAILABLE, 0, struct.pack("I", _ERROR))
        return _call(library.syscall, _CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION) > 0
    except (OSError, AttributeError):
        return False


def confine(folders: Iterable[str | Path]) -> None:
    """Takes from this process what a policy does not need. It cannot be undone.

    Args:
        folders: that it may read, beside Python and the packages.

    Raises:
        PlatformError: the kernel could not. This process is as it was, or lacks a part of it.
    """
    if not can_confine():
        raise PlatformError("this kernel has no Landlock, or no filters of system calls")
    try:
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise PlatformError(f"{threads} threads run already, and would keep their rights")
        library = ctypes.CDLL(None, use_errno=True)
        _call(library.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _read_only(library, [*readable(), *map(Path, folders)])
        _drop_capabilities(library)
        _filter(library)
    except (OSError, AttributeError) as error:
        raise PlatformError(f"the kernel refuses a part of it: {error}") from error


def _call(function: object, *words: object) -> int:
    result = int(function(*words))  # type: ignore[operator]
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def readable() -> Iterator[Path]:
    """The files and folders that Python and the packages read, and so every submission, too."""
    yield from map(Path, (*_SYSTEM, *_FACTS, f"/proc/{os.getpid()}"))
    for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix):
        yield from (Path(prefix) / folder for folder in ("lib", "lib64"))
    yield from (Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages"))
    # Imported now: the folder in which Python would look for them is that of a checkout, perhaps.
    for name in _OUR_PACKAGES:
        yield from map(Path, import_module(name).__path__)
    native = sys.modules.get("pmoss_env._native")
    if native is not None and native.__file__:
        yield Path(native.__file__)


def _read_only(library: ctypes.CDLL, readable: Iterable[Path]) -> None:
    """Leaves the files at and below some paths for reading, and no other one."""
    version = _call(library.syscall, _CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    handled = _RIGHTS.get(version, _RIGHTS_NOW)
    network, scopes = (what if version >= since else 0 for since, what in (_NETWORK, _SCOPES))
    asked = struct.pack("QQQ", handled, network, scopes)
    size = 8 if version < _NETWORK[0] else 16 if version < _SCOPES[0] else 24
    rules = _call(library.syscall, _CREATE_RULESET, asked, ctypes.c_size_t(size), 0)
    try:
        for path in {Path(os.path.realpath(path)) for path in readable}:
            if path.exists():
                _allow(library, rules, path, _READ_FILE | (_READ_DIR if path.is_dir() else 0))
        _allow(library, rules, Path("/dev/null"), _READ_FILE | 1 << 1)
        _call(library.syscall, _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(library: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, handle)
        _call(library.syscall, _ADD_RULE, rules, _PATH_BENEATH, rule, 0)
    finally:
        os.close(handle)


def _drop_capabilities(library: ctypes.CDLL) -> None:
    """Leaves root no more than any user: not the files of others, nor the kernel's settings."""
    own = struct.pack("Ii", _CAPABILITIES, 0)
    _call(library.capset, own, bytes(24))


def _filter(library: ctypes.CDLL) -> None:
    """Refuses system calls; threads may still be started."""
    program = b"".join(_program())
    held = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(held))
    _call(library.prctl, _SECCOMP, _FILTER, header, 0, 0)


def _program() -> Iterator[bytes]:
    """The filter as instructions of 8 bytes: code, jump if true, jump if false, value."""
    load, keep, equal, at_least, any_bit, answer = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
    architecture, clone, column = _MACHINES[platform.machine()]
    allowed, refused, absent = 0x7FFF0000, _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    empties, mode = os.O_TRUNC, os.O_ACCMODE

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, value)

    numbers = [row[column] for row in _REFUSED.values()]
    yield step(load, 4)  # the architecture
    yield step(equal, architecture, 1, 0)
    yield step(answer, refused)
    yield step(load, 0)  # the number of the call
    # Numbers of the x32 mode, which would pass by the ones below.
    yield step(at_least, 0x40000000, 0, 1)
    yield step(answer, refused)
    for number in filter(None, numbers):
        yield step(equal, number, 0, 1)
        yield step(answer, refused)
    for row in _OWN_ONLY.values():
        yield step(equal, row[column], 0, 5)
        yield step(load, 16)  # the low half of its first argument
        yield step(equal, 0, 2, 0)
        yield step(equal, os.getpid(), 1, 0)
        yield step(answer, refused)
        yield step(load, 0)
    for *calls, place in _OPENING.values():
        if (call := calls[column]) is None:
            continue
        yield step(equal, call, 0, 6)
        yield step(load, 16 + 8 * place)  # the low half of its flags
        yield step(keep, empties | mode)
        # To read, and the mode that allows neither to read nor to write.
        yield step(equal, empties, 1, 0)
        yield step(equal, empties | mode, 0, 1)
        yield step(answer, refused)
        yield step(load, 0)
    for row in _ABSENT.values():
        yield step(equal, row[column], 0, 1)
        yield step(answer, absent)
    yield step(equal, clone, 0, 3)
    yield step(load, 16)  # the low half of its first argument, the flags
    yield step(any_bit, _CLONE_THREAD, 1, 0)
    yield step(answer, refused)
    yield step(answer, allowed)

"""Uses the packages as a system would that is no Unix: python tests/without_posix.py.

What Windows lacks is taken away first. Then every module is imported, but for those of extras, and
commands on models, datasets and agents run.
"""

import contextlib
import importlib
import os
import pkgutil
import signal
import sys
import time
from pathlib import Path

# What these import sees the system as it is.
import gymnasium  # noqa: F401
import h5py  # noqa: F401
import msgspec  # noqa: F401
import rich.console  # noqa: F401
import typer.main  # noqa: F401

MODULES = ("fcntl", "grp", "posix_ipc", "pty", "pwd", "readline", "resource", "syslog", "termios")
NAMES = {
    os: (
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "SCHED_IDLE"),
        *("chown", "fchmod", "fork", "getegid", "geteuid", "getgid", "getloadavg", "getpgid"),
        *("getpriority", "getuid", "killpg", "mkfifo", "nice", "posix_fallocate", "pread"),
        *("pwrite", "sched_getaffinity", "sched_setaffinity", "sched_setscheduler", "setpriority"),
        *("setsid", "statvfs", "sync", "sysconf", "uname", "wait4"),
    ),
    signal: (
        *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "alarm", "pause"),
        *("pthread_kill", "pthread_sigmask", "setitimer", "sigwait"),
    ),
    time: ("clock_gettime", "CLOCK_MONOTONIC"),
}
PACKAGES = ("pmoss_env", "pmoss_datasets", "pmoss_agents", "pmoss_benchmarks")
#: Slow to import, and ready for Windows by themselves.
EXTRAS = (
    *("d3rlpy", "matplotlib", "minari", "ray", "sb3_contrib", "scipy", "sklearn"),
    *("stable_baselines3", "torch", "torchrl"),
)
COMMANDS = (
    "list environments",
    "list machines",
    "list agents",
    "data collect own --tier random --episodes 4 -e machine=toy -e slices=8 -e workload=ycsb-a",
    "data verify own",
    "list datasets --root .",
    "evaluate lpt -e machine=toy -e slices=8 --seeds 1 --episodes 2 --out rows.jsonl",
    "study replay rows.jsonl",
)


def hide() -> None:
    """Takes away what Windows lacks."""
    sys.modules |= dict.fromkeys((*MODULES, *EXTRAS))
    for module, names in NAMES.items():
        for name in names:
            delattr(module, name)


def import_all() -> int:
    """Imports every module; only what lacks an extra may fail."""
    done = 0
    for package in PACKAGES:
        folders = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folders, f"{package}."):
            if module.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                missing = type(error).__name__ == "MissingExtraError"
                if not missing and (error.name or "").partition(".")[0] not in EXTRAS:
                    raise
            else:
                done += 1
    return done


def run(words: str) -> None:
    """Runs a command; its failure ends this program."""
    from pmoss_env.cli import main

    sys.argv = ["pmoss", *words.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, f"pmoss {words}: {end.code}"


def write_rows() -> None:
    """Two processes, one after the other, fill a file of results."""
    from pmoss_env.result_files import ResultFile

    for row in ({"n": 1}, {"n": 2}):
        with ResultFile(Path("rows.partial"), {"of": "test"}, ["n"]) as file:
            file.append(row)
    assert len(file.rows) == 2


if __name__ == "__main__":
    hide()
    print(f"{import_all()} modules")
    write_rows()
    for command in COMMANDS:
        with contextlib.redirect_stdout(sys.stderr):
            run(command)
        print(f"pmoss {command}")

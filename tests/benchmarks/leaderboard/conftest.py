import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_benchmarks.leaderboard.board import play_house
from pmoss_benchmarks.leaderboard.confinement import can_confine
from pmoss_benchmarks.leaderboard.rounds import Round, Tier, commit, read_round, reveal
from tests.sources import REPOSITORY

TASK = "toy-btree-ycsb-a-busy-core"
TIER = Tier("analytic", (TASK,), 2, 5, 50)

#: Policies that a user might hand in, good and bad.
MODULE = """
    import ctypes, errno, os, signal, socket, subprocess, threading, time
    import numpy as np

    def all_refused(*calls):
        library = ctypes.CDLL(None, use_errno=True)
        for name, *words in calls:
            ctypes.set_errno(0)
            if library[name](*words) >= 0 or ctypes.get_errno() != errno.EPERM:
                raise ValueError(f"{name} is let through: {ctypes.get_errno()}")
        raise PermissionError("all")

    class First:
        def reset(self):
            print("a policy may print")
        def act(self, observation, action_mask):
            return int(np.flatnonzero(action_mask)[0])

    class Plans(First):
        total_reward = 0.0
        def plan(self, context, order):
            self.actions = context.machine.tile_of_core[context.incumbent.cores[order]].tolist()
        def act(self, observation, action_mask):
            return self.actions.pop(0)
        def observe(self, reward):
            self.total_reward += reward

    class NotANumber(First):
        def act(self, observation, action_mask):
            return float("nan")

    class Masked(First):
        def act(self, observation, action_mask):
            return int(np.flatnonzero(action_mask == 0)[0])

    class Raises(First):
        def act(self, observation, action_mask):
            raise KeyError("no such thing")

    class Dies(First):
        def act(self, observation, action_mask):
            os._exit(7)

    class SaysItIsConfined(First):
        def __init__(self):
            import __main__ as process
            write = process.write_frame
            process.write_frame = lambda to, said: write(to, {**said, "confined": True})

    class Talks(First):
        def act(self, observation, action_mask):
            for fd in range(3, 9):
                try:
                    os.write(fd, b"\\xff" * 4096)
                except OSError:
                    pass
            return super().act(observation, action_mask)

    class AnswersAtLength(First):
        def act(self, observation, action_mask):
            return "it" * 1_000_000

    class Breaks:
        def __init__(self):
            raise ImportError("nothing to load")
"""

#: What the kernel refuses a policy, by the name of the policy that tries it when it is reset.
REFUSED = {
    "Forks": "os.fork()",
    "Executes": 'subprocess.run(["true"])',
    "ReadsOutside": 'open("/etc/passwd").read()',
    "Writes": 'open("it", "w").write("it")',
    "ChangesRights": "os.chmod(os.path.dirname(__file__), 0o700)",
    "Connects": 'socket.create_connection(("127.0.0.1", 9))',
    "LooksIntoItsParent": 'open(f"/proc/{os.getppid()}/mem", "rb").read(1)',
    "EndsItsParent": "os.kill(os.getppid(), 0)",
    "SignalsItsParent": """
        parent, tgsigqueue = os.getppid(), 297 if os.uname().machine == "x86_64" else 240
        all_refused(
            ("sigqueue", parent, 0, None),
            ("tgkill", parent, parent, 0),
            ("syscall", tgsigqueue, parent, parent, 0, None),
        )""",
    "PairsSockets": "socket.socketpair()",
    "SharesMemory": """
        all_refused(
            ("shmat", 0, None, 0), ("shmctl", 0, 0, None),
            ("semop", 0, None, 0), ("semtimedop", 0, None, 0, None), ("semctl", 0, 0, 0),
            ("msgsnd", 0, b"", 0, 0), ("msgrcv", 0, None, 0, 0, 0), ("msgctl", 0, 0, None),
            ("mq_open", b"/it", 0),
        )""",
    "Truncates": """
        file = __file__.encode()
        all_refused(
            ("truncate", file, 0), ("ftruncate", 0, 0),
            *(("open", file, os.O_TRUNC | mode) for mode in (os.O_RDONLY, os.O_ACCMODE)),
        )""",
    "ChangesAttributes": """
        at = -100, __file__.encode(), 0
        all_refused(
            ("syscall", 463, *at, b"user.it", None, 0), ("syscall", 466, *at, b"user.it"),
            ("syscall", 469, *at[:2], None, 0, 0),
        )""",
    "WatchesOthers": """
        all_refused(
            ("inotify_init1", 0), ("syscall", 434, os.getppid(), 0),
            ("syscall", 438, 0, 0, 0), ("fanotify_init", 0, 0),
        )""",
    "ListsFolders": """
        for name in ("/", "/proc", "/tmp", "/etc", "/var", CHECKOUT, CHECKOUT + "/benchmarks"):
            try:
                raise ValueError(f"{name}: {os.listdir(name)}")
            except PermissionError as error:
                last = error
        raise last""",
}
#: What others do when they are reset.
OTHERS = {
    "Hangs": "time.sleep(600)",
    "TakesMemory": "self.much = bytearray(64 << 30)",
    "StartsThreads": """
        try:
            all_refused(("setuid", 0), ("setreuid", 0, 0), ("setresuid", 0, 0, 0))
        except PermissionError:
            pass
        threading.stack_size(32768)
        ended = threading.Event()
        started = 0
        try:
            while started < 5000:
                threading.Thread(target=ended.wait, daemon=True).start()
                started += 1
        except RuntimeError as error:
            raise RuntimeError(f"{started}: {error}")
        finally:
            ended.set()""",
    "HasNoCapability": """
        lines = open("/proc/self/status").read().splitlines()
        held = [line for line in lines if line.startswith(("CapInh", "CapPrm", "CapEff"))]
        assert len(held) == 3 and not any(int(line.split()[1], 16) for line in held), held""",
    "ReadsItsFolder": """
        open(os.path.join(os.path.dirname(__file__), "submission.toml")).read()
        thread = threading.Thread(target=time.sleep, args=(0.1,))
        thread.start()
        signal.pthread_kill(thread.ident, 0)
        thread.join()
        open("/dev/null", "w").write("it")""",
}


def _module() -> str:
    parts = [textwrap.dedent(MODULE), f"CHECKOUT = {str(REPOSITORY)!r}"]
    for name, code in {**REFUSED, **OTHERS}.items():
        body = textwrap.indent(textwrap.dedent(code).strip(), 8 * " ")
        parts.append(f"class {name}(First):\n    def reset(self):\n{body}\n")
    return "\n\n".join(parts)


@pytest.fixture(scope="session")
def confined() -> bool:
    """Whether a process is confined here, as one that was says; skips where it is refused."""
    code = "from pmoss_benchmarks.leaderboard.confinement import confine; confine([])"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True
    )
    if done.returncode and can_confine():
        pytest.skip(f"a process that should be confined is not: {done.stderr[-200:]}")
    return done.returncode == 0


@pytest.fixture
def hand_in(tmp_path: Path) -> Callable[..., Path]:
    """A folder with the module above; keyword arguments are the keys of submission.toml."""

    def make(agent: str = "submitted_module:First", **more: str) -> Path:
        folder = tmp_path / "submission"
        folder.mkdir(exist_ok=True)
        (folder / "submitted_module.py").write_text(_module())
        keys = {"name": '"mine"', "authors": '["A. Author"]', "licence": '"Apache-2.0"'}
        keys |= {"agent": f'"{agent}"', **more}
        lines = [f"{key} = {value}" for key, value in keys.items()]
        (folder / "submission.toml").write_text("\n".join(lines) + "\n")
        return folder

    return make


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """An empty board."""
    return tmp_path / "board"


@pytest.fixture
def sealed(board: Path, tmp_path: Path) -> Round:
    """A round that is not revealed."""
    return commit(board, "r1", tmp_path / "secret", (TIER,))


@pytest.fixture(scope="session")
def _played_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    commit(folder / "board", "r1", folder / "secret", (TIER,))
    play_house(folder / "board", reveal(folder / "board", "r1", folder / "secret"))
    return folder / "board"


@pytest.fixture
def played(_played_once: Path, board: Path) -> tuple[Round, Path]:
    """A revealed round, and the file of what the house has played in it."""
    shutil.copytree(_played_once, board)
    (house,) = board.rglob("house.jsonl")
    return read_round(board, "r1"), house

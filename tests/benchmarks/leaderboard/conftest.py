import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_benchmarks.leaderboard.rounds import Round, Tier, commit

TASK = "toy-btree-ycsb-a-busy-core"
TIER = Tier("analytic", (TASK,), 2, 5, 50)

#: Policies that a user might hand in, good and bad.
MODULE = """
    import os, socket, subprocess, threading, time
    import numpy as np

    class First:
        def reset(self):
            print("a policy may print")
        def act(self, observation, action_mask):
            return int(np.flatnonzero(action_mask)[0])

    class Plans(First):
        seen = 0.0
        def plan(self, context, order):
            self.actions = context.machine.tile_of_core[context.incumbent.cores[order]].tolist()
        def act(self, observation, action_mask):
            return self.actions.pop(0)
        def observe(self, reward):
            self.seen += reward

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

    class Hangs(First):
        def reset(self):
            time.sleep(600)

    class Forks(First):
        def reset(self):
            os.fork()

    class Executes(First):
        def reset(self):
            subprocess.run(["true"])

    class ReadsOutside(First):
        def reset(self):
            open("/etc/passwd").read()

    class Writes(First):
        def reset(self):
            open("it", "w").write("it")

    class ChangesRights(First):
        def reset(self):
            os.chmod(os.path.dirname(__file__), 0o700)

    class Connects(First):
        def reset(self):
            socket.create_connection(("127.0.0.1", 9))

    class LooksIntoItsParent(First):
        def reset(self):
            open(f"/proc/{os.getppid()}/mem", "rb").read(1)

    class EndsItsParent(First):
        def reset(self):
            os.kill(os.getppid(), 9)

    class ReadsItsFolder(First):
        def reset(self):
            open(os.path.join(os.path.dirname(__file__), "submission.toml")).read()
            threading.Thread(target=list).start()
            open("/dev/null", "w").write("it")

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

    class TakesMemory(First):
        def reset(self):
            self.much = bytearray(64 << 30)

    class Breaks:
        def __init__(self):
            raise ImportError("nothing to load")
"""


@pytest.fixture
def hand_in(tmp_path: Path) -> Callable[..., Path]:
    """A folder with the module above; keyword arguments are the keys of submission.toml."""

    def make(agent: str = "submitted_module:First", **more: str) -> Path:
        folder = tmp_path / "submission"
        folder.mkdir(exist_ok=True)
        (folder / "submitted_module.py").write_text(textwrap.dedent(MODULE))
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

"""Runs in the guest: the threads of live processes, their data on a node, and what becomes of them.

Prints ``RESULT`` lines with one JSON object each; test_threads.py judges them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents.cli.threads import threads
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.envs.threads.key_value_load import run_load
from pmoss_env.envs.threads.live.affinity import Affinity, threads_of
from pmoss_env.envs.threads.live.process import ProcessServer
from pmoss_env.envs.threads.server import Sample
from pmoss_env.errors import ProcessError

DATA_NODE = 2
EPOCH = 0.5
THREADS = 3


def child(work: Callable[[], object]) -> int:
    """Forks a process that does some work; a new Python would take its time here."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    except BaseException:
        # Whoever waits for it sees the end of a pipe, and here why.
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(0)


def wait_for_start(reads: int, writes: int) -> None:
    """Until a child writes to the pipe; RuntimeError if it ends instead."""
    os.close(writes)
    with os.fdopen(reads, "rb", buffering=0) as pipe:
        if not pipe.read(1):
            raise RuntimeError("a child has ended before it began")


@contextlib.contextmanager
def load(pattern: str, threads: int = THREADS) -> Iterator[int]:
    """A key-value load with its data on DATA_NODE; the id of its process, which is killed after.

    It rests until somebody lets it go on: the emulator runs one CPU at a time.
    """
    reads, writes = os.pipe()
    process = child(
        lambda: run_load(
            pattern,
            threads=threads,
            keys=100,
            value_bytes=100_000,
            node=DATA_NODE,
            seconds=600.0,
            on_start=lambda: os.write(writes, b"x") and None,
        )
    )
    try:
        wait_for_start(reads, writes)
        os.kill(process, signal.SIGSTOP)
        yield process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def affinities(process: int) -> dict[int, list[int]]:
    return {thread: sorted(os.sched_getaffinity(thread)) for thread in threads_of(process)}


def pages(process: int) -> dict[str, int]:
    """Pages of the values, by node."""
    for line in Path(f"/proc/{process}/numa_maps").read_text().splitlines():
        words = line.split()
        if words[1] == f"bind:{DATA_NODE}":
            return {w[1]: int(w[3:]) for w in words if w[0] == "N" and w[1].isdigit()}
    return {}


class UndisturbedServer(ProcessServer):
    """Lets the process rest between epochs."""

    def advance(self, seconds: float) -> Sample:
        os.kill(self.process, signal.SIGCONT)
        time.sleep(seconds)
        os.kill(self.process, signal.SIGSTOP)
        return super().advance(0.0)


def server_on(process: int, **options: Any) -> ProcessServer:
    options = {"seconds_between_moves": 0.0, "moves_per_second": 100.0, **options}
    return UndisturbedServer(process, slow_node=DATA_NODE, **options)


def tell(name: str, **facts: object) -> None:
    print("RESULT", json.dumps({"name": name, **facts}), flush=True)


def migrate(pattern: str, agent_name: str, epochs: int) -> None:
    """An agent schedules a load until all its working threads are moved, or for ``epochs``."""
    with load(pattern) as process:
        before = affinities(process)
        server = server_on(process)
        env = ThreadSchedulingEnv.on(server, most_threads=8, epoch_seconds=EPOCH)
        agent = pmoss_agents.make(agent_name)
        observation, info = env.reset()
        first = env.sample.cpus.tolist()
        for _ in range(epochs):
            action = agent.act(observation, info["action_mask"])
            observation, reward, _, _, info = env.step(np.int64(action))
            agent.observe(reward)
            if server.report.moves >= THREADS and not info["unbalanced_cores"]:
                break
        tell(
            f"migrate-{pattern}",
            near=server.nearest[0].tolist(),
            pages=pages(process),
            first=first,
            last=env.sample.cpus.tolist(),
            unbalanced=info["unbalanced_cores"],
            moves=server.report.moves,
            pinned=[mask for mask in affinities(process).values() if len(mask) == 1],
            processor_seconds=server.outcome().user_seconds + server.outcome().kernel_seconds,
            monitoring=server.report.monitoring_seconds / server.outcome().seconds,
            notes=server.report.notes,
        )
        env.close()
        tell(f"restore-{pattern}", same=affinities(process) == before)


def dry_run() -> None:
    with load("readrandom") as process:
        before = affinities(process)
        with contextlib.closing(server_on(process, dry_run=True)) as server:
            env = ThreadSchedulingEnv.on(server, most_threads=8, epoch_seconds=EPOCH)
            env.reset()
            for _ in range(4):
                env.step(int(np.flatnonzero(env.action_masks())[-1]))
            same = affinities(process) == before
            tell("dry-run", intended=server.report.intended, moves=server.report.moves, same=same)


def rate_limit() -> None:
    with (
        load("readrandom") as process,
        contextlib.closing(server_on(process, moves_per_second=1e-3)) as server,
    ):
        server.advance(EPOCH)
        moved = [server.move(thread, 4) for thread in threads_of(process)[-3:]]
        tell("rate-limit", moved=moved, refused=server.report.refused)


def offline() -> None:
    """A CPU goes offline under a thread that is pinned to it, and comes back."""
    switch = Path("/sys/devices/system/cpu/cpu4/online")
    with load("readrandom") as process:
        before = affinities(process)
        with contextlib.closing(server_on(process)) as server:
            server.advance(EPOCH)
            first, second = threads_of(process)[-2:]
            moved = [server.move(first, 4)]
            switch.write_text("0")
            server.advance(EPOCH)
            moved += [server.move(second, 4), server.move(second, 5)]
            without = affinities(process)[first]
            switch.write_text("1")
        same = affinities(process) == before
        tell("offline", moved=moved, why=server.report.refused, without=without, same=same)
    with load("readrandom") as process:
        with contextlib.closing(server_on(process)) as server:
            server.advance(EPOCH)
            moved = [server.move(thread, 4) for thread in threads_of(process)[-2:]]
            switch.write_text("0")
        masks = list(affinities(process).values())
        switch.write_text("1")
        tell("restored-offline", moved=moved, masks=masks)
    with load("readrandom") as process:
        before = affinities(process)
        switch.write_text("0")
        # Begun while the CPU is away: the threads' right to it must not be forgotten.
        with contextlib.closing(server_on(process)) as server:
            server.advance(EPOCH)
            moved = [server.move(thread, 5) for thread in threads_of(process)[-2:]]
            switch.write_text("1")
        tell("offline-at-first", moved=moved, same=affinities(process) == before)


def no_permission() -> None:
    with load("readrandom", threads=1) as process:

        def as_another_user() -> None:
            os.setgid(1000)
            os.setuid(1000)
            try:
                server_on(process).close()
            except ProcessError as error:
                tell("no-permission", error=str(error))

        os.waitpid(child(as_another_user), 0)


def killed() -> None:
    """The tool dies of SIGKILL with threads pinned."""
    with load("readrandom") as process:
        before = affinities(process)
        reads, writes = os.pipe()

        def tool() -> None:
            affinity = Affinity(process)
            for thread in threads_of(process):
                affinity.pin(thread, 4)
            os.write(writes, b"x")
            time.sleep(600)

        tool_id = child(tool)
        wait_for_start(reads, writes)
        pinned = affinities(process)
        os.kill(tool_id, signal.SIGKILL)
        os.waitpid(tool_id, 0)
        # The guardian is a Python of its own, which starts slowly here.
        end = time.monotonic() + 60
        while affinities(process) != before and time.monotonic() < end:
            time.sleep(0.1)
        tell(
            "killed",
            pinned=[mask for mask in pinned.values() if mask == [4]],
            threads=len(before),
            same=affinities(process) == before,
        )


def command_line() -> None:
    with load("fillseq") as process:
        before = affinities(process)
        log = Path("/tmp/log.jsonl")
        os.kill(process, signal.SIGCONT)
        # What `pmoss run threads` calls, without its parser.
        threads(
            ["rule"],
            pid=process,
            slow_node=DATA_NODE,
            save_agent=None,
            seconds=6.0,
            epoch=EPOCH,
            log=log,
        )
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        moved = sum(entry["moved"] for entry in entries)
        tell("command-line", moved=moved, same=affinities(process) == before)


def main() -> None:
    migrate("readrandom", "threads-rule", 20)
    migrate("readseq", "threads-hybrid", 20)
    migrate("fillrandom", "threads-rule", 20)
    migrate("fillseq", "threads-linucb", 12)
    dry_run()
    rate_limit()
    offline()
    no_permission()
    killed()
    command_line()


if __name__ == "__main__":
    main()

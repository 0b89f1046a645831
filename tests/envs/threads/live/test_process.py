"""Scheduling the threads of a live process: real threads, real affinity, on this host."""

import contextlib
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import pmoss_agents
from pmoss_env import _native
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.envs.threads.live.affinity import Affinity, threads_of
from pmoss_env.envs.threads.live.process import ProcessServer
from pmoss_env.errors import DescriptionError, ProcessError
from pmoss_env.machines import load_machine

CPUS = sorted(os.sched_getaffinity(0))
TARGET = """
from pmoss_env.envs.threads.key_value_load import run_load
ready = lambda: print("ready", flush=True)
run_load("readrandom", threads=3, keys=20, value_bytes=200000, seconds=60, on_start=ready)
"""
needs_two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def two_nodes():
    """This host as if the first CPU were a node and the others another."""
    machine = load_machine("host")
    node = np.minimum(np.arange(machine.cores), 1).astype(np.int32)
    return replace(machine, node_of_core=node, socket_of_node=np.array([0, 1], dtype=np.int32))


@contextlib.contextmanager
def target(program=TARGET, *words):
    """A process of this program, which prints "ready"."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def affinities(process):
    return {thread: os.sched_getaffinity(thread) for thread in threads_of(process)}


def server_on(process, **options):
    options = {"slow_node": 0, "machine": two_nodes(), "near": [0], **options}
    return ProcessServer(process, **options)


@needs_two_cpus
def test_threads_go_to_their_data_and_get_their_affinity_back():
    with target() as child:
        before = affinities(child.pid)
        server = server_on(child.pid, seconds_between_moves=0.0)
        env = ThreadSchedulingEnv.on(server, most_threads=16, epoch_seconds=0.3)
        agent = pmoss_agents.make("threads-rule")
        observation, info = env.reset()
        for epoch in range(60):
            if epoch >= 12 and server.report.moves and not info["unbalanced_cores"]:
                break
            if not server.report.moves:
                # On a busy host the kernel may leave them all on one CPU.
                for thread in threads_of(child.pid):
                    os.sched_setaffinity(thread, {CPUS[1]})
                    os.sched_setaffinity(thread, before[thread])
            assert env.observation_space.contains(observation)
            observation, _, ended, _, info = env.step(agent.act(observation, info["action_mask"]))
            assert not ended
        first = int(server.machine.cpu_of_core[0])
        pinned = [t for t, mask in affinities(child.pid).items() if mask == {first}]
        # A thread that has not run since it was pinned may be moved again.
        assert 1 <= len(pinned) <= server.report.moves
        # All its working threads are beside the data now, however the kernel had placed them.
        assert info["unbalanced_cores"] == 0
        assert server.outcome().user_seconds + server.outcome().kernel_seconds > 0.0
        env.close()
        assert affinities(child.pid) == before
        env.close()


@needs_two_cpus
def test_a_dry_run_changes_nothing():
    with target() as child:
        before = affinities(child.pid)
        server = server_on(child.pid, dry_run=True)
        env = ThreadSchedulingEnv.on(server, most_threads=16, epoch_seconds=0.2)
        env.reset()
        for _ in range(8):
            env.step(int(np.flatnonzero(env.action_masks())[-1]))
            assert affinities(child.pid) == before
        assert server.report.moves == 0
        env.close()


@needs_two_cpus
def test_the_rate_limit_holds():
    with target() as child:
        server = server_on(child.pid, moves_per_second=1e-6)
        server.advance(0.1)
        threads = threads_of(child.pid)
        assert [server.move(thread, 0) for thread in threads[:3]] == [True, False, False]
        assert server.report.refused == {"more moves than the rate limit allows": 2}
        server.close()
        server = server_on(child.pid, moves_per_second=100.0, seconds_between_moves=3600.0)
        server.advance(0.2)
        assert server.move(threads[0], 0) and not server.move(threads[0], 1)
        server.close()


@needs_two_cpus
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_affinity_comes_back_when_the_tool_is_killed(number):
    program = (
        "import sys, time; from pmoss_env.envs.threads.live.affinity import Affinity, threads_of\n"
        "pid = int(sys.argv[1]); affinity = Affinity(pid)\n"
        f"assert all(affinity.pin(t, {CPUS[0]}) is None for t in threads_of(pid))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with target() as child:
        before = affinities(child.pid)
        with target(program, str(child.pid)) as tool:
            assert set(map(frozenset, affinities(child.pid).values())) == {frozenset({CPUS[0]})}
            tool.send_signal(number)
            tool.wait()
        deadline = time.monotonic() + 60
        while affinities(child.pid) != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert affinities(child.pid) == before


@needs_two_cpus
def test_threads_that_inherit_a_pin_are_freed():
    program = (
        "import threading, time, sys\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "t = threading.Thread(target=time.sleep, args=(60,), daemon=True)\n"
        "t.start(); print('started', flush=True); time.sleep(60)"
    )
    with target(program) as child:
        with Affinity(child.pid) as affinity:
            before = os.sched_getaffinity(child.pid)
            assert affinity.pin(child.pid, CPUS[0]) is None
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "started\n"
            (heir,) = set(threads_of(child.pid)) - {child.pid}
            assert os.sched_getaffinity(heir) == {CPUS[0]}
            assert affinity.release_heirs() == 1
            assert os.sched_getaffinity(heir) == before
            assert os.sched_getaffinity(child.pid) == {CPUS[0]}
        assert set(map(frozenset, affinities(child.pid).values())) == {frozenset(before)}


def test_a_process_that_ends_ends_the_episode():
    with target() as child:
        server = server_on(child.pid)
        env = ThreadSchedulingEnv.on(server, most_threads=16, epoch_seconds=0.1)
        env.reset()
        thread = threads_of(child.pid)[-1]
        child.kill()
        child.wait()
        assert not server.move(thread, 0)
        assert server.report.refused == {"the thread is gone": 1}
        assert env.step(0)[2]
        assert server.ended
        env.close()


def test_processes_that_cannot_be_scheduled_are_refused(monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    with pytest.raises(ProcessError, match=f"process {child.pid} does not exist"):
        server_on(child.pid)

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pytest.raises(ProcessError, match="must be yours"):
        server_on(os.getpid())


def test_cpus_that_cannot_be_used_are_no_ops(monkeypatch):
    with target() as child:
        server = server_on(child.pid, moves_per_second=100.0, seconds_between_moves=0.0)
        server.advance(0.2)
        thread = threads_of(child.pid)[0]
        real = os.sched_setaffinity

        def offline(thread, mask):
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(os, "sched_setaffinity", offline)
        assert not server.move(thread, 0)
        monkeypatch.setattr(os, "sched_setaffinity", real)
        assert server.report.refused == {f"CPU {CPUS[0]} is offline": 1}
        # A thread that its user keeps on some CPUs stays on them.
        if len(CPUS) > 1:
            other = threads_of(child.pid)[1]
            os.sched_setaffinity(other, {CPUS[1]})
            assert not server.move(other, 0)
            assert os.sched_getaffinity(other) == {CPUS[1]}
        server.close()


def test_nodes_and_rates_are_checked():
    with pytest.raises(DescriptionError, match="slow_node = 99: this host has the nodes"):
        ProcessServer(os.getpid(), slow_node=99)
    with pytest.raises(DescriptionError, match="moves_per_second"):
        ProcessServer(os.getpid(), slow_node=0, moves_per_second=0.0)


@needs_two_cpus
def test_the_closest_node_with_cpus_is_near(monkeypatch):
    nodes = [
        {"id": 0, "cpus": CPUS[:1], "distances": [10, 21, 21]},
        {"id": 1, "cpus": CPUS[1:], "distances": [21, 10, 12]},
        {"id": 2, "cpus": [], "distances": [21, 12, 10]},
    ]
    name = "pmoss_env.envs.threads.live.process.host_topology"
    monkeypatch.setattr(name, lambda what: {"nodes": nodes})
    server = ProcessServer(os.getpid(), slow_node=2)
    near = server.machine.cpu_of_core[server.nearest[0]]
    server.close()
    assert set(near.tolist()) == set(CPUS[1:])
    nodes[2]["distances"] = [12, 12, 10]
    server = ProcessServer(os.getpid(), slow_node=2)
    near = server.machine.cpu_of_core[server.nearest[0]]
    server.close()
    assert set(near.tolist()) == set(CPUS)


def test_without_a_second_node_nothing_moves_and_the_report_says_so():
    with target() as child:
        server = ProcessServer(child.pid, slow_node=0, near=list(range(load_machine("host").cores)))
        env = ThreadSchedulingEnv.on(server, most_threads=16, epoch_seconds=0.2)
        _, info = env.reset()
        for _ in range(3):
            assert info["core"] == -1
            info = env.step(0)[4]
        assert server.report.moves == 0
        assert any("nothing will move" in note for note in server.report.notes)
        env.close()


@needs_two_cpus
def test_pins_of_the_targets_own_stay():
    with target() as child:
        first, second, *_ = threads_of(child.pid)
        os.sched_setaffinity(second, {CPUS[0]})
        before = affinities(child.pid)
        with Affinity(child.pid) as affinity:
            assert affinity.pin(first, CPUS[0]) is None
            assert affinity.release_heirs() == 0
        assert affinities(child.pid) == before


#: Binds a later thread itself.
BINDS = """
import os, sys, threading
def bound(cpu):
    os.sched_setaffinity(0, {cpu})
    print("ready", flush=True)
    threading.Event().wait()
first, second = map(int, sys.argv[1:])
threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.Thread(target=bound, args=(first,), daemon=True).start()
sys.stdin.readline()
threading.Thread(target=bound, args=(second,), daemon=True).start()
threading.Event().wait()
"""


@needs_two_cpus
@pytest.mark.parametrize("leader", [CPUS, CPUS[:1]])
def test_pins_that_the_target_makes_later_stay(leader):
    with target(BINDS, str(CPUS[0]), str(CPUS[1])) as child:
        free = threads_of(child.pid)[1]
        os.sched_setaffinity(free, CPUS)
        os.sched_setaffinity(child.pid, leader)
        with Affinity(child.pid) as affinity:
            assert affinity.pin(free, CPUS[1]) is None
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "ready\n"
            assert affinity.release_heirs() == 0
        masks = sorted(map(sorted, affinities(child.pid).values()))
        assert masks == sorted([leader, [CPUS[0]], [CPUS[1]], CPUS])


#: Its second thread takes a name that the kernel cuts within a character; its first one ends.
NAMED = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
def named():
    libc.prctl(15, "fourteen bytes\u00e9".encode(), 0, 0, 0)
    print("ready", flush=True)
    time.sleep(600)
threading.Thread(target=named).start()
libc.syscall(60, 0)
"""


@needs_two_cpus
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of exit() is that of x86")
def test_a_thread_of_any_name_outlives_the_first_one():
    with target(NAMED) as child:
        named = threads_of(child.pid)[1]
        server = server_on(child.pid, moves_per_second=100.0, seconds_between_moves=0.0)
        assert server.move(named, 0)
        server.advance(0.2)
        assert not server.ended
        before = set(CPUS)
        server.close()
        assert os.sched_getaffinity(named) == before


@needs_two_cpus
def test_without_its_guardian_nothing_more_is_pinned():
    with target() as child:
        first, second, *_ = threads_of(child.pid)
        before = affinities(child.pid)
        with Affinity(child.pid) as affinity:
            assert affinity.pin(first, CPUS[0]) is None
            affinity._guardian.kill()
            affinity._guardian.wait()
            with pytest.raises(ProcessError, match="nothing more is pinned"):
                affinity.pin(second, CPUS[0])
            assert os.sched_getaffinity(second) == before[second]
        assert affinities(child.pid) == before


@needs_two_cpus
def test_what_is_counted_is_told_of_threads_that_sleep(monkeypatch):
    class Counters:
        """Of threads that have not run since they were opened."""

        names = ("local_dram", "remote_dram", "llc_misses")

        def __init__(self, thread):
            pass

        def read(self):
            return {}

    monkeypatch.setattr(_native, "ThreadCounters", Counters)
    with target("print('ready', flush=True); input()") as child:
        server = server_on(child.pid)
        assert server.report.notes == ["accesses: perf events, retired loads of memory"]
        server.close()


@needs_two_cpus
def test_threads_that_come_and_go_meanwhile():
    """Most threads end between the epoch that shows them and the move."""
    program = (
        "import threading, time\n"
        "def work(end):\n"
        "    while time.monotonic() < end: sum(range(500))\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    threading.Thread(target=work, args=(time.monotonic() + 0.2,)).start()\n"
        "    time.sleep(0.05)\n"
    )
    with target(program) as child:
        before = os.sched_getaffinity(child.pid)
        server = server_on(child.pid, moves_per_second=100.0, seconds_between_moves=0.0)
        short, deadline = [], time.monotonic() + 60
        while not short and time.monotonic() < deadline:
            server.advance(0.1)
            short = [t for t in threads_of(child.pid) if t != child.pid]
        assert short
        while set(short) & set(threads_of(child.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(server.move(thread, 0) for thread in short)
        assert server.report.refused == {"the thread is gone": len(short)}
        env = ThreadSchedulingEnv.on(server, most_threads=16, epoch_seconds=0.1)
        env.reset()
        for _ in range(15):
            assert not env.step(int(np.flatnonzero(env.action_masks())[-1]))[2]
            # Pins the thread that starts the others, too.
            server.move(child.pid, 0)
        env.close()
        assert set(map(frozenset, affinities(child.pid).values())) == {frozenset(before)}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_another_users_process_is_refused():
    with target() as child:
        program = (
            "import os, sys; from pmoss_env.envs.threads.live.affinity import Affinity\n"
            "from pmoss_env.errors import ProcessError\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "try: Affinity(int(sys.argv[1]))\n"
            "except ProcessError as error: print(error)"
        )
        said = subprocess.check_output([sys.executable, "-c", program, str(child.pid)], text=True)
        assert "must be yours" in said

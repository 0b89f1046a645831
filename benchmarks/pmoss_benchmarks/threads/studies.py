"""The paper's studies of the machine and of the bandit, without a comparison of methods."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np

from pmoss_agents.threads import run_episode
from pmoss_agents.threads.bandits import ThreadLinUCB
from pmoss_datasets.evaluation.statistics import spearman
from pmoss_env.envs.threads import INPUT_NAMES, ThreadProgram, ThreadSchedulingEnv, load_program
from pmoss_env.envs.threads.server import Sample, SimulatedServer
from pmoss_env.machines import Machine, load_machine

MACHINE = "xeon-6240m-optane"
PATTERNS = ("readrandom", "readseq", "fillrandom", "fillseq")
MIXES = ("mixed50", "mixed70", "mixed90")
#: Mixes of reads and writes of the paper's study of bandwidth.
WRITE_SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
_ENDLESS = 10**12


def _settled(
    machine: Machine, program: ThreadProgram, cores: list[int], home: int
) -> tuple[SimulatedServer, Sample]:
    """A server whose threads are pinned to ``cores``, after the moves have worn off."""
    program = replace(program, threads=len(cores), requests=_ENDLESS)
    server = SimulatedServer(machine, program, data_nodes=[home])
    server.place(cores)
    server.advance(1.0)
    return server, server.advance(1.0)


def _rate(server: SimulatedServer) -> float:
    before = server.outcome().requests
    server.advance(1.0)
    return server.outcome().requests - before


def times_by_remote_share(
    shares: tuple[float, ...], *, threads: int = 72, program: str = "fillrandom"
) -> dict[float, float]:
    """Run time at shares of remote accesses / run time without (table 1).

    All data are on the first socket. So are the threads, two per CPU, but for as many as it takes:
    those have CPUs of the second socket to themselves. The share of the accesses to slow
    memory that are remote is read from the counters; between two numbers of threads the time is
    interpolated.
    """
    machine = load_machine(MACHINE)
    local_cores, remote_cores = (
        np.flatnonzero(machine.node_of_core == node).tolist() for node in (0, 1)
    )
    measured, times = [], []
    for remote in range(threads + 1):
        cores = [local_cores[i % len(local_cores)] for i in range(threads - remote)]
        cores += [remote_cores[i % len(remote_cores)] for i in range(remote)]
        server, sample = _settled(machine, load_program(program), cores, home=2)
        accesses = sample.local_slow_accesses + sample.remote_slow_accesses
        measured.append(sample.remote_slow_accesses / accesses)
        times.append(1.0 / _rate(server))
        if measured[-1] > max(shares):
            break
    return {s: float(np.interp(s, measured, times)) / times[0] for s in shares}


def rule_against_best(program: str, *, threads: int = 48) -> float:
    """Time with all threads beside their data / with the best number of them there."""
    machine = load_machine(MACHINE)
    local_cores, remote_cores = (
        np.flatnonzero(machine.node_of_core == node).tolist() for node in (0, 1)
    )
    rates = []
    for local in range(threads + 1):
        cores = [local_cores[i % len(local_cores)] for i in range(local)]
        cores += [remote_cores[i % len(remote_cores)] for i in range(threads - local)]
        rates.append(_rate(_settled(machine, load_program(program), cores, home=2)[0]))
    return max(rates) / rates[-1]


def bandwidth_gap(home: int, write_shares: tuple[float, ...], *, machine: str = MACHINE) -> float:
    """The largest ratio of local to remote bandwidth of a memory.

    Over numbers of threads up to all CPUs of a socket, and over mixes of reads and writes; threads
    that only stream: no page faults, no index.
    """
    server = load_machine(machine)
    local_cores, remote_cores = (
        np.flatnonzero(server.node_of_core == node).tolist() for node in (0, 1)
    )
    gaps = []
    for write_share in write_shares:
        # Values below the size from which every read faults its pages in.
        stream = ThreadProgram(
            "stream", write_share, value_bytes=65536, user_cycles=4096.0, index_lines=0.0
        )
        for threads in (1, 4, 8, 12, 18, 24, 30, 36):
            local, _ = _settled(server, stream, local_cores[:threads], home)
            remote, _ = _settled(server, stream, remote_cores[:threads], home)
            gaps.append(_rate(local) / _rate(remote))
    return max(gaps)


def convergence(program: str, *, seed: int = 0, alpha: float = 0.3) -> list[tuple[int, float]]:
    """Action and confidence width at each decision of a bandit that knows nothing (figure 7)."""
    agent = ThreadLinUCB(alpha=alpha)
    run_episode(ThreadSchedulingEnv(program=program), agent, seed=seed)
    return agent.widths


def settled_after(
    widths: list[tuple[int, float]], *, action: int | None = None, share: float = 0.25
) -> int:
    """Decisions after which every width stays below a share of the first; their number if none.

    Args:
        widths: of convergence().
        action: looks at the decisions for this action alone; None: at all.
        share: of the first width among them.
    """
    considered = [(i, width) for i, (arm, width) in enumerate(widths) if action in (None, arm)]
    above = [i for i, width in considered if width > share * considered[0][1]]
    return above[-1] + 1 if above else 0


def correlations(kind: str, *, epochs: int = 20) -> dict[tuple[str, str], float]:
    """Spearman correlations of the paper's section 3 (figure 1).

    64 threads over 50 GB, first all beside their data, then all on the other socket. "write" fills
    at random. "read" reads at random; the store is filled first, as every store must be, and that
    phase belongs to the trace. The paper describes the second study as random writes, too. That
    is taken as a slip.

    Returns:
        By (input, input): the correlation over the epochs of all phases, of the inputs' means over
        the cores that ran threads.
    """
    machine = load_machine(MACHINE)
    fill = replace(load_program("fillrandom"), keys=50_000_000_000 // 400_000)
    read = replace(load_program("readrandom"), keys=fill.keys)
    rows = []
    for node in (0, 1):
        cores = np.flatnonzero(machine.node_of_core == node).tolist()
        for program in (fill,) if kind == "write" else (fill, read):
            # Threads begin one after the other, as in every program that starts.
            for started in np.linspace(4, 64, epochs).astype(int).tolist():
                placed = [cores[i % len(cores)] for i in range(started)]
                _, sample = _settled(machine, program, placed, home=2)
                ran = np.bincount(sample.cpus, minlength=machine.cores) > 0
                rows.append(sample.inputs[ran].mean(axis=0))
    table = np.array(rows)
    return {
        (a, b): spearman(table[:, i], table[:, j])
        for i, a in enumerate(INPUT_NAMES)
        for j, b in enumerate(INPUT_NAMES)
    }


def timings(*, decisions: int = 2000) -> dict[str, float]:
    """How long a decision of the bandit takes, and how many epochs a core simulates.

    Returns:
        ``decision_us``: of processor time, of a bandit that has learned, four actions allowed.
        ``epochs_per_s``: of processor time, of the server alone.
        ``env_epochs_per_s``: of processor time, of the environment with observations and all.
    """
    env = ThreadSchedulingEnv()
    agent = ThreadLinUCB()
    run_episode(env, agent, seed=0)
    observation, _ = env.reset(seed=1)
    mask = np.zeros(env.action_masks().size, dtype=np.int8)
    mask[:4] = 1
    began = process_time()
    for _ in range(decisions):
        agent.act(observation, mask)
    decision = (process_time() - began) / decisions
    server = SimulatedServer(load_machine(MACHINE), load_program("mixed50"))
    began = process_time()
    for _ in range(500):
        server.advance(1.0)
    alone = 500 / (process_time() - began)
    began = process_time()
    env.reset(seed=2)
    for _ in range(500):
        env.step(0)
    return {
        "decision_us": 1e6 * decision,
        "epochs_per_s": alone,
        "env_epochs_per_s": 501 / (process_time() - began),
    }

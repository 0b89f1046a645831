"""The Smart Scheduler paper's results: studies of the machine, and methods against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from time import process_time
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents import Agent
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
#: Of the bandit that are timed.
_DECISIONS = 2000


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


def _cores_of_sockets(machine: Machine) -> tuple[list[int], list[int]]:
    """The cores of both sockets, those beside the first node first."""
    local, remote = (np.flatnonzero(machine.node_of_core == node).tolist() for node in (0, 1))
    return local, remote


def _placed(cores: list[int], threads: int) -> list[int]:
    """Cores of so many threads, in turn."""
    return [cores[i % len(cores)] for i in range(threads)]


def times_by_remote_share(shares: tuple[float, ...]) -> dict[float, float]:
    """Run time of fillrandom at shares of remote accesses / run time without (table 1).

    All data are on the first socket. So are the threads, two per CPU, but for as many as it takes:
    those have CPUs of the second socket to themselves. The share of the accesses to slow
    memory that are remote is read from the counters; between two numbers of threads the time is
    interpolated.
    """
    machine, threads = load_machine(MACHINE), 72
    near, far = _cores_of_sockets(machine)
    measured, times = [], []
    for remote in range(threads + 1):
        cores = _placed(near, threads - remote) + _placed(far, remote)
        server, sample = _settled(machine, load_program("fillrandom"), cores, home=2)
        accesses = sample.local_slow_accesses + sample.remote_slow_accesses
        measured.append(sample.remote_slow_accesses / accesses)
        times.append(1.0 / _rate(server))
        if measured[-1] > max(shares):
            break
    return {s: float(np.interp(s, measured, times)) / times[0] for s in shares}


def rule_against_best(program: str) -> float:
    """Time with all threads beside their data / with the best number of them there."""
    machine, threads = load_machine(MACHINE), 48
    near, far = _cores_of_sockets(machine)
    rates = []
    for local in range(threads + 1):
        cores = _placed(near, local) + _placed(far, threads - local)
        rates.append(_rate(_settled(machine, load_program(program), cores, home=2)[0]))
    return max(rates) / rates[-1]


def bandwidth_gap(home: int, write_shares: tuple[float, ...], *, machine: str = MACHINE) -> float:
    """The largest ratio of local to remote bandwidth of a memory.

    Over numbers of threads up to all CPUs of a socket, and over mixes of reads and writes; threads
    that only stream: no page faults, no index.
    """
    server = load_machine(machine)
    near, far = _cores_of_sockets(server)
    gaps = []
    for write_share in write_shares:
        # Values below the size from which every read faults its pages in.
        stream = ThreadProgram(
            "stream", write_share, value_bytes=65536, user_cycles=4096.0, index_lines=0.0
        )
        for threads in (1, 4, 8, 12, 18, 24, 30, 36):
            local, _ = _settled(server, stream, near[:threads], home)
            remote, _ = _settled(server, stream, far[:threads], home)
            gaps.append(_rate(local) / _rate(remote))
    return max(gaps)


def convergence(program: str, *, alpha: float = 0.3) -> list[tuple[int, float]]:
    """Action and confidence width at each decision of a bandit that knows nothing (figure 7)."""
    agent = ThreadLinUCB(alpha=alpha)
    run_episode(ThreadSchedulingEnv(program=program), agent, seed=0)
    return agent.widths


def settled_after(widths: list[tuple[int, float]], *, action: int | None = None) -> int:
    """Decisions after which every width stays below a quarter of the first; 0 without any.

    Args:
        action: looks at the decisions for this action alone; None: at all.
    """
    considered = [(i, width) for i, (arm, width) in enumerate(widths) if action in (None, arm)]
    above = [i for i, width in considered if width > 0.25 * considered[0][1]]
    return above[-1] + 1 if above else 0


def correlations(kind: str) -> dict[tuple[str, str], float]:
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
            for started in np.linspace(4, 64, 20).astype(int).tolist():
                _, sample = _settled(machine, program, _placed(cores, started), home=2)
                ran = np.bincount(sample.cpus, minlength=machine.cores) > 0
                rows.append(sample.inputs[ran].mean(axis=0))
    table = np.array(rows)
    return {
        (a, b): spearman(table[:, i], table[:, j])
        for i, a in enumerate(INPUT_NAMES)
        for j, b in enumerate(INPUT_NAMES)
    }


def timings() -> dict[str, float]:
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
    for _ in range(_DECISIONS):
        agent.act(observation, mask)
    decision = (process_time() - began) / _DECISIONS
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


#: Agents by the short name in tables. Every run begins with an agent that knows nothing, but for
#: LEARNED: the same bandit with what it has learned before, as the paper's starts (section 8).
LEARNED = "linucb-learned"
METHODS: dict[str, str] = {
    "scheduling-domain": "threads-scheduling-domain",
    "rule": "threads-rule",
    "linucb": "threads-linucb",
    LEARNED: "threads-linucb",
    "hybrid": "threads-hybrid",
    "random": "threads-random",
}
#: Methods that a bandit is compared with.
OTHERS = ("scheduling-domain", "rule")
READS = ("readrandom", "readseq")
#: Requests of the paper's study of latency.
P99_REQUESTS = 960_000

#: What LEARNED has seen: every pattern so often, shorter, from seeds that no comparison uses.
_LESSONS = 20
_LESSON_REQUESTS = 3_000_000
_FIRST_LESSON_SEED = 1_000_000


@dataclass(frozen=True)
class Comparison:
    """What the methods took.

    Attributes:
        runs: by program and method, one dict of results per seed.
    """

    runs: dict[str, dict[str, list[dict[str, float]]]]

    def mean(self, program: str, method: str, what: str = "seconds") -> float:
        """The mean over the seeds."""
        return float(np.mean([run[what] for run in self.runs[program][method]]))

    def ratio(self, program: str, first: str, second: str, what: str = "seconds") -> float:
        """One method's mean over that of another."""
        return self.mean(program, first, what) / self.mean(program, second, what)

    def loss(self, programs: Sequence[str], method: str, others: Sequence[str]) -> float:
        """The most by which a method takes longer than the best, as a share."""
        return max(
            self.mean(p, method) / min(self.mean(p, other) for other in others) - 1.0
            for p in programs
        )

    def total(self, method: str) -> float:
        """Seconds over all programs, mean over the seeds."""
        return sum(self.mean(program, method) for program in self.runs)


def compare(
    programs: Sequence[str],
    agents: Mapping[str, Agent] | Sequence[str] = tuple(METHODS),
    *,
    seeds: int = 5,
    **options: Any,
) -> Comparison:
    """Runs every method on every program, on the same seeds.

    Args:
        programs: keys of ``PROGRAMS``.
        agents: by method; every run begins with the agent as it is here. Or keys of ``METHODS``.
        seeds: runs per cell.
    """
    if not isinstance(agents, Mapping):
        agents = {
            name: learned() if name == LEARNED else pmoss_agents.make(METHODS[name])
            for name in agents
        }
    return Comparison(
        {
            program: {
                name: [
                    run_episode(
                        ThreadSchedulingEnv(program=program, **options), deepcopy(agent), seed=seed
                    )
                    for seed in range(seeds)
                ]
                for name, agent in agents.items()
            }
            for program in programs
        }
    )


@cache
def learned() -> Agent:
    """The bandit of LEARNED before a comparison."""
    agent = pmoss_agents.make(METHODS[LEARNED])
    for lesson in range(_LESSONS):
        for program in PATTERNS:
            env = ThreadSchedulingEnv(program=program, requests=_LESSON_REQUESTS)
            run_episode(env, agent, seed=_FIRST_LESSON_SEED + lesson)
    return agent


def bandit_times(comparison: Comparison, bandit: str = "linucb") -> dict[str, float]:
    """Figures of the paper's section 9.2.1, with a bandit in the place of the paper's."""
    return {
        "reads: time saved by linucb against scheduling-domain, best": max(
            1.0 - comparison.ratio(p, bandit, "scheduling-domain") for p in READS
        ),
        "reads: rule / linucb - 1, best": max(
            comparison.ratio(p, "rule", bandit) - 1.0 for p in READS
        ),
        "four patterns: linucb / the best method - 1, worst": comparison.loss(
            PATTERNS, bandit, (*OTHERS, bandit)
        ),
    }


def bandit_latencies(late: Comparison, bandit: str = "linucb") -> dict[str, float]:
    """Figures of its section 9.2.2, of runs with P99_REQUESTS."""
    return {
        f"fillrandom, 960k requests: P99 saved against {other}": 1.0
        - late.ratio("fillrandom", bandit, other, "p99_ms")
        for other in OTHERS
    }

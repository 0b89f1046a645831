"""What the loop is worth on this host: beside staying, and beside a schedule for each phase.

A co-tenant takes half of one worker core's time, and changes to the next core every ten seconds. In
each block all sides meet it in the same way, in an order that is drawn. So a ratio is of one run.

The schedule for each phase is measured at the begin of a block: the best of several shares of the
load on the core that is disturbed. It changes at once with the co-tenant, without a trial. No
policy that has to notice it first can do that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_agents.autopilot.loop import fly, running_env
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.rounds import Move, RoundPolicy, moves_between
from pmoss_datasets.evaluation.statistics import bootstrap_interval, share_interval
from pmoss_datasets.fairness import reads_environment
from pmoss_env.baselines import slice_load
from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Int32Array

#: Seconds that a co-tenant stays on a core.
PHASE_SECONDS = 10.0
#: What is wanted: the least part of the schedule for each phase, and of staying.
GOALS = {"made": 0.95, "stay": 1.15}
SIDES = ("stay", "made", "autopilot")
#: Null changes are wrongly kept in less than this part of the trials.
MOST_KEPT = 0.01
#: Shares of a balanced core's load that the disturbed core may keep.
_SHARES = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15)
#: How often each of them is tried, and in how many rounds.
_TRIES, _ROUNDS = 8, 3


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        kind: "null" for trials of a schedule against itself, "block" for all sides.
        number: of its kind, from 0; decides its chance.
    """

    kind: str
    number: int

    @property
    def name(self) -> str:
        """In one word, e.g. "block-3"."""
        return f"{self.kind}-{self.number}"


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        env: arguments of the environment beyond usual_env().
        agent: a policy of the domain, or a class of agents that foretell.
        trials: of a part of null trials.
        phases: of an episode.
    """

    env: Mapping[str, Any]
    agent: str
    trials: int
    phases: int


def usual_env(epoch_seconds: float) -> dict[str, Any]:
    """A closed load with deep queues, and a co-tenant that changes cores every ten seconds.

    Both cores route: a single router would be held up with its core, whatever the schedule. Half of
    the queries are scans of an index that caches hold: what others do to the memory decides little.
    Queues outlast the time for which the kernel gives a core to others.

    Args:
        epoch_seconds: length of an epoch.
    """
    return {
        "drift": "periodic-cores",
        "drift_options": {
            "count": 1,
            "period": max(1, round(PHASE_SECONDS / epoch_seconds)),
            "strength": [0.5, 0.5],
        },
        "workload": "lookups-scans",
        "slices": 32,
        "load": "closed:8000",
        "incumbent": "spread",
        "epoch_seconds": epoch_seconds,
        "moves_per_epoch": 32,
        "workload_seed": 1,
        "backend_options": {"records": 200_000, "routers": "workers"},
    }


@reads_environment
class Made(RoundPolicy):
    """Takes the schedule that was made for the phase that begins.

    Args:
        schedules: (slices,) cores for each core that is disturbed.
    """

    def __init__(self, schedules: Mapping[int, Int32Array]) -> None:
        super().__init__()
        self._schedules = schedules

    def plan(self, cores: Int32Array) -> list[Move]:
        """The moves to it."""
        session = self.env.session
        (co_tenant,) = session.conditions(session.epoch + 1).co_tenants
        return moves_between(cores, self._schedules[co_tenant.target])


def measure(plan: Plan, part: Part) -> dict[str, Any]:
    """Runs one part; the load of the host stands beside what came of it."""
    result = _null(plan, part.number) if part.kind == "null" else _block(plan, part.number)
    return {**result, "host_load": round(os.getloadavg()[0], 2)}


def _null(plan: Plan, number: int) -> dict[str, Any]:
    """Trials of the spread schedule against itself, without co-tenants."""
    env = _environment(plan, number, phases=0)
    kept = pairs = 0
    try:
        index = env.session.live
        index.begin(1, Conditions(), _spread(env))
        for _ in range(plan.trials):
            trial = index.tried(index.served, index.served)
            kept += trial.kept
            pairs += len(trial.gains)
    finally:
        env.close()
    return {"trials": plan.trials, "kept": kept, "pairs": pairs}


def _block(plan: Plan, number: int) -> dict[str, Any]:
    """Every side once: million queries per second, and what the loop did."""
    order = [SIDES[i] for i in np.random.default_rng((number, 7)).permutation(len(SIDES))]
    schedules = _made_schedules(plan, number)
    served: dict[str, float] = {}
    verdicts: dict[str, int] = {}
    for side in order:
        env = _environment(plan, number, plan.phases)
        seconds = env.arguments.epochs * float(env.arguments.epoch_seconds)
        if side == "autopilot":
            epochs = list(fly(env, _agent(plan.agent), number))
            served[side] = float(np.mean([epoch.throughput for epoch in epochs]))
            for epoch in epochs:
                verdicts[epoch.verdict] = verdicts.get(epoch.verdict, 0) + 1
            continue
        index = env.session.live
        env.session.live = LiveIndex(index.backend, seconds=_length(env), rounds=index.rounds)
        policy = Made(schedules) if side == "made" else CONTINUAL.policy("stay")
        try:
            served[side] = CONTINUAL.play(env, policy, number).outcome / seconds
        finally:
            env.close()
    return {
        "order": order,
        "mq_per_s": {side: served[side] for side in SIDES},
        "verdicts": verdicts,
        "moved_off": {
            str(core): int(np.count_nonzero(cores != core)) for core, cores in schedules.items()
        },
    }


def _agent(name: str) -> Any:
    if name in CONTINUAL.policies():
        return CONTINUAL.policy(name)
    from pmoss_agents.registry import policy_maker

    return policy_maker(name)()


def _length(env: ContinualSchedulingEnv) -> float:
    return float(env.arguments.epoch_seconds)


def _environment(plan: Plan, seed: int, phases: int) -> Any:
    period = int(plan.env["drift_options"]["period"])
    env = running_env({**plan.env, "epochs": max(1, phases * period)}, seed)
    if env.machine.workers.size != 2:
        env.close()
        raise UnsupportedError(
            f"{env.machine.workers.size} worker cores: the schedules for each phase are made for "
            "two; run it under taskset on two"
        )
    return env


def _spread(env: Any) -> Int32Array:
    workers = env.machine.workers
    return np.asarray(workers[np.arange(env.slices) % workers.size], dtype=np.int32)


def _made_schedules(plan: Plan, number: int) -> dict[int, Int32Array]:
    """The best schedule under the co-tenant on each core, by rounds in an order that is drawn."""
    env = _environment(plan, number, plan.phases)
    rng = np.random.default_rng((number, 8))
    best_of_core: dict[int, Int32Array] = {}
    try:
        env.reset(seed=number)
        index, machine, drift = env.session.live, env.machine, env.session.drift
        epochs = range(len(drift.states))
        every = {
            tenant.target: drift.conditions(epoch)
            for epoch in epochs
            for tenant in drift.conditions(epoch).co_tenants
        }
        load = slice_load(env.session.snapshot)
        for core, conditions in sorted(every.items()):
            index.run(conditions, _length(env))
            tried = [_with_share(load, core, machine.workers, share) for share in _SHARES]
            served = np.zeros(len(tried))
            for _ in range(_TRIES):
                for i in rng.permutation(len(tried)):
                    counts = index.rounds_under(machine.local_schedule(tried[i]))[-1:]
                    counts += [index.next_round() for _ in range(_ROUNDS - 1)]
                    served[i] += sum(each.snapshot.throughput for each in counts)
            best_of_core[core] = tried[int(served.argmax())]
    finally:
        env.close()
    return best_of_core


def _with_share(load: Any, core: int, workers: Int32Array, share: float) -> Int32Array:
    """(slices,) cores: one of two keeps a share of half of the load, in the order of the slices."""
    other = int(workers[workers != core][0])
    # Neighbours in the index go to either core in turn, as far as the share allows.
    wanted = share * load.sum() / 2
    cores = np.full(load.size, other, dtype=np.int32)
    kept = 0.0
    for slice_ in [*range(0, load.size, 2), *range(1, load.size, 2)]:
        if kept + load[slice_] / 2 > wanted:
            break
        cores[slice_] = core
        kept += load[slice_]
    return cores


def rate_in_words(null: Mapping[str, Any]) -> str:
    """How often null changes are kept, with its interval, e.g. "0.9 % [0.5, 1.7]".

    Args:
        null: of summary().
    """
    rate, low, high = (100 * null[name] for name in ("rate", "low", "high"))
    return f"{rate:.1f} % [{low:.1f}, {high:.1f}]"


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates and ratios over all parts, with 95 % intervals; see GOALS.

    Args:
        cells: parts and what came of them.
    """
    nulls = [cell for cell in cells if cell["kind"] == "null"]
    blocks = [cell for cell in cells if cell["kind"] == "block"]
    result: dict[str, Any] = {}
    if nulls:
        trials, kept = (sum(cell[name] for cell in nulls) for name in ("trials", "kept"))
        interval = share_interval(kept, trials)
        result["null"] = {
            "trials": trials,
            "kept": kept,
            "rate": kept / trials,
            "low": interval[0],
            "high": interval[1],
        }
    for other, goal in GOALS.items():
        ratios = np.array(
            [cell["mq_per_s"]["autopilot"] / cell["mq_per_s"][other] for cell in blocks]
        )
        if not ratios.size:
            continue
        low, high = bootstrap_interval([ratio[None] for ratio in ratios])
        result[other] = {
            "ratio": float(ratios.mean()),
            "low": low,
            "high": high,
            "least": float(ratios.min()),
            "most": float(ratios.max()),
            "blocks": len(blocks),
            "goal": goal,
        }
    result["host_load"] = [
        min(cell["host_load"] for cell in cells),
        max(cell["host_load"] for cell in cells),
    ]
    return result

"""What the loop of `pmoss run autopilot` is worth here, and how often it keeps a null change.

A co-tenant takes half of one worker core's time, and changes to the next core every ten seconds. In
each block all sides meet it in the same way, in an order that is drawn. So a ratio is of one run.
It takes two CPUs, and nothing else should run on the host: its load stands beside every row.

The schedule for each phase is measured at the begin of a block: the best of several shares of the
load on the core that is disturbed. It changes at once with the co-tenant, without a trial. No
policy that has to notice it first can do that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.autopilot.loop import fly, running_env
from pmoss_agents.registry import policy_maker
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.rounds import Move, RoundPolicy, moves_between
from pmoss_datasets.evaluation.statistics import bootstrap_interval, share_interval
from pmoss_datasets.fairness import reads_environment
from pmoss_env.baselines import slice_load
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.live_index import LiveIndex
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Int32Array

MEASURES_HOST = True
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
class Settings:
    """What the rows depend on.

    Attributes:
        agent: a policy of the domain continual, a registered agent, or module:Class.
        blocks: in each, every side serves once.
        nulls: rows of trials of a schedule against itself.
        trials: of each such row.
        phases: of ten seconds, for each side of a block.
        epoch_seconds: length of an epoch.
        env: further arguments of the environment.
    """

    AXES: ClassVar = ("blocks", "nulls")

    agent: str = "pace"
    blocks: int = 10
    nulls: int = 20
    trials: int = 50
    phases: int = 4
    epoch_seconds: float = 0.3125
    env: dict[str, Any] = field(default_factory=dict)


def cells(settings: Settings) -> list[Cell]:
    """The null trials, then the blocks."""
    counts = {"null": settings.nulls, "block": settings.blocks}
    return [{"kind": kind, "number": n} for kind, count in counts.items() for n in range(count)]


def env_of(settings: Settings) -> dict[str, Any]:
    """A closed load with deep queues, and a co-tenant that changes cores every ten seconds.

    Both cores route: a single router would be held up with its core, whatever the schedule. Half of
    the queries are scans of an index that caches hold: what others do to the memory decides little.
    Queues outlast the time for which the kernel gives a core to others.
    """
    return {
        "drift": "periodic-cores",
        "drift_options": {
            "count": 1,
            "period": max(1, round(PHASE_SECONDS / settings.epoch_seconds)),
            "strength": [0.5, 0.5],
        },
        "workload": "lookups-scans",
        "slices": 32,
        "load": "closed:8000",
        "incumbent": "spread",
        "epoch_seconds": settings.epoch_seconds,
        "moves_per_epoch": 32,
        "workload_seed": 1,
        "backend_options": {"records": 200_000, "routers": "workers"},
        **settings.env,
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


def measure(run: Run, cell: Cell) -> Row:
    """Runs one part.

    Returns:
        Of null trials how many were ``kept``, and their ``pairs`` of rounds. Of a block the
        ``order`` of the sides, ``mq_per_s`` of each, ``verdicts`` of the loop, and how many slices
        the schedule for each phase ``moved_off`` the core. In both cases the ``host_load``.
    """
    part = _null if cell["kind"] == "null" else _block
    return {**part(run.settings, cell["number"]), "host_load": round(os.getloadavg()[0], 2)}


def _null(settings: Settings, number: int) -> dict[str, Any]:
    """Trials of the spread schedule against itself, without co-tenants."""
    with closing(_environment(settings, number, phases=0)) as env:
        index = env.session.live
        index.begin(1, Conditions(), _spread(env))
        trials = [index.tried(index.served, index.served) for _ in range(settings.trials)]
    return {
        "trials": settings.trials,
        "kept": sum(trial.kept for trial in trials),
        "pairs": sum(len(trial.gains) for trial in trials),
    }


def _block(settings: Settings, number: int) -> dict[str, Any]:
    """Every side once: million queries per second, and what the loop did."""
    order = [SIDES[i] for i in np.random.default_rng((number, 7)).permutation(len(SIDES))]
    schedules = _made_schedules(settings, number)
    served: dict[str, float] = {}
    verdicts: Counter[str] = Counter()
    for side in order:
        env = _environment(settings, number, settings.phases)
        seconds = env.arguments.epochs * settings.epoch_seconds
        if side == "autopilot":
            name, own = settings.agent, CONTINUAL.policies()
            agent = CONTINUAL.policy(name) if name in own else policy_maker(name)()
            steps = list(fly(env, agent, number))
            served[side] = float(np.mean([step.throughput for step in steps]))
            verdicts.update(step.verdict for step in steps)
            continue
        index = env.session.live
        env.session.live = LiveIndex(
            index.backend, seconds=settings.epoch_seconds, rounds=index.rounds
        )
        policy = Made(schedules) if side == "made" else CONTINUAL.policy("stay")
        with closing(env):
            served[side] = CONTINUAL.play(env, policy, number).outcome / seconds
    return {
        "order": order,
        "mq_per_s": {side: served[side] for side in SIDES},
        "verdicts": dict(verdicts),
        "moved_off": {
            str(core): int(np.count_nonzero(cores != core)) for core, cores in schedules.items()
        },
    }


def _environment(settings: Settings, seed: int, phases: int) -> Any:
    arguments = env_of(settings)
    period = int(arguments["drift_options"]["period"])
    env = running_env({**arguments, "epochs": max(1, phases * period)}, seed)
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


def _made_schedules(settings: Settings, number: int) -> dict[int, Int32Array]:
    """The best schedule under the co-tenant on each core, by rounds in an order that is drawn."""
    rng = np.random.default_rng((number, 8))
    best: dict[int, Int32Array] = {}
    with closing(_environment(settings, number, settings.phases)) as env:
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
            index.run(conditions, settings.epoch_seconds)
            tried = [_with_share(load, core, machine.workers, share) for share in _SHARES]
            served = np.zeros(len(tried))
            for _ in range(_TRIES):
                for i in rng.permutation(len(tried)):
                    counts = index.rounds_under(machine.local_schedule(tried[i]))[-1:]
                    counts += [index.next_round() for _ in range(_ROUNDS - 1)]
                    served[i] += sum(one.snapshot.throughput for one in counts)
            best[core] = tried[int(served.argmax())]
    return best


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


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Rates and ratios over all rows, with 95 % intervals.

    Returns:
        ``null``: ``trials``, how many were ``kept``, and the ``rate``. By each key of GOALS the
        ``ratio`` of the loop, the ``least`` and the ``greatest`` of the blocks, and the ``goal``.
        By kind of row ``host_load``, the least and the greatest. What was not measured is left out.
    """
    nulls, blocks = ([row for row in rows if row["kind"] == kind] for kind in ("null", "block"))
    summary: dict[str, Any] = {
        "host_load": {
            kind: (min(loads), max(loads))
            for kind, of in (("null", nulls), ("block", blocks))
            if (loads := [row["host_load"] for row in of])
        }
    }
    if nulls:
        trials, kept = (sum(row[name] for row in nulls) for name in ("trials", "kept"))
        low, high = share_interval(kept, trials)
        rate = {"value": kept / trials, "low": low, "high": high}
        summary["null"] = {"trials": trials, "kept": kept, "rate": rate}
    for other, goal in GOALS.items() if blocks else ():
        ratios = np.array([row["mq_per_s"]["autopilot"] / row["mq_per_s"][other] for row in blocks])
        ends = bootstrap_interval([ratio[None] for ratio in ratios])
        summary[other] = {
            "ratio": {"value": float(ratios.mean()), "low": ends[0], "high": ends[1]},
            "least": float(ratios.min()),
            "greatest": float(ratios.max()),
            "blocks": len(blocks),
            "goal": goal,
        }
    return summary


def _table(rows: Rows) -> TableOfRows:
    """The rate and the ratios beside their goals."""
    summary, lines = summarise({}, rows), []
    if null := summary.get("null"):
        share = f"{null['kept']} of {null['trials']:,}, {null['rate']['value']:.1%}"
        lines.append(["null changes kept", share, "", f"< {MOST_KEPT:.0%}"])
    for other in GOALS:
        if one := summary.get(other):
            spread = f"{one['least']:.3f} to {one['greatest']:.3f}"
            ratio = f"{one['ratio']['value']:.3f}"
            lines.append([f"autopilot / {other}", ratio, spread, f">= {one['goal']:g}"])
    return TableOfRows(["", ">mean", ">of the blocks", "goal"], lines)


TABLES = {"default": _table}

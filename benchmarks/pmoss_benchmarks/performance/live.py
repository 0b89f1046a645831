"""A live run on this host: the throughput while all slices move lazily, beside before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmoss_benchmarks.report import Figure
from pmoss_env import _native
from pmoss_env.errors import BackendError
from pmoss_env.indexes import DEFAULT

SLICES = 256
_MOST_KEYS = 3_000_000
_SWEEP_SECONDS = 0.1
#: Seconds before and after a re-schedule, for what they are compared with.
_REST_SECONDS = 2.0
#: What is wanted: least throughput during a lazy re-schedule, percent of the lower of both sides.
_LEAST = 80.0
#: No re-schedule takes so long.
_TIMEOUT_SECONDS = 120.0


def measure_live(rounds: int = 7, keys: int = 30_000_000, **_: Any) -> list[Figure]:
    """A worker on each CPU; every round, all slices change their core and all data are copied.

    The figures of a round come from one run: nothing is stopped in between. The lowest sweeping
    round is told beside the lowest one of the time before, which shows what the host alone does.
    """
    keys = min(keys, _MOST_KEYS)
    spec = _native.WorkloadSpec(
        lookup=0.5, update=0.5, records=keys, seed=1, distribution="uniform"
    )
    runner = _native.Runner(spec, DEFAULT, slices=SLICES)
    runner.load()
    topology = _native.host_topology()
    cpus = np.array(topology["allowed_cpus"])
    node_of = {cpu["id"]: cpu["node"] for cpu in topology["cpus"]}

    def schedule(turn: int) -> dict[str, Any]:
        cores = cpus[(np.arange(SLICES) * cpus.size // SLICES + turn) % cpus.size]
        return {"cores": cores, "nodes": [node_of[cpu] for cpu in cores], "data": "slice"}

    during, lowest, before_lowest, seconds, moved = [], [], [], [], []
    live = runner.start(
        **schedule(0),
        worker_cpus=cpus.tolist(),
        outstanding_per_worker=256,
        warmup_seconds=1.0,
        batch=16,
        pace="aggressive",
        always_move=True,
        sweep_seconds=_SWEEP_SECONDS,
        kept_rounds=10_000,
    )
    for turn in range(1, rounds + 1):
        before = _read(live, lambda told: _length(told) >= _REST_SECONDS)
        live.change(**schedule(turn), pace="lazy")
        moving = _read(
            live,
            lambda told, t=turn: told[-1]["schedules"] == t and not told[-1]["pending_slices"].size,
        )
        # The round in which the last slice arrives belongs to both.
        after = _read(live, lambda told: _length(told) >= _REST_SECONDS)
        base = min(_rate(before), _rate(after))
        during.append(100 * _rate(moving) / base)
        lowest.append(100 * min(_rate([one]) for one in moving) / base)
        before_lowest.append(100 * min(_rate([one]) for one in before) / _rate(before))
        seconds.append(_length(moving))
        moved.append(sum(one["bytes_moved"] for one in moving) / 1e6)
    result = live.stop()
    if result["issued"] != result["executed"] or result["not_found"]:
        raise BackendError(
            f"{result['issued']} queries were sent, {result['executed']} answered, and "
            f"{result['not_found']} missed their key"
        )
    note = (
        f"{keys:,} keys, {SLICES} slices, half lookups, half updates, a worker on each of "
        f"{cpus.size} CPUs, which the other roles share; one run, {result['executed']:,} queries, "
        "none lost"
    )
    held = Figure.of("throughput during / around a lazy re-schedule", "%", during, note=note)
    return [
        held.with_goal(f">= {_LEAST:g} %", held.low >= _LEAST),
        Figure.of("lowest 0.1 s of it / around it", "%", lowest, note=note),
        Figure.of("lowest 0.1 s / mean, before it", "%", before_lowest, note=note),
        Figure.of("a lazy re-schedule of all slices", "s", seconds, note=note),
        Figure.of("data moved by it", "MB", moved, note=note),
    ]


def _read(live: _native.LiveRun, enough: Any) -> list[dict[str, Any]]:
    """Rounds until there are enough of them."""
    told: list[dict[str, Any]] = []
    while not told or not enough(told):
        one = live.next_round(_TIMEOUT_SECONDS)
        if one is None or _length(told) > _TIMEOUT_SECONDS:
            raise BackendError(f"no end of this part of a live run within {_TIMEOUT_SECONDS:g} s")
        told.append(one)
    return told


def _length(told: list[dict[str, Any]]) -> float:
    return sum(float(one["seconds"]) for one in told)


def _rate(told: list[dict[str, Any]]) -> float:
    return float(sum(one["completed"] for one in told)) / _length(told)

"""The results of the native runner and of the native models as snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from pmoss_env import _native
from pmoss_env.errors import BackendError, PlacementError
from pmoss_env.indexes import check_hint
from pmoss_env.machines import Machine
from pmoss_env.types import (
    COUNTER_INDEX,
    COUNTERS,
    BoolArray,
    Float64Array,
    HardwareSnapshot,
    LoadRegime,
)

#: Least share of the queries that a counter must have observed to be available.
_MIN_OBSERVED = 0.5


@contextmanager
def native_errors(what: str, index: str = "") -> Iterator[None]:
    """Converts errors of the native runner to typed errors.

    Args:
        what: what failed, for the message.
        index: name of the index; the message names a library and the command to check it.
    """
    try:
        yield
    except _native.ForkedError:
        raise
    except _native.PlacementRefused as error:
        raise PlacementError(str(error)) from error
    except (MemoryError, ValueError) as error:
        raise BackendError(f"{what}: {error}") from error
    except RuntimeError as error:
        hint = check_hint(index)
        raise BackendError(f"{what}: {error}" + (f". {hint}" if hint else "")) from error


def snapshot_of(
    raw: dict[str, Any], load: LoadRegime, provenance: dict[str, Any]
) -> HardwareSnapshot:
    """The snapshot of a measurement, or of one round of a run.

    Args:
        provenance: of the snapshot; the source of each counter is added as "counters".
    """
    seconds = raw["seconds"]
    queries = np.asarray(raw["slice_queries"], dtype=np.float64) / seconds / 1e6
    counters = np.zeros((queries.size, len(COUNTERS)))
    available = np.zeros(len(COUNTERS), dtype=np.bool_)
    ratio = np.zeros(len(COUNTERS))

    def fill(name: str, rates: np.ndarray, running: float) -> None:
        i = COUNTER_INDEX[name]
        counters[:, i] = rates
        available[i] = True
        ratio[i] = running

    fill("queries", queries, 1.0)
    fill("elapsed_us", np.asarray(raw["slice_service_seconds"]) / seconds, 1.0)
    extra: dict[str, Float64Array] = {}
    sources: dict[str, str] = {}
    for i, event in enumerate(raw["availability"]):
        name = event["counter"]
        sources[name] = event["source"] if event["source"] != "none" else event["reason"]
        if event["source"] == "none":
            continue
        per_query, reason = per_query_of(
            np.asarray(raw["slice_counters"])[:, i],
            np.asarray(raw["slice_counted"])[:, i],
            queries,
        )
        if reason:
            sources[name] = reason
            continue
        rates = per_query * event["scale"] * queries
        if name in COUNTER_INDEX:
            fill(name, rates, float(raw["running_ratio"][i]))
        else:
            extra[name] = rates
    sources |= {q["name"]: q["reason"] or "hardware" for q in raw["offcore"]}
    return HardwareSnapshot(
        throughput=float(raw["completed"]) / seconds / 1e6,
        slice_throughput=queries,
        slice_counters=counters,
        counters_available=available,
        running_ratio=ratio,
        offcore=np.array([quantity["gb_per_s"] for quantity in raw["offcore"]], dtype=float),
        offcore_names=tuple(quantity["name"] for quantity in raw["offcore"]),
        offcore_available=np.array([q["available"] for q in raw["offcore"]], dtype=np.bool_),
        latency_p50_us=float(raw["latency_p50_us"]),
        latency_p99_us=float(raw["latency_p99_us"]),
        load=str(load),
        provenance={**provenance, "counters": sources, "dispatch": dispatch_of(raw)},
        latency_p999_us=float(raw["latency_p999_us"]),
        latency_max_us=float(raw["latency_max_us"]),
        extra_counters=extra,
    )


def dispatch_of(raw: Mapping[str, Any]) -> dict[str, float]:
    """What became of queries on their way to the workers.

    Args:
        raw: result of the runner, or one round of a run.

    Returns:
        ``backpressure``: times that a router had to wait for room in a queue. ``unanswered``:
        queries that had come and were not done when a measurement ended. Under an open load also
        how late routers sent: ``max_lag_us`` at most, or ``lag_us`` at the end of a round; and
        ``unsent``, how many of the unanswered queries no router had sent. Response times are those
        of unanswered queries, too. For the unsent ones they are an estimate: as if these were
        served at the throughput of the measurement.
    """
    of_open_load = [name for name in ("max_lag_us", "lag_us", "unsent") if raw.get(name)]
    names = ("backpressure", "unanswered", *of_open_load)
    return {name: raw[name] for name in names if name in raw}


def rounds_of(raw: dict[str, Any]) -> dict[str, Any]:
    """The ends of sweeping rounds, and the throughput of each node in the time of its workers.

    A late sweeper collects what its workers did in a longer time. So neither the ends nor the time
    between them say how long a round was for them.
    """
    length = np.asarray(raw["node_seconds"])
    rates = np.divide(raw["queries"], length * 1e6, out=np.zeros_like(length), where=length > 0)
    return {
        "nodes": [int(node) for node in raw["nodes"]],
        "seconds": np.asarray(raw["seconds"]).tolist(),
        "node_seconds": length.tolist(),
        "node_mq_per_s": rates.tolist(),
        "offcore_gb_per_s": np.asarray(raw["offcore_gb_per_s"]).tolist(),
    }


def per_query_of(
    totals: Float64Array, counted: Float64Array, queries: Float64Array
) -> tuple[Float64Array, str]:
    """(slices,) counts of an event per query, and a reason if it is not available.

    A slice that was never counted gets the mean of the others: its core had no counter for the
    event, or the event's turns met none of its queries. If that holds for more than half of the
    queries, the event is not available.

    Args:
        totals: (slices,) counts.
        counted: (slices,) number of counted queries.
        queries: (slices,) number of all queries, in any unit.
    """
    per_query = np.divide(totals, counted, out=np.zeros_like(totals), where=counted > 0)
    missing = (counted <= 0) & (queries > 0)
    if not missing.any():
        return per_query, ""
    observed = 1.0 - queries[missing].sum() / queries.sum()
    if observed < _MIN_OBSERVED:
        return per_query, f"counted for {observed:.0%} of the queries only"
    per_query[missing] = totals.sum() / counted.sum()
    return per_query, ""


@lru_cache(maxsize=8)  # every episode begins with a snapshot
def _between_sockets(sockets: int) -> BoolArray:
    """(sockets * sockets,) whether a pair has a link."""
    pairs: BoolArray = ~np.eye(sockets, dtype=np.bool_).ravel()
    pairs.setflags(write=False)
    return pairs


def model_snapshot(
    raw: Mapping[str, Any], machine: Machine, load: LoadRegime, provenance: Mapping[str, Any]
) -> HardwareSnapshot:
    """The snapshot of a ``_native.ModelSnapshot``; missing counters are unavailable."""
    slices = len(raw["counters"]["queries"])
    counters = np.zeros((slices, len(COUNTERS)))
    available = np.zeros(len(COUNTERS), dtype=np.bool_)
    for name, column in raw["counters"].items():
        i = COUNTER_INDEX[name]
        counters[:, i] = column
        available[i] = True
    links = np.asarray(raw["link_gb_per_s"])[_between_sockets(machine.sockets)]
    offcore = np.concatenate([raw["read_gb_per_s"], raw["write_gb_per_s"], links])
    return HardwareSnapshot(
        throughput=float(raw["throughput"]),
        slice_throughput=counters[:, 0].copy(),
        slice_counters=counters,
        counters_available=available,
        running_ratio=available.astype(np.float64),
        offcore=offcore,
        offcore_names=machine.offcore_names,
        offcore_available=np.ones(offcore.size, dtype=np.bool_),
        latency_p50_us=float(raw["latency_p50_us"]),
        latency_p99_us=float(raw["latency_p99_us"]),
        load=str(load),
        provenance=dict(provenance),
    )

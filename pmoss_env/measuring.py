"""Measures several schedules on any backend, and compares what this host served under them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from pmoss_env import __version__
from pmoss_env.backends import backend_options
from pmoss_env.backends.base import Backend
from pmoss_env.backends.frames import pack_snapshot, unpack_snapshot
from pmoss_env.backends.kernel_settings import switched, why_no_balancing
from pmoss_env.baselines import Context, make_baseline
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.indexes import PLUGIN, is_plugin
from pmoss_env.machines import load_machine
from pmoss_env.plugin_recordings import library_facts
from pmoss_env.result_files import ResultFile
from pmoss_env.types import HardwareSnapshot, LoadRegime, Schedule

#: What Linux does by itself. Its automatic NUMA balancing moves what it has placed.
BALANCED = "os-default"
#: What that goes by with the kernel's setting switched, and the setting.
BALANCING = {f"{BALANCED}, AutoNUMA off": "0", f"{BALANCED}, AutoNUMA on": "1"}
#: The one of BALANCING that models have, too.
AUTO_NUMA = f"{BALANCED}, AutoNUMA on"
#: What the first schedule goes by where it is measured once more, after all others.
AGAIN = "{}, again"
#: A throughput within this share of another one is the same.
SAME = 0.05
#: Fewest sweeping rounds whose spread says how noisy a measurement is.
_LEAST_ROUNDS = 3
#: Standard errors of a 95 % interval, and of what counts as noise.
_INTERVAL, _NOISE = 1.96, 3.0


def what_runs(index: str, *, on_host: bool) -> dict[str, Any]:
    """What names do not tell: the code of a library, and which CPUs the machine "host" has.

    It belongs into the header of a result file, so that rows of others are not gone on with.

    Args:
        index: a kind, or a registered library.
        on_host: whether it runs on this host; a model needs nothing of it.
    """
    if not on_host:
        return {}
    host = load_machine("host")
    runs: dict[str, Any] = {"host": host.description, "cpus": host.cpu_of_core.tolist()}
    if is_plugin(index):
        runs["library"] = library_facts(Path(index.removeprefix(PLUGIN)))
    return runs


def balancing_rows(backend: str, nodes: int | None) -> tuple[list[str], str]:
    """The rows of BALANCING that a backend can measure; or none, and why.

    Args:
        backend: its name.
        nodes: NUMA nodes of this host; None for a model, whose default is without balancing.
    """
    if nodes is not None:
        without = why_no_balancing(nodes)
        return ([], without) if without else (list(BALANCING), "")
    if "numa_balancing" in backend_options(backend):
        return [AUTO_NUMA], ""
    return [], f"the backend {backend!r} has no option numa_balancing"


def check_one_setting(options: Mapping[str, Any]) -> None:
    """Refuses options of a backend that would decide for a name of BALANCING: DescriptionError."""
    if options.get("numa_balancing") is not None:
        raise DescriptionError(
            f"numa_balancing = {options['numa_balancing']!r}: {' and '.join(map(repr, BALANCING))} "
            "have their own setting: leave the option out, or name os-default alone"
        )


def check_balancing(
    names: Iterable[str], backend: str, nodes: int | None, options: Mapping[str, Any]
) -> None:
    """Refuses names of BALANCING that have no rows, or that options decide: DescriptionError."""
    for name in names:
        if name in BALANCING:
            check_one_setting(options)
            if without := balancing_rows(backend, nodes)[1]:
                raise DescriptionError(f"{name!r}: {without}: name os-default alone")


def round_error(snapshot: HardwareSnapshot) -> float | None:
    """Relative standard error of a throughput over sweeping rounds; None with too few of them.

    A round weighs as much as it is long. After a late sweep the next ones are short, and these are
    not counted among the rounds.
    """
    rounds = snapshot.provenance.get("rounds", {})
    of_nodes = np.array(rounds.get("node_seconds", ()))
    if not of_nodes.size:
        return None
    # Each node has a sweeper of its own: in a round one node may be late and others not.
    served = (np.array(rounds["node_mq_per_s"]) * of_nodes).sum(axis=1)
    lengths = of_nodes.mean(axis=1)
    count = int(np.count_nonzero(lengths > 0.5 * lengths.mean()))
    if count < _LEAST_ROUNDS or not served.sum() > 0:
        return None
    rate = served.sum() / lengths.sum()
    spread = math.sqrt(count / (count - 1) * np.square(served - rate * lengths).sum())
    return float(spread / served.sum())


def busy_share(snapshot: HardwareSnapshot) -> float | None:
    """Share of the time spent on queries in which the workers had their CPUs; None if unknown.

    Other programs have the rest.
    """
    clock, elapsed = (snapshot.counter(name).sum() for name in ("task_clock_us", "elapsed_us"))
    return float(clock / elapsed) if clock > 0 and elapsed > 0 else None


def tolerance(first: HardwareSnapshot, second: HardwareSnapshot) -> float:
    """Relative difference of two throughputs that is noise: SAME, or more where rounds differ."""
    errors = [round_error(snapshot) or 0.0 for snapshot in (first, second)]
    return max(SAME, _NOISE * math.hypot(*errors))


def dispatched(snapshot: HardwareSnapshot) -> Mapping[str, float]:
    """What this host's routers did, see native_counts.dispatch_of(); empty of a model."""
    dispatch = snapshot.provenance.get("dispatch")
    # A simulated server names the kind of its routers there.
    return dispatch if isinstance(dispatch, Mapping) else {}


def overload_in_words(snapshot: HardwareSnapshot) -> str:
    """What an open load offered and what was served, if that differs; empty otherwise."""
    load = LoadRegime.parse(snapshot.load)
    offered, served = load.offered_mq_per_s, snapshot.throughput
    if load.kind != "open" or served >= (1 - SAME) * offered:
        return ""
    # The number of arrivals has a standard deviation of the root of its mean.
    seconds = snapshot.provenance.get("seconds")
    if seconds and served >= offered - _NOISE * math.sqrt(offered / seconds / 1e6):
        return ""
    text = f"overload: {offered:,g} Mq/s were offered and {served:,.3g} served"
    dispatch = dispatched(snapshot)
    lag = dispatch.get("max_lag_us", dispatch.get("lag_us"))
    if lag:
        text += f"; routers fell {1e-3 * lag:,.0f} ms behind"
    if dispatch.get("backpressure"):
        text += f" and waited {dispatch['backpressure']:,} times for room in a queue"
    if dispatch.get("unanswered"):
        text += f". {dispatch['unanswered']:,} queries were not answered at the end"
    if dispatch.get("unsent"):
        text += (
            f", {dispatch['unsent']:,} of them not even sent: their response times are estimates"
        )
    return f"{text}. Response times grow for as long as the load lasts"


@dataclass(frozen=True)
class Comparison:
    """What a schedule served, relative to one that was measured before and after it.

    Attributes:
        again_mq_per_s: throughput of the other schedule after it, Mq/s.
        records: in the index at the beginning of each measurement, in their order.
        ratio: throughput over the mean of the other schedule's.
        error: standard error of its logarithm: by the spread of the sweeping rounds, and by half
            the difference of the other schedule's measurements. Infinite if unknown: of too few
            rounds, or where the other schedule served nothing.
    """

    again_mq_per_s: float
    records: tuple[int, ...]
    ratio: float
    error: float

    @classmethod
    def of(
        cls, before: HardwareSnapshot, middle: HardwareSnapshot, again: HardwareSnapshot
    ) -> Comparison:
        """Compares ``middle`` with the same schedule before and after it."""
        ends = [before.throughput, again.throughput]
        of_rounds = [round_error(snapshot) for snapshot in (before, middle, again)]
        errors = [math.inf if error is None else error for error in of_rounds]
        drift = math.log(ends[1] / ends[0]) / 2 if min(ends) > 0 else math.inf
        return cls(
            again.throughput,
            tuple(
                int(snapshot.provenance.get("records_before", 0))
                for snapshot in (before, middle, again)
            ),
            middle.throughput / fmean(ends) if min(ends) > 0 else math.nan,
            math.hypot(errors[0] / 2, errors[1], errors[2] / 2, drift),
        )

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the ratio."""
        return interval_of(self.ratio, self.error)

    def plain(self) -> dict[str, Any]:
        """As plain JSON, with the interval; null where nothing was served."""
        low, high = self.interval
        plain = {**asdict(self), "ratio_low": low, "ratio_high": high}
        return {
            name: value if isinstance(value, tuple) or math.isfinite(value) else None
            for name, value in plain.items()
        }


def interval_of(ratio: float, error: float) -> tuple[float, float]:
    """The 95 % interval of a ratio whose logarithm has a standard error."""
    if not math.isfinite(error):
        return 0.0, math.inf
    return ratio * math.exp(-_INTERVAL * error), ratio * math.exp(_INTERVAL * error)


def mean_ratio(ratios: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and its 95 % interval.

    The interval is the wider one of two: by the errors of the ratios, and by their spread. Where
    an error is unknown, the spread of at least three counts.

    Args:
        ratios: at least one, each with the standard error of its logarithm; positive.
    """
    logs = [math.log(ratio) for ratio, _ in ratios]
    error = math.hypot(*(error for _, error in ratios)) / len(logs)
    if len(logs) > 1:
        spread = stdev(logs) / math.sqrt(len(logs))
        unknown = math.isinf(error) and len(logs) >= _LEAST_ROUNDS
        error = spread if unknown else max(error, spread)
    mean = math.exp(fmean(logs))
    return mean, *interval_of(mean, error)


def ratio_in_words(ratio: float | None, low: float | None, high: float | None) -> str:
    """A ratio and its interval, as tables show it; empty where nothing was served."""
    if not ratio or not math.isfinite(ratio):
        return ""
    if low is None or high is None or not math.isfinite(high):
        return f"{ratio:.2f} [?]"
    return f"{ratio:.2f} [{low:.2f}, {high:.2f}]"


def measure_schedules(
    backend: Backend,
    names: Sequence[str],
    *,
    seed: int,
    again: bool = False,
    balanced: Backend | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_schedule: Callable[[str, Schedule], None] | None = None,
) -> dict[str, HardwareSnapshot]:
    """Measures baselines by name; those that read counters read Grouped's snapshot.

    Args:
        names: of baselines, or of BALANCING.
        again: whether the first schedule is measured once more, at the end.
        balanced: a model like ``backend``, but with automatic NUMA balancing on, where ``names``
            have AUTO_NUMA; this host is switched for the names of BALANCING instead.
        progress: called with (measured so far, to measure).
        on_schedule: called with (name, schedule) before each is measured.

    Returns:
        The snapshots in the order of ``names``, and one of the name AGAIN if asked for.

    Raises:
        UnsupportedError: a model has to measure AUTO_NUMA without ``balanced``.
        BackendError: this host's setting cannot be switched.
    """
    if AUTO_NUMA in names and balanced is None and not backend.measures_host:
        raise UnsupportedError(
            f"{AUTO_NUMA!r}: another backend measures it: give balanced=, made with "
            "numa_balancing=True"
        )
    machine, slices = backend.machine, backend.slices
    rules = [BALANCED if name in BALANCING else name for name in names]
    chosen = [
        (name, make_baseline(rule, shared=True)) for name, rule in zip(names, rules, strict=True)
    ]
    total = len(chosen) + 1 + again
    first = make_baseline("grouped")(Context(machine, slices))
    incumbent = backend.measure(first, seed=seed)
    snapshots, schedules = {}, {}
    for done, (name, baseline) in enumerate(chosen, start=1):
        if progress:
            progress(done, total)
        rng = np.random.default_rng([seed, done])
        schedules[name] = baseline(Context(machine, slices, first, incumbent, rng, backend))
        if on_schedule and name not in BALANCING:
            on_schedule(name, schedules[name])
        setting, subject = BALANCING.get(name), backend
        if not backend.measures_host:
            setting, subject = None, balanced if balanced and name == AUTO_NUMA else backend
        with switched({"numa_balancing": setting}):
            snapshots[name] = subject.measure(schedules[name], seed=seed + done)
    if again:
        if progress:
            progress(total - 1, total)
        snapshots[AGAIN.format(names[0])] = backend.measure(schedules[names[0]], seed=seed + 1)
    if progress:
        progress(total, total)
    return snapshots


def measure_rounds(
    backend: Backend,
    names: Sequence[str],
    *,
    rounds: int,
    seed: int,
    again: bool = False,
    balanced: Backend | None = None,
    out: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    on_snapshot: Callable[[int, str, HardwareSnapshot], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_schedule: Callable[[str, Schedule], None] | None = None,
) -> list[dict[str, HardwareSnapshot]]:
    """Measures baselines in several rounds, so that changes of the host affect all of them.

    Args:
        seed: of the baselines and the measurements; each round has its own.
        again: whether each round ends with its first schedule, see measure_schedules().
        balanced: see measure_schedules().
        out: file of rows, one per snapshot; complete rounds of the file are not measured again.
        settings: further settings that must be the same to continue ``out``.
        on_snapshot: called with (round, name, snapshot), also for snapshots of the file.
        progress: of a round; called with (measured so far, to measure).

    Returns:
        The snapshots of each round, see measure_schedules().

    Raises:
        DatasetError: ``out`` holds results of other settings.
    """
    header = {
        "kind": "measure",
        "version": __version__,
        "schedules": list(names),
        "seed": seed,
        "index": backend.workload.index,
        **what_runs(backend.workload.index, on_host=backend.measures_host),
        **(settings or {}),
    }
    result = []
    wanted = [*names, *([AGAIN.format(names[0])] if again else [])]
    with ResultFile(out, header, key=("round", "schedule")) as file:
        for number in range(rounds):
            rows = [file.get(number, name) for name in wanted]
            if all(rows):
                snapshots = {
                    row["schedule"]: unpack_snapshot(row["snapshot"]) for row in rows if row
                }
            else:
                snapshots = measure_schedules(
                    backend,
                    names,
                    seed=seed + 1000 * number,
                    again=again,
                    balanced=balanced,
                    progress=progress,
                    on_schedule=on_schedule,
                )
                for name, snapshot in snapshots.items():
                    if file.get(number, name) is None:
                        plain = pack_snapshot(snapshot)
                        file.append({"round": number, "schedule": name, "snapshot": plain})
            for name, snapshot in snapshots.items():
                if on_snapshot:
                    on_snapshot(number, name, snapshot)
            result.append(snapshots)
    return result

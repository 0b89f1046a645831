"""The error card of migration: the analytic model beside the simulator, while slices move.

Both move the same slices of the same index under the same co-tenants. Pairs of about the same load
change places, so that cores stay as balanced as they were, and only the migration itself is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.combinations import Combined, model_and_server
from pmoss_benchmarks.study.function import Cell, Row, Run, check_counts
from pmoss_env.backends.native_forms import native_interference, native_machine
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.baselines import Context, grouped, lpt, slice_load
from pmoss_env.envs.continual.drift import Conditions
from pmoss_env.envs.continual.running import Migration, RunningIndex
from pmoss_env.errors import DescriptionError
from pmoss_env.interference import draw_co_tenants
from pmoss_env.types import Float64Array, Instance, Int32Array

#: What the project wants: at most this relative error of the time, and of what is served meanwhile.
GOAL = 0.10
#: Queries that are served before slices move, as a share of all.
_WARMUP = 0.25

Move = tuple[int, int]
Pieces = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Settings(Combined):
    """What the rows depend on.

    Attributes:
        trials: moves of different slices.
        pairs: of slices that change places in each.
        record_bytes: that move with a record.
        queries: that the simulator executes in each trial.
        slices: of the index.
        seed: of the moves, the co-tenants and the workload instance.
    """

    trials: int = 10
    pairs: int = 2
    record_bytes: float = 100.0
    queries: int = 4_000_000
    slices: int = 256
    seed: int = 1

    def __post_init__(self) -> None:
        check_counts(self, "trials", "pairs", "queries", "slices")
        Migration(self.record_bytes)


def cells(settings: Settings) -> list[Cell]:
    """Every machine under every workload, beside every family of co-tenants."""
    return settings.cells()


def measure(run: Run, cell: Cell) -> Row:
    """The card of one cell."""
    options = run.settings
    queries = {"queries": options.queries}
    model, simulated = model_and_server(cell, options.slices, queries)
    assert isinstance(simulated, SimulatedBackend)
    rng = np.random.default_rng(options.seed)
    co_tenants = draw_co_tenants(cell["interference"], model.machine, rng)
    for backend in (model, simulated):
        backend.set_instance(Instance(options.seed, co_tenants))
    incumbent = grouped(Context(model.machine, options.slices))
    snapshot = model.measure(incumbent, seed=0)
    balanced = lpt(Context(model.machine, options.slices, incumbent, snapshot, rng))
    machine, load = native_machine(model.machine), simulated.load
    server = simulated.new_server(machine, warmup_share=_WARMUP)
    server.set_instance(simulated.trace(), native_interference(co_tenants, machine))
    before = server.run(balanced.cores, balanced.nodes)["throughput"]
    trials = []
    for _ in range(options.trials):
        moves = exchanges(balanced.cores, slice_load(snapshot), balanced.nodes, options.pairs, rng)
        index = RunningIndex(
            model.machine,
            machine,
            [simulated.workload],
            options.slices,
            load,
            Migration(options.record_bytes),
        )
        index.begin(options.seed, Conditions(co_tenants), balanced.cores)
        was = index.run(Conditions(co_tenants), 1.0).queries
        for slice_, core in moves:
            index.move(slice_, core)
        # Longer than all copies: a piece for each, in their order, and one after them.
        predicted = index.run(Conditions(co_tenants), 60.0).pieces
        moved = [(slice_, core, float(index.slice_bytes[slice_])) for slice_, core in moves]
        copied = server.migrate(balanced.cores, balanced.nodes, moved)
        arrived = len(moves) - copied["pending"]
        if not arrived:
            raise DescriptionError(
                f"queries = {options.queries}: on {cell['machine']} no data are there when they "
                "have been served; ask for more, or for fewer bytes per record"
            )
        trials.append(_trial(predicted[:arrived], was, copied["pieces"][:-1], before))
    model.close()
    simulated.close()
    return card(trials)


def exchanges(
    cores: Int32Array, load: Float64Array, nodes: Int32Array, pairs: int, rng: np.random.Generator
) -> list[Move]:
    """Moves by which slices of different nodes, and of about the same load, change places.

    Args:
        cores: (slices,) that serve them.
        load: (slices,) of each.
        nodes: (slices,) that hold their data.
        pairs: how many.
        rng: the only source of chance.

    Raises:
        DescriptionError: there are not as many pairs.
    """
    order = np.argsort(load, kind="stable")
    moves: dict[int, int] = {}
    for at in rng.permutation(order.size - 1):
        first, second = int(order[at]), int(order[at + 1])
        if nodes[first] == nodes[second] or first in moves or second in moves:
            continue
        moves[first], moves[second] = int(cores[second]), int(cores[first])
        if len(moves) == 2 * pairs:
            return list(moves.items())
    raise DescriptionError(f"pairs = {pairs}: only {len(moves) // 2} slices can change places")


def _trial(predicted: Pieces, was: float, measured: Pieces, before: float) -> dict[str, float]:
    """Times (ms), and what is served while data move, as a share of what was served before.

    Args:
        predicted: a piece for each copy that ends while the simulator runs.
        was: Mq/s before, by the model.
        measured: the same copies, by the simulator.
        before: Mq/s before, by the simulator.
    """
    return {
        "model_ms": 1e3 * sum(seconds for seconds, _ in predicted),
        "simulated_ms": 1e3 * sum(seconds for seconds, _ in measured),
        "model_share": _later(predicted) / was,
        "simulated_share": _later(measured) / before,
    }


def _later(pieces: Pieces) -> float:
    """Mq/s in the second half of the pieces: queues have got used to the new schedule by then."""
    half = pieces[len(pieces) // 2 :]
    return sum(seconds * rate for seconds, rate in half) / sum(seconds for seconds, _ in half)


def card(trials: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The statistics of one cell.

    Returns:
        ``time_error`` and ``served_error``: relative, each with its median, the median of its size
        and the 95th percentile of that. ``model_dip`` and ``simulated_dip``: what is not served
        while data move, as a share of what was served before, in the mean. ``within``: whether both
        median sizes are at most GOAL. ``trials``: of every trial.
    """
    columns = {key: np.array([trial[key] for trial in trials]) for key in trials[0]}
    time = columns["model_ms"] / columns["simulated_ms"] - 1
    served = columns["model_share"] / columns["simulated_share"] - 1
    errors = {"time_error": _sizes(time), "served_error": _sizes(served)}
    return {
        **errors,
        "model_dip": float(1 - columns["model_share"].mean()),
        "simulated_dip": float(1 - columns["simulated_share"].mean()),
        "simulated_ms": float(columns["simulated_ms"].mean()),
        "within": all(error["size"] <= GOAL for error in errors.values()),
        "trials": [
            {key: float(f"{value:.5g}") for key, value in trial.items()} for trial in trials
        ],
    }


def _sizes(error: Float64Array) -> dict[str, float]:
    size = np.abs(error)
    return {
        "median": float(np.median(error)),
        "size": float(np.median(size)),
        "p95": float(np.quantile(size, 0.95)),
    }


def missed(row: dict[str, Any]) -> list[str]:
    """What of a row is above the wanted error: "time", "served"."""
    sizes = {"time": row["time_error"]["size"], "served": row["served_error"]["size"]}
    return [name for name, size in sizes.items() if size > GOAL]

"""Switches for the other two papers' figures, and how far the estimates of a mesh reach.

Figures of threads and of scans that lie outside have a cause in words. Each case here changes one
condition and asks for the same figures again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents import Agent
from pmoss_agents.access_path.linear_cost import LinearCost
from pmoss_agents.threads import run_episode
from pmoss_agents.threads.bandits import ThreadLinUCB
from pmoss_benchmarks.access_path.models import score
from pmoss_benchmarks.threads.comparison import LEARNED, METHODS, learned
from pmoss_benchmarks.threads.reproduction import P99_REQUESTS
from pmoss_benchmarks.threads.studies import MACHINE, PATTERNS, bandwidth_gap, settled_after
from pmoss_datasets.access_path.scans import AccessPathRecipe, pairs_of, simulate
from pmoss_env.envs.access_path import FEATURES
from pmoss_env.envs.threads import ThreadSchedulingEnv
from pmoss_env.machines import load_machine
from pmoss_env.machines.catalog import PRESETS
from pmoss_env.machines.importing.toml_text import machine_toml

#: Of the threads: options of the environment. But "times" as many requests where latency is asked,
#: "ridge" is the bandit's, and "parameters" are factors of the machine's.
THREAD_CAUSES: Mapping[str, Mapping[str, Any]] = {
    "as judged": {},
    "20 threads": {"threads": 20},
    "72 threads": {"threads": 72},
    "eight decisions a second": {"epoch_seconds": 0.125},
    "ten times the requests": {"times": 10},
    "a tenth of the regularisation": {"ridge": 0.1},
    "page faults half as long again": {"parameters": {"page_fault_ns": 1.5}},
    "remote reads twice as slow": {"parameters": {"slow_remote_read_ratio": 2.0}},
    "half of the link": {"parameters": {"link_gb_per_s": 0.5}},
}
#: Bandits whose figures are told: one that knew nothing, and one that has learned before.
BANDITS = ("linucb", LEARNED)
_READS = ("readrandom", "readseq")
_OTHERS = ("scheduling-domain", "rule")
_MIXES = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)

#: Of the scans: the pair's config, and which scans it learns from and is scored on.
SCAN_CAUSES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "as judged": ({}, "all"),
    "products": ({"features": "products"}, "all"),
    "products, relative errors": ({"features": "products", "weighted": True}, "all"),
    "one distance": ({}, "of another blade"),
    "no other use of the engine": ({}, "beside an idle engine"),
    "large columns": ({}, "of large columns"),
}
_COMBINATIONS, _REPEATS = 800, 2
_LARGE_MB = 100.0

#: Shapes that 72 cores could have on a mesh: rows, columns, cores at a stop.
MESHES = ((6, 6, 2), (4, 9, 2), (6, 7, 2), (8, 9, 1))
HOPS_NS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
_MESH = "grace-hopper-mesh"


def thread_causes(case: str, seeds: int) -> dict[str, Any]:
    """Figures of the paper on threads, under one of THREAD_CAUSES.

    Returns:
        "got": by a policy of BANDITS and statement, as threads/reproduction.py has them; what no
        bandit decides is under "machine".
    """
    changes = dict(THREAD_CAUSES[case])
    ridge, times = changes.pop("ridge", 1.0), changes.pop("times", 1)
    with TemporaryDirectory() as folder:
        if factors := changes.pop("parameters", {}):
            changes["machine"] = str(_changed(Path(folder), factors))
        made = {"linucb": ThreadLinUCB(ridge=ridge), LEARNED: _experienced()}
        made |= {name: pmoss_agents.make(METHODS[name]) for name in _OTHERS}
        runs = {
            program: {name: _runs(one, program, seeds, changes) for name, one in made.items()}
            for program in PATTERNS
        }
        short = {**changes, "requests": times * P99_REQUESTS}
        late = {name: _runs(one, "fillrandom", seeds, short) for name, one in made.items()}
        got: dict[str, dict[str, float]] = {
            name: {**_times(runs, name), **_latencies(late, name)} for name in BANDITS
        }
        for program in PATTERNS:
            words = f"decisions until the width of any action has settled, {program}"
            bandit = deepcopy(made["linucb"])
            assert isinstance(bandit, ThreadLinUCB)
            run_episode(ThreadSchedulingEnv(program=program, **changes), bandit, seed=0)
            got["linucb"][words] = settled_after(bandit.widths)
        gap = bandwidth_gap(0, _MIXES, machine=changes.get("machine", MACHINE))
    return {"got": {**got, "machine": {"local / remote bandwidth of DRAM, largest": gap}}}


@cache
def _experienced() -> Agent:
    return learned()


def _changed(folder: Path, factors: Mapping[str, float]) -> Path:
    """A file of the machine with some parameters multiplied."""
    data = tomllib.loads((PRESETS / f"{MACHINE}.toml").read_text(encoding="utf-8"))
    for name, factor in factors.items():
        data["parameters"][name]["value"] *= factor
    path = folder / f"{MACHINE}.toml"
    path.write_text(machine_toml(data), encoding="utf-8")
    return path


def _runs(
    agent: Agent, program: str, seeds: int, options: Mapping[str, Any]
) -> list[dict[str, float]]:
    return [
        run_episode(ThreadSchedulingEnv(program=program, **options), deepcopy(agent), seed=seed)
        for seed in range(seeds)
    ]


def _mean(runs: list[dict[str, float]], what: str = "seconds") -> float:
    return float(np.mean([run[what] for run in runs]))


def _times(runs: Mapping[str, Mapping[str, list[dict[str, float]]]], bandit: str) -> dict[str, Any]:
    """Figures of F16 with a bandit in the place of the paper's."""

    def over(program: str, first: str, second: str) -> float:
        return _mean(runs[program][first]) / _mean(runs[program][second])

    def loss(program: str) -> float:
        best = min(_mean(runs[program][name]) for name in (*_OTHERS, bandit))
        return _mean(runs[program][bandit]) / best - 1.0

    return {
        "reads: time saved by linucb against scheduling-domain, best": max(
            1.0 - over(program, bandit, "scheduling-domain") for program in _READS
        ),
        "reads: rule / linucb - 1, best": max(
            over(program, "rule", bandit) - 1.0 for program in _READS
        ),
        "four patterns: linucb / the best method - 1, worst": max(map(loss, PATTERNS)),
    }


def _latencies(runs: Mapping[str, list[dict[str, float]]], bandit: str) -> dict[str, float]:
    """Figures of F17."""
    mine = _mean(runs[bandit], "p99_ms")
    return {
        f"fillrandom, 960k requests: P99 saved against {other}": 1.0
        - mine / _mean(runs[other], "p99_ms")
        for other in _OTHERS
    }


def scan_causes(case: str) -> dict[str, Any]:
    """Figures of the paper on scans, under one of SCAN_CAUSES.

    Returns:
        "scans": how many there were; "got": by statement, as access_path/reproduction.py has them.
    """
    config, which = SCAN_CAUSES[case]
    features, times = _scans()
    size, latency, engine = (
        features[:, list(FEATURES).index(name)]
        for name in ("data_size", "latency", "engine_traffic")
    )
    chosen = {
        "all": np.ones(len(features), dtype=np.bool_),
        "of another blade": latency == latency.max(),
        "beside an idle engine": engine == 0.0,
        "of large columns": size >= _LARGE_MB,
    }[which]
    features, times = features[chosen], times[chosen]
    # The first four fifths to learn from: combinations are drawn in no order.
    cut = len(features) * 4 // 5 // _REPEATS * _REPEATS
    agent = LinearCost(**config)
    agent.learn(features[:cut], times[:cut])
    found = score(case, agent, features[cut:], times[cut:])
    return {
        "scans": len(features),
        "got": {
            "R2 of the CPU model": found.r2["cpu"],
            "R2 of the GRU model": found.r2["offload"],
            "precision of the pair": found.precision,
            "recall of the pair": found.recall,
            "F1 of the pair": found.f1,
        },
    }


@cache
def _scans() -> tuple[Any, Any]:
    return pairs_of(simulate(AccessPathRecipe(combinations=_COMBINATIONS, repeats=_REPEATS)))


def mesh_figures() -> dict[str, Any]:
    """The farthest two cores of Grace Hopper over the nearest two, by shape of its mesh and hop.

    Returns:
        "hops" in ns; by shape of the mesh the "ratio" at each; "used", the preset's two.
    """
    machine = load_machine(_MESH)
    mean = machine.parameter("modified_same_llc_ns")
    own = machine.mesh
    assert own is not None
    ratio = {}
    for rows, cols, cores in MESHES:
        ratios = []
        for hop in HOPS_NS:
            mesh = replace(
                own,
                rows=rows,
                cols=cols,
                cores_per_stop=cores,
                hop_ns=replace(own.hop_ns, value=hop),
            )
            changed = replace(machine, mesh=mesh)
            far, near = (mean + changed.mesh_ns[1][pair] for pair in changed.mesh_ends)
            ratios.append(float(far / near))
        ratio[_shape(rows, cols, cores)] = ratios
    return {
        "hops": list(HOPS_NS),
        "ratio": ratio,
        "used": [_shape(own.rows, own.cols, own.cores_per_stop), own.hop_ns.value],
    }


def _shape(rows: int, cols: int, cores: int) -> str:
    return f"{rows} x {cols} stops, {cores} core{'s' if cores > 1 else ''} each"

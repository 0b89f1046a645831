"""Random machines for studies of generalisation: plausible, valid, and determined by a seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmoss_env.machines.description import Machine
from pmoss_env.machines.parameters import PARAMETERS

#: Names for load_machine(): "random:7"; "random-smt:7" with two threads per core; "random-partly:7"
#: with workers on only some of the second threads.
PREFIX, SMT_PREFIX, PARTLY_PREFIX = "random:", "random-smt:", "random-partly:"
PREFIXES = (PREFIX, SMT_PREFIX, PARTLY_PREFIX)


def random_machine(seed: int, *, smt: bool = False, partly: bool = False) -> Machine:
    """A random server with the name "random:<seed>".

    All values are drawn independently and uniformly from ranges of servers sold from 2012 to 2023:

    - 1, 2 or 4 sockets of 1, 2 or 4 nodes, at most 8 nodes; 4 to 16 cores per node, all but two of
      them workers; four sockets form a clique or a ring;
    - a last-level cache per node or half node, of 1 to 4 MiB per core; it holds evicted lines of
      the L2 or, for a small L2, includes the L2; an L2 of 256 KiB to 2 MiB;
    - clock 2.2 to 3.6 GHz; memory at 75 to 130 ns, 1.05 to 1.25 times that from another node of the
      socket, 1.5 to 2.1 times per link crossed; 2 to 6 GB/s per core reading, half to 0.8 of that
      writing; links of 8 to 40 GB/s.

    Args:
        seed: 0 or more.
        smt: the same server with two hardware threads per core, all listed as cores, and the name
            "random-smt:<seed>". Beside a busy sibling a thread keeps 0.5 to 0.75 of its speed.
        partly: the same as ``smt``, but a random non-empty subset of the second threads are
            workers, equal on all nodes; with the name "random-partly:<seed>".
    """
    smt = smt or partly
    rng = np.random.default_rng([seed, 0x6D616368])

    def between(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 3)

    def choose(*values: int) -> int:
        return int(rng.choice(values))

    sockets = choose(1, 2, 4)
    nodes_per_socket = choose(1, 2, 4) if sockets < 4 else choose(1, 2)
    nodes = sockets * nodes_per_socket
    cores = choose(4, 6, 8, 10, 12, 14, 16)
    per_llc = cores // choose(1, 2)
    l2_kib = choose(256, 512, 1024, 2048)
    clock = between(2.2, 3.6)
    llc_ns = between(11, 30)
    local = between(75, 130)
    near = local * between(1.05, 1.25)
    hop = local * between(1.5, 2.1)
    modified = llc_ns + between(5, 25)
    read = cores * between(2, 6)
    link = between(8, 40)
    ring = sockets == 4 and choose(0, 1) == 1
    values: dict[str, Any] = {
        "clock_ghz": clock,
        "instructions_per_cycle": between(1.8, 2.6),
        "branch_miss_cycles": between(12, 20),
        "mlp_dependent": between(1.15, 1.6),
        "mlp_streaming": between(4, 9),
        "l2_kib": l2_kib,
        "l2_ways": 8,
        "l2_ns": 9 / clock,
        "llc_kib": per_llc * 1024 * choose(1, 2, 4),
        "llc_ways": 16,
        "llc_ns": llc_ns,
        "llc_inclusive": int(l2_kib == 256),
        "llc_at_home_cluster": int(nodes_per_socket > 1 and per_llc == cores and choose(0, 1)),
        "modified_same_llc_ns": modified,
        "modified_same_socket_ns": modified * between(1.2, 3),
        "modified_other_socket_ns": hop * between(0.8, 1.1),
        "modified_home_reader_ns": between(0, 60),
        "dram_local_ns": local,
        "dram_same_socket_ns": near,
        "dram_other_socket_ns": hop,
        "dram_gb_per_s": read,
        "dram_write_gb_per_s": read * between(0.5, 0.8),
        "curve_a": between(0.2, 0.55),
        "curve_b": between(0.005, 0.1),
        "curve_c": choose(2, 12),
        "link_gb_per_s": link,
        "link_curve_a": between(0.15, 0.3),
        "link_curve_b": between(0.02, 0.1),
        "link_curve_c": 1.5,
        "dtlb_pages": 64,
        "tlb_pages": choose(512, 1024, 1536, 2048),
        "tlb_ns": 8 / clock,
        "page_walk_ns": between(10, 25),
        "page_bytes": 4096,
        "dispatch_ns": between(100, 10_000),
    }
    if ring:
        values |= _ring(link, local, hop, values["modified_other_socket_ns"])
    if smt:
        values["smt_share"] = _smt_share(seed)
    listed = cores * (2 if smt else 1)
    workers = _workers(seed, cores, listed, partly)
    prefix = PARTLY_PREFIX if partly else SMT_PREFIX if smt else PREFIX
    return Machine.from_dict(
        {
            "name": f"{prefix}{seed}",
            "description": f"made up from seed {seed}: {sockets} sockets, {nodes} nodes, "
            f"{nodes * listed} cores, {nodes * len(workers)} workers",
            "topology": _topology(sockets, nodes_per_socket, cores, per_llc, listed),
            "roles": {"router": [0], "sweeper": [1], "worker": workers},
            "parameters": {name: _made_up(name, value, seed) for name, value in values.items()},
        }
    )


def _smt_share(seed: int) -> float:
    """Drawn from a stream of its own, so that all other values stay the same."""
    return round(float(np.random.default_rng([seed, 0x736D74]).uniform(0.5, 0.75)), 3)


def _ring(link: float, local: float, hop: float, modified: float) -> dict[str, Any]:
    """The additional parameters of four sockets in a ring."""
    return {
        "link_gb_per_s": [
            [link if abs(a - b) in (1, 3) else 0.0 for b in range(4)] for a in range(4)
        ],
        "dram_two_hops_ns": 2 * hop - local,
        "modified_two_hops_ns": modified + hop - local,
    }


def _workers(seed: int, cores: int, listed: int, partly: bool) -> list[int]:
    """The numbers of a node's workers within the node."""
    if not partly:  # a router's and a sweeper's siblings stay idle
        return [core for core in range(listed) if core % cores > 1]
    # A stream of its own. The sibling of a router or sweeper may be a worker.
    rng = np.random.default_rng([seed, 0x70617274])
    second = rng.choice(cores, int(rng.integers(1, cores)), replace=False)
    return [*range(2, cores), *sorted((cores + second).tolist())]


def _topology(
    sockets: int, nodes_per_socket: int, cores: int, per_llc: int, listed: int
) -> dict[str, Any]:
    """The ``[topology]`` table, with ``listed`` hardware threads on ``cores`` cores per node."""
    nodes = sockets * nodes_per_socket
    table: dict[str, Any] = {
        "sockets": sockets,
        "nodes_per_socket": nodes_per_socket,
        "cores_per_node": listed,
        "cores_per_llc": per_llc,
        "grid": [nodes, listed] if nodes > 1 else [2, math.ceil(listed / 2)],
    }
    if listed > cores:
        table["threads_per_core"] = listed // cores
        # Siblings share a cache; their numbers differ by the number of cores.
        del table["cores_per_llc"]
        table["llc_of_core"] = [
            node * (cores // per_llc) + core % cores // per_llc
            for node in range(nodes)
            for core in range(listed)
        ]
    return table


def _made_up(name: str, value: Any, seed: int) -> dict[str, Any]:
    """A parameter of a machine file."""
    unit = PARAMETERS[name].unit
    return {"value": value, "unit": unit, "source": f"made up, seed {seed}", "confidence": "low"}

"""The parameters of an imported server: read values, and guesses for the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from pmoss_env.machines.catalog import load_machine
from pmoss_env.machines.description import Machine
from pmoss_env.machines.importing.layout import Layout, lay_out, slit_matrix
from pmoss_env.machines.importing.server_facts import Fact, ServerFacts
from pmoss_env.machines.parameters import PARAMETERS
from pmoss_env.types import BoolArray, Int32Array

#: Parameters guessed as the median of the presets.
_PLAIN = (
    "instructions_per_cycle",
    "branch_miss_cycles",
    "mlp_dependent",
    "mlp_streaming",
    "llc_ns",
    "curve_a",
    "curve_b",
    "curve_c",
    "dtlb_pages",
    "tlb_pages",
    "page_walk_ns",
    "page_bytes",
    "dispatch_ns",
)
_PLAIN_OF_LINKS = ("link_curve_a", "link_curve_b", "link_curve_c", "modified_home_reader_ns")
#: Below this an Intel L2 belongs to a generation whose last-level cache is inclusive.
_SMALL_L2_KIB = 512
#: The presets by the vendors of their processors.
PEERS = {
    "Intel": ("sandy-bridge", "skylake-x-4n", "skylake-x-8n", "uv-300h", "xeon-6240m-optane"),
    "AMD": ("milan-nps1", "milan-nps4", "rome-7302"),
    "Arm": ("grace-hopper",),
}
#: The vendor by the name that a processor reports; 0x41 is Arm's number.
_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "0x41": "Arm", "ARM": "Arm"}
LINE_KIB = 64 / 1024


def describe_server(server: ServerFacts, name: str) -> dict[str, Any]:
    """The argument of ``Machine.from_dict`` for an imported server."""
    guesses = Guesses(server.vendor)
    layout = lay_out(server, split_by_node=guesses.vendor == "Intel")
    facts = _cores(server, layout, guesses)
    facts |= _caches(server, layout, guesses)
    facts |= _modified(layout, guesses)
    entries = {key: _entry(key, fact) for key, fact in facts.items()}
    entries |= _memory(server, layout, guesses)
    if layout.sockets > 1:
        entries["link_gb_per_s"] = _links(layout, guesses)
    roles = layout.roles()
    workers = sum(len(node) for node in roles["worker"])
    gib = sum(server.memory_bytes) / 2**30
    memory = f" with {gib:.0f} GiB" if all(server.memory_bytes) else ""
    return {
        "name": name,
        "description": f"{server.model}, imported from {server.origin}: {layout.sockets} "
        f"socket(s), {len(server.nodes)} node(s){memory}, {layout.node.size} hardware threads, "
        f"{workers} workers",
        "topology": layout.topology(),
        "roles": roles,
        "parameters": {key: entries[key] for key in PARAMETERS if key in entries},
    }


def _entry(name: str, fact: Fact, value: Any = None) -> dict[str, Any]:
    number = float(round(fact.value)) if PARAMETERS[name].whole else fact.value
    return {
        "value": number if value is None else value,
        "unit": PARAMETERS[name].unit,
        "source": fact.source,
        "confidence": fact.confidence,
    }


def _cores(server: ServerFacts, layout: Layout, guesses: Guesses) -> dict[str, Fact]:
    names = _PLAIN + (_PLAIN_OF_LINKS if layout.sockets > 1 else ())
    if np.unique(layout.physical).size < layout.physical.size:
        names += ("smt_share",)
    facts = {n: server.facts.get(n) or guesses.parameter(n) for n in ("clock_ghz", *names)}
    for name in ("l2_ns", "tlb_ns"):
        cycles = guesses.parameter(name, scale="clock_ghz")
        clock = facts["clock_ghz"].value
        source = f"{cycles.source} (cycles), / clock_ghz"
        facts[name] = Fact(round(cycles.value / clock, 3), source, "low")
    return facts


def _caches(server: ServerFacts, layout: Layout, guesses: Guesses) -> dict[str, Fact]:
    domains = int(layout.llc.max()) + 1
    cores = np.unique(layout.physical).size / domains
    facts = {"l2_kib": server.facts.get("l2_kib") or guesses.parameter("l2_kib")}
    if fact := server.facts.get("llc_kib"):
        facts["llc_kib"] = fact
        if layout.clusters > 1:
            source = f"{fact.source}: {fact.value:g} KiB over {layout.clusters} sub-NUMA clusters"
            facts["llc_kib"] = Fact(fact.value / layout.clusters, source, "medium")
    else:
        fact = guesses.median("last-level KiB per core", _llc_kib_per_core)
        mib = max(round(fact.value * cores / 1024), 1)
        facts["llc_kib"] = Fact(mib * 1024.0, f"{fact.source}, x {cores:g}, whole MiB", "low")
    for cache in ("l2", "llc"):
        kib = facts[f"{cache}_kib"].value
        read = server.facts.get(f"{cache}_ways")
        wanted = read or guesses.parameter(f"{cache}_ways")
        ways = fitting_ways(kib, wanted.value, power_of_two=cache == "l2")
        if ways != wanted.value:
            source = f"guess: closest to {wanted.value:g} that fits the size ({wanted.source})"
            wanted = Fact(ways, source, "low")
        facts[f"{cache}_ways"] = wanted
    small = guesses.vendor == "Intel" and facts["l2_kib"].value < _SMALL_L2_KIB
    facts["llc_inclusive"] = server.facts.get("llc_inclusive") or Fact(
        float(small), f"guess: only with an Intel L2 below {_SMALL_L2_KIB} KiB", "low"
    )
    facts["llc_at_home_cluster"] = Fact(
        float(layout.clusters > 1),
        "guess: on Intel where several nodes share a last-level cache, else not",
        "low",
    )
    return facts


def _modified(layout: Layout, guesses: Guesses) -> dict[str, Fact]:
    socket = np.zeros(int(layout.llc.max()) + 1, dtype=np.int32)
    socket[layout.llc] = layout.socket_of_node[layout.node]
    hops = layout.hops[socket[:, None], socket[None, :]]
    facts = {}
    for distance, name in enumerate(("same_socket", "other_socket", "two_hops", "same_llc")):
        same = name == "same_llc"
        if not same and not (_apart(hops) & (hops == distance)).any():
            continue
        facts[f"modified_{name}_ns"] = guesses.median(
            f"modified_{name}_ns", partial(_modified_of, distance=None if same else distance)
        )
    return facts


def _memory(server: ServerFacts, layout: Layout, guesses: Guesses) -> dict[str, dict[str, Any]]:
    entries = {}
    at_work = [n for n in layout.physical_per_node if n > 0]
    cores = float(np.median(at_work))
    for name in ("dram_gb_per_s", "dram_write_gb_per_s"):
        per_core = guesses.median(f"{name} per core", partial(_per_core, name=name))
        source = f"{per_core.source}, x {cores:g} cores of a node"
        entries[name] = _entry(name, Fact(round(per_core.value * cores, 1), source, "low"))
    local = guesses.median("idle latency of local memory (ns)", _local_ns)
    hops = layout.hops_of_nodes
    others = _apart(hops)
    ratios = {
        distance: guesses.median(f"{what} / local latency", partial(_ratio, distance=distance))
        for distance, what in ((0, "same-socket"), (1, "other-socket"))
        if (others & (hops == distance)).any()
    }
    slit = slit_matrix(server)
    if slit is None:
        entries["dram_local_ns"] = _entry("dram_local_ns", local)
        for distance, ratio in ratios.items():
            name = ("dram_same_socket_ns", "dram_other_socket_ns")[distance]
            source = f"{ratio.source}, x dram_local_ns"
            entries[name] = _entry(name, Fact(round(local.value * ratio.value, 1), source, "low"))
        return entries
    # One pair of nodes sets the scale: the closest ones of two sockets, else of one socket.
    anchor = max(ratios)
    own = float(slit.diagonal().min())
    unit = float(slit[others & (hops == anchor)].min()) - own
    slope = ratios[anchor].value - 1
    values = local.value * (1 + slope * (slit - slit.diagonal()[:, None]) / unit)
    source = (
        f"guess: {local.value:g} x (1 + {slope:.3g} x (d - {own:g}) / {unit:g}) for the distance d "
        f"that the firmware reports ({server.origin}); {local.value:g}: {local.source}; "
        f"1 + {slope:.3g}: {ratios[anchor].source}"
    )
    matrix = [[round(float(v), 1) for v in row] for row in values]
    entries["dram_ns"] = _entry("dram_ns", Fact(0.0, source, "low"), matrix)
    return entries


def _links(layout: Layout, guesses: Guesses) -> dict[str, Any]:
    per_socket = guesses.median("GB/s of all links of a socket", _gb_per_s_of_socket)
    joined = layout.hops == 1
    neighbours = int(joined.sum(axis=1).max())
    value = round(per_socket.value / neighbours, 1)
    source = f"{per_socket.source}, / {neighbours} neighbours"
    if (layout.hops <= 1).all():
        return _entry("link_gb_per_s", Fact(value, source, "low"))
    source += "; the closest sockets by the firmware's distances are joined"
    matrix = [[value if j else 0.0 for j in row] for row in joined]
    return _entry("link_gb_per_s", Fact(value, source, "low"), matrix)


def _apart(hops: Int32Array) -> BoolArray:
    return ~np.eye(len(hops), dtype=np.bool_)


def _llc_kib_per_core(machine: Machine) -> float:
    cores = np.unique(machine.physical_of_core).size
    return machine.parameter("llc_kib") * (int(machine.llc_of_core.max()) + 1) / cores


def _local_ns(machine: Machine) -> float:
    return float(machine.distances.dram_ns.diagonal().min())


def _ratio(machine: Machine, distance: int) -> float | None:
    """Ratio of the latencies of memory ``distance`` links away and of local memory."""
    nodes = np.unique(machine.node_of_core)
    socket = machine.socket_of_node[nodes]
    hops = machine.distances.hops[socket[:, None], socket[None, :]]
    pairs = _apart(hops) & (hops == distance)
    if not pairs.any():
        return None
    latency = machine.distances.dram_ns[np.ix_(nodes, nodes)]
    return float(np.median((latency / latency.diagonal()[:, None])[pairs]))


def _modified_of(machine: Machine, distance: int | None) -> float | None:
    """Latency of a modified line ``distance`` links away; None: in the reader's own domain."""
    values = machine.distances.modified_ns
    if distance is None:
        return float(np.median(values.diagonal()))
    socket = np.zeros(len(values), dtype=np.int32)
    socket[machine.llc_of_core] = machine.socket_of_node[machine.node_of_core]
    hops = machine.distances.hops[socket[:, None], socket[None, :]]
    pairs = _apart(hops) & (hops == distance)
    return float(np.median(values[pairs])) if pairs.any() else None


def _per_core(machine: Machine, name: str) -> float:
    """Bandwidth of a node's memory per physical core, the median of the nodes with cores."""
    values = machine.distances.per_node(name)
    nodes = np.unique(machine.node_of_core)
    cores = [np.unique(machine.physical_of_core[machine.node_of_core == n]).size for n in nodes]
    return float(np.median(values[nodes] / np.array(cores)))


def _gb_per_s_of_socket(machine: Machine) -> float | None:
    if machine.sockets == 1:
        return None
    return float(np.median(machine.distances.link_gb_per_s.sum(axis=1)))


class Guesses:
    """Medians of parameters over the presets of a vendor, or over all presets."""

    def __init__(self, vendor: str) -> None:
        self.vendor = _VENDORS.get(vendor, "")
        presets = [load_machine(name) for names in PEERS.values() for name in names]
        peers = [load_machine(name) for name in PEERS.get(self.vendor, ())]
        self._groups = [(peers, f"shipped {self.vendor} machines"), (presets, "shipped machines")]

    def median(self, what: str, value_of: Callable[[Machine], float | None]) -> Fact:
        """The median of ``value_of`` over the machines of the vendor that have a value.

        If none of them has a value, the median over all presets.
        """
        for machines, named in self._groups:
            values = [value for m in machines if (value := value_of(m)) is not None]
            if values:
                return Fact(round(median(values), 4), f"guess: median {what} of the {named}", "low")
        raise AssertionError(f"no shipped machine has {what}")

    def parameter(self, name: str, scale: str | None = None) -> Fact:
        """The median of a parameter, or of its product with another one."""

        def value_of(machine: Machine) -> float | None:
            product = 1.0
            for factor in (name, scale):
                if factor is not None:
                    parameter = machine.parameters.get(factor)
                    if parameter is None or not isinstance(parameter.value, float):
                        return None
                    product *= parameter.value
            return product

        return self.median(name if scale is None else f"{name} x {scale}", value_of)


def fitting_ways(kib: float, preferred: float, *, power_of_two: bool) -> float:
    """The ways closest to ``preferred`` that divide a cache into sets; ``preferred`` if none do.

    Args:
        power_of_two: whether the number of sets must be a power of two.
    """
    lines = kib / LINE_KIB

    def fits(ways: int) -> bool:
        sets = lines / ways
        return sets == int(sets) and not (power_of_two and int(sets) & (int(sets) - 1))

    candidates = [ways for ways in range(1, 65) if fits(ways)]
    return float(min(candidates, key=lambda ways: abs(ways - preferred), default=preferred))

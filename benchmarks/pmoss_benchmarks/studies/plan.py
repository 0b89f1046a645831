"""What the studies consist of: their questions, and a cell for each answer.

P-MOSS gives no number of trajectories (section 6.1), and plans from counters that an earlier
schedule had (section 6.4). It meets workloads that no data hold (section 7.5), and counters that
differ by vendor (section 5). Smart Scheduler gives one width of exploration (section 6) and a
reward without scaling. The paper on access paths gives gains and weights as pictures or without
units. Each is a study here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pmoss_benchmarks.studies.causes import SCAN_CAUSES, THREAD_CAUSES
from pmoss_env.counter_table import Counter
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.types import COUNTERS

#: Rules that every world of the studies is played by, too.
RULES = ("best-fit", "lpt-capacity", "lpt")
#: How long ago the counters were read, by case: what has changed since.
STALE: Mapping[str, tuple[str, ...]] = {
    "other hot keys": ("keys",),
    "other co-tenants": ("co-tenants",),
    "both": ("keys", "co-tenants"),
}
#: Plans that are run and read before the last one.
FRESH = (1, 3)
#: What a surrogate does about a workload that its data do not hold.
ANSWERS = ("zero-shot", "trained anew", "trained on both")
#: Workloads that come after that of the data.
LATER = ("scans", "lookups-zipf")
#: Kinds of CPU of the counter table; empty for a virtual machine, which counts no hardware events.
VENDORS: Mapping[str, str] = {
    "Intel from Skylake-X on": "mesh_server",
    "Intel Sandy Bridge": "ring_server",
    "AMD Zen": "zen",
    "Arm": "arm",
    "a virtual machine": "",
}
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0)
#: Answers of the spatial studies are episodes; those of the others are figures.
EPISODES = ("data", "stale", "fresh", "vendors", "change")
FIGURES = ("gain", "weights", "raw", "alpha", "switches", "thread-causes", "scan-causes", "mesh")
#: Memory and lines of other nodes cost what a core's own do, and links never fill.
_NEAR: Mapping[str, float | str] = {
    "dram_same_socket_ns": "dram_local_ns",
    "dram_other_socket_ns": "dram_local_ns",
    "dram_two_hops_ns": "dram_local_ns",
    "modified_same_socket_ns": "modified_same_llc_ns",
    "modified_other_socket_ns": "modified_same_llc_ns",
    "modified_two_hops_ns": "modified_same_llc_ns",
    "modified_home_reader_ns": 0.0,
    "link_gb_per_s": 64.0,
}
#: What the statements of P-MOSS are asked with, by case: changes of the laboratory.
SWITCHES: Mapping[str, Mapping[str, Any]] = {
    "as judged": {},
    "no overhead": {"overhead_cycles": 0.0},
    "NUMA balancing": {"switches": {"numa_balancing": True}},
    "closed load": {"load": "closed"},
    "the mix counts": {"load": "saturated:mix", "search_load": "saturated:mix"},
    "search for the backlog": {"search_load": "saturated"},
    "search for the backlog, no overhead": {"search_load": "saturated", "overhead_cycles": 0.0},
    "hot keys side by side": {"load": "closed", "ordered_keys": True},
    "queues interleaved": {"queue_lines": 1.0},
    "queues interleaved, hot keys side by side": {
        "load": "closed",
        "ordered_keys": True,
        "queue_lines": 1.0,
    },
    "original routers": {"switches": {"dispatch": "modelled"}},
    "first touch": {"first_touch": True},
    "far as near": {"parameters": _NEAR},
    "caches 64 times as large": {"parameters": {"llc_kib": 64.0}},
    "distances on the mesh": {"machines": {"grace-hopper": "grace-hopper-mesh"}},
    "complexes of four cores": {"machines": {"rome-7302": "rome-ccx4"}},
}
STUDIES = (*EPISODES, *FIGURES)


@dataclass(frozen=True)
class StudyOptions:
    """What the answers depend on.

    Attributes:
        machine: of the spatial studies.
        workload: of the data.
        interference: family of co-tenants.
        slices: of the index.
        sizes: episodes of data, the study of sizes.
        usual: episodes of data in all other studies, one of ``sizes``.
        episodes: of each evaluation.
        budget: evaluations of the search that scores 100.
        seeds: runs of each program of the thread studies.
        instances: workload instances of the statements as they are judged, of seeds 1, 2, ...;
            with a switch they are asked on the first.
        changes: fields that override the agent's committed config.
        agent: a checkpoint that stands for the surrogate of ``usual`` episodes; empty: none.
        folder: where datasets and agents are kept.
    """

    machine: str = "skylake-x-8n"
    workload: str = "ycsb-a"
    interference: str = "busy_core"
    slices: int = 256
    sizes: tuple[int, ...] = (10, 30, 100, 300)
    usual: int = 100
    episodes: int = 20
    budget: int = 2000
    seeds: int = 3
    instances: int = 5
    changes: Mapping[str, Any] = field(default_factory=dict)
    agent: str = ""
    folder: str = ""

    def __post_init__(self) -> None:
        if self.usual not in self.sizes:
            raise DescriptionError(
                f"usual = {self.usual}: must be one of sizes = {list(self.sizes)}"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """What results depend on: not where the data lie."""
        left = {"folder"} if self.agent else {"folder", "agent"}
        return {name: value for name, value in asdict(self).items() if name not in left}

    def env(self, workload: str) -> dict[str, Any]:
        """Arguments of the environment under a workload."""
        return {
            "machine": self.machine,
            "workload": workload,
            "interference": self.interference,
            "slices": self.slices,
        }


@dataclass(frozen=True)
class StudyCell:
    """One answer.

    Attributes:
        study: one of STUDIES.
        case: in words.
        workload: that the evaluation is of; empty where there are no episodes.
    """

    study: str
    case: str
    workload: str = ""

    @property
    def name(self) -> str:
        """Decides the cell; also the policy's name in result files."""
        return ", ".join(part for part in (self.study, self.case, self.workload) if part)


def study_cells(options: StudyOptions, studies: Sequence[str] | None = None) -> list[StudyCell]:
    """The cells of some studies; None: all.

    Raises:
        UnknownNameError: there is no such study.
    """
    for name in studies or ():
        if name not in STUDIES:
            raise UnknownNameError("study", name, STUDIES)
    home = options.workload
    cells = [StudyCell("rules", rule, home) for rule in RULES]
    cells += [StudyCell("data", str(size), home) for size in options.sizes]
    cells += [StudyCell("stale", case, home) for case in STALE]
    cells += [StudyCell("fresh", str(plans), home) for plans in FRESH]
    cells += [StudyCell("vendors", name, home) for name in distinct_vendors()]
    for workload in LATER:
        cells += [StudyCell("rules", rule, workload) for rule in RULES]
        cells += [StudyCell("change", answer, workload) for answer in ANSWERS]
    cells += [StudyCell(name, "uv-300h") for name in ("gain", "weights")]
    cells += [StudyCell("raw", reward) for reward in ("normalised", "raw")]
    cells += [StudyCell("alpha", f"{alpha:g}") for alpha in ALPHAS]
    cells += [StudyCell("switches", case) for case in SWITCHES]
    cells += [StudyCell("thread-causes", case) for case in THREAD_CAUSES]
    cells += [StudyCell("scan-causes", case) for case in SCAN_CAUSES]
    cells.append(StudyCell("mesh", "grace-hopper"))
    if studies is None:
        return cells
    asked = [cell for cell in cells if cell.study in studies]
    worlds = {cell.workload for cell in asked}
    usual = str(options.usual)
    return [
        cell
        for cell in cells
        if cell in asked
        or (cell.study == "rules" and cell.workload in worlds)
        # What the others are compared with.
        or (cell.name == f"data, {usual}, {home}" and home in worlds)
    ]


def lost_counters(kind: str) -> tuple[str, ...]:
    """Counters that the model has and a kind of CPU of VENDORS has no event for."""
    return tuple(
        counter.name
        for counter in COUNTERS
        if "analytic" in counter.models
        and counter.source == "hardware"
        and not (kind and _is_counted(counter, kind))
    )


def _is_counted(counter: Counter, kind: str) -> bool:
    # Names of libpfm4 are tried on every CPU, but they are those of Intel's events.
    return any(kind in way.on if way.on else way.kind != "name" for way in counter.perf)


def distinct_vendors() -> dict[str, tuple[str, ...]]:
    """Counters that are lost, by the names of all that lose exactly these; none lost: left out."""
    found: dict[tuple[str, ...], str] = {}
    for name, kind in VENDORS.items():
        if lost := lost_counters(kind):
            found[lost] = f"{found[lost]}, {name}" if lost in found else name
    return {name: lost for lost, name in found.items()}

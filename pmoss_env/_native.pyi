"""Types of the native core (native/bindings). tests/native/test_stub.py holds it to the module."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, overload

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_Keys = npt.NDArray[np.uint64]

# native/workload
OPERATION_KINDS: tuple[str, ...]

class SortedKeyFile:
    def __init__(self, path: str) -> None: ...
    @property
    def size(self) -> int: ...

class PointSet:
    def __init__(self, size: int) -> None: ...
    @property
    def size(self) -> int: ...
    def set(self, first: int, points: npt.NDArray[np.uint32]) -> None: ...

class WorkloadSpec:
    def __init__(
        self,
        *,
        lookup: float = 1.0,
        insert: float = 0.0,
        scan: float = 0.0,
        update: float = 0.0,
        distribution: str = "uniform",
        theta: float = 0.99,
        zipf_items: int = 10_000_000_000,
        records: int = 30_000_000,
        max_scan_length: int = 100,
        seed: int = 0,
        key_space: str = "scattered",
        keys: SortedKeyFile | None = None,
        points: PointSet | None = None,
        hot_share: float = 0.9,
        hot_fraction: float = 0.05,
        drift: float = 0.0,
        read_modify_write: float = 0.0,
        value_bytes: int = 8,
    ) -> None: ...
    @property
    def key_space(self) -> str: ...
    @property
    def hot_share(self) -> float: ...
    @property
    def hot_fraction(self) -> float: ...
    @property
    def drift(self) -> float: ...
    @property
    def read_modify_write(self) -> float: ...
    @property
    def value_bytes(self) -> int: ...
    @property
    def lookup(self) -> float: ...
    @property
    def insert(self) -> float: ...
    @property
    def scan(self) -> float: ...
    @property
    def update(self) -> float: ...
    @property
    def distribution(self) -> str: ...
    @property
    def theta(self) -> float: ...
    @property
    def zipf_items(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def max_scan_length(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @overload
    def keys_of_records(self, record: int) -> int: ...
    @overload
    def keys_of_records(self, record: npt.ArrayLike) -> _Keys: ...
    def record_shares(self, slices: int) -> list[float]: ...
    def cell_shares(self, slices: int) -> list[float]: ...
    def hot_range_shares(self, slices: int) -> list[float]: ...

class OperationGenerator:
    def __init__(
        self,
        spec: WorkloadSpec,
        stream_seed: int = 0,
        first_insert_record: int | None = None,
        insert_stride: int = 1,
    ) -> None: ...
    def draw(self, n: int) -> dict[str, npt.NDArray[Any]]: ...
    @property
    def spec(self) -> WorkloadSpec: ...

@overload
def key_of_record(record: int, seed: int = 0) -> int: ...
@overload
def key_of_record(record: npt.NDArray[Any], seed: int = 0) -> _Keys: ...
@overload
def slice_of_key(key: int, slices: int) -> int: ...
@overload
def slice_of_key(key: _Keys, slices: int) -> npt.NDArray[np.uint32]: ...
def first_key_of_slice(slice: int, slices: int) -> int: ...

# native/index
class BTree:
    def __init__(self, *, slices: int = 256, huge_pages: bool = True) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, keys: npt.ArrayLike, values: npt.ArrayLike) -> _Bools: ...
    def update(self, keys: npt.ArrayLike, values: npt.ArrayLike) -> _Bools: ...
    def erase(self, keys: npt.ArrayLike) -> _Bools: ...
    def lookup(self, keys: npt.ArrayLike) -> tuple[_Bools, _Keys]: ...
    def scan(self, first: int, limit: int) -> tuple[_Keys, _Keys]: ...
    def arena_bytes(self, slice: int) -> int: ...
    def arena_chunks(self, slice: int) -> list[tuple[int, int]]: ...
    def slice_size(self, slice: int) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def slices(self) -> int: ...

class RTree:
    def __init__(self, *, slices: int = 256, fanout: int = 50, huge_pages: bool = True) -> None: ...
    def __len__(self) -> int: ...
    def bulk_load(
        self, points: npt.ArrayLike, values: npt.ArrayLike, fill: float = 1.0
    ) -> None: ...
    def insert(self, points: npt.ArrayLike, values: npt.ArrayLike) -> None: ...
    def count(self, ranges: npt.ArrayLike) -> _Keys: ...
    def find(self, range: npt.ArrayLike) -> _Keys: ...
    def slice_size(self, slice: int) -> int: ...
    def height(self, slice: int) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def slices(self) -> int: ...
    @property
    def fanout(self) -> int: ...

def search_isas() -> list[str]: ...
def set_search_isa(isa: str) -> None: ...

# native/scan
class CopyEngine:
    def __init__(self, name: str, cpu: int = -1) -> None: ...
    @property
    def name(self) -> str: ...

class ScanTable:
    def __init__(self, rows: int, seed: int, node: int = -1) -> None: ...
    @property
    def rows(self) -> int: ...
    @staticmethod
    def range_of(share: float) -> tuple[int, int]: ...
    def flush(self) -> None: ...
    def scan(
        self,
        low: int,
        high: int,
        *,
        rows: int,
        capacity: int,
        engine: CopyEngine | None = None,
        block_kib: float = 128.0,
        isa: str = "",
    ) -> dict[str, Any]: ...

def scan_column(
    values: npt.NDArray[np.int32],
    low: int,
    high: int,
    *,
    capacity: int,
    engine: CopyEngine | None = None,
    block_kib: float = 128.0,
    isa: str = "",
) -> dict[str, Any]: ...

# native/simulator
class OffloadParameters:
    def __init__(self) -> None: ...
    sockets_per_blade: int
    hubs_per_blade: int
    socket_link_gb_per_s: float
    hub_link_gb_per_s: float
    line_overhead_bytes: float
    request_bytes: float
    prefetch_lines: float
    prefetch_page_lines: float
    lookahead_lines: float
    cycles_per_value: float
    cycles_per_result: float
    result_bytes: float
    page_fault_us: float
    scan_setup_us: float
    engine_setup_us: float
    block_kib: float
    block_overhead_us: float
    engine_lines: float
    engine_line_ns: float
    engine_coherence_ns: float

class ScanPaths:
    def __init__(self, machine: MachineModel, parameters: OffloadParameters) -> None: ...
    @property
    def link_names(self) -> list[str]: ...
    def latency_ns(self, execution_node: int, storage_node: int) -> float: ...
    def bandwidth_gb_per_s(self, execution_node: int, storage_node: int, workers: int) -> float: ...
    def run(
        self,
        execution_node: npt.NDArray[np.int32],
        storage_node: npt.NDArray[np.int32],
        rows: _Floats,
        results: _Floats,
        *,
        cpu_workers: npt.NDArray[np.int32],
        cpu_worker_gb_per_s: _Floats,
        engine_workers: npt.NDArray[np.int32],
        engine_worker_gb_per_s: _Floats,
        path: npt.NDArray[np.uint8],
        seed: npt.NDArray[np.uint64],
        threads: int = 1,
        links: bool = False,
    ) -> dict[str, Any]: ...

class Trace:
    def shares(self) -> _Floats: ...
    @property
    def bytes_of_slice(self) -> npt.NDArray[np.uint64]: ...
    @property
    def line_sampling(self) -> int: ...
    @property
    def lines(self) -> int: ...
    @property
    def mean_dependent(self) -> float: ...
    @property
    def mean_streaming(self) -> float: ...
    @property
    def page_sampling(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def slices(self) -> int: ...
    @property
    def touches(self) -> int: ...

def pointer_chase(slices: int, lines_per_slice: int, queries: int) -> Trace: ...
def streaming(
    slices: int,
    lines_per_slice: int,
    lines_per_query: int,
    queries: int,
    written_share: float = 0.0,
) -> Trace: ...
def modified_lines(lines: int, queries: int) -> Trace: ...

class SimulatedMigration(TypedDict):
    snapshot: ModelSnapshot
    pieces: tuple[tuple[float, float], ...]
    moved_bytes: float
    pending: int

class SimulatedServer:
    def __init__(
        self,
        machine: MachineModel,
        *,
        load: str = "closed",
        outstanding_per_worker: int = 32,
        offered_mq_per_s: float = 0.0,
        warmup_share: float = 0.5,
        epoch_us: float = 25.0,
        dispatch: str = "ideal",
        numa_balancing: bool = False,
    ) -> None: ...
    def set_instance(self, trace: Trace, interference: Interference = ...) -> None: ...
    def run(
        self,
        cores: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
        routing: str = "core",
        data: str = "slice",
        seed: int = 0,
    ) -> ModelSnapshot: ...
    def migrate(
        self,
        cores: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
        moves: Sequence[tuple[int, int, float]],
        most_gb_per_s: float = 0.0,
        seed: int = 0,
    ) -> SimulatedMigration: ...

# native/analytic
class LatencyCurve:
    a: float
    b: float
    c: float
    def __init__(self, a: float, b: float, c: float) -> None: ...

class Interference:
    busy_share: list[float]
    sibling_busy_share: list[float]
    llc_lines_per_ns: list[float]
    dram_gb_per_s: list[float]
    link_gb_per_s: list[float]
    def __init__(self) -> None: ...
    @staticmethod
    def of(co_tenants: Sequence[tuple[str, int, float]], machine: MachineModel) -> Interference: ...

class MachineModel:
    node_of_core: list[int]
    llc_of_core: list[int]
    physical_of_core: list[int]
    is_worker: list[int]
    socket_of_node: list[int]
    clock_ghz: float
    instructions_per_cycle: float
    branch_miss_cycles: float
    mlp_dependent: float
    mlp_streaming: float
    smt_share: float
    l2_lines: float
    l2_ways: int
    l2_ns: float
    llc_lines: float
    llc_ways: int
    llc_ns: float
    llc_inclusive: bool
    llc_at_home_cluster: bool
    modified_ns: list[float]
    modified_home_reader_ns: float
    mesh_ns: Sequence[float]
    mesh_modified_ns: Sequence[float]
    dram_ns: list[float]
    dram_gb_per_s: list[float]
    dram_write_gb_per_s: list[float]
    dram_curve: LatencyCurve
    link_gb_per_s: list[float]
    next_socket: list[int]
    link_curve: LatencyCurve
    dtlb_pages: float
    tlb_pages: float
    tlb_ns: float
    page_walk_ns: float
    page_bytes: float
    query_overhead_cycles: float
    dispatch_ns: float
    routers: int
    def __init__(self) -> None: ...
    def complete(self) -> None: ...

class SliceProfiles:
    @property
    def share(self) -> _Floats: ...

def profile_trace(trace: Trace) -> SliceProfiles: ...

class ModelSnapshot(TypedDict):
    throughput: float
    counters: dict[str, _Floats]
    read_gb_per_s: _Floats
    write_gb_per_s: _Floats
    link_gb_per_s: _Floats
    latency_p50_us: float
    latency_p99_us: float

class AnalyticModel:
    def __init__(
        self,
        machine: MachineModel,
        *,
        load: str = "closed",
        outstanding_per_worker: int = 32,
        offered_mq_per_s: float = 0.0,
        dispatched: bool = False,
        numa_balancing: bool = False,
    ) -> None: ...
    def set_machine(self, machine: MachineModel) -> None: ...
    def set_instance(self, profiles: SliceProfiles, interference: Interference) -> None: ...
    def set_co_tenants(self, interference: Interference) -> None: ...
    def offer(self, share: float) -> None: ...
    def set_interference(self, interference: Interference) -> float: ...
    def change(
        self,
        interference: Interference,
        slices: npt.NDArray[np.int32],
        cores: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
    ) -> float: ...
    def place(
        self,
        cores: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
        routing: str = "core",
        data: str = "slice",
    ) -> float: ...
    def move(self, slice: int, core: int, node: int) -> float: ...
    def marginal(self, slice: int) -> _Floats: ...
    def slice_throughput(self) -> _Floats: ...
    def snapshot(self) -> ModelSnapshot: ...
    def share_within(self, limit_us: float) -> float: ...
    def best_by_enumeration(self, limit: int) -> tuple[npt.NDArray[np.int32], float, int]: ...
    @property
    def throughput(self) -> float: ...

# native/environment/running.hpp
class RunningEpoch(TypedDict):
    served: float
    within: float
    moved_bytes: float
    pieces: tuple[tuple[float, float], ...]
    snapshot: ModelSnapshot

class Conditions:
    def __init__(
        self, interference: Interference, shift: int = 0, load: float = 1.0, mix: int = 0
    ) -> None: ...

class RunningIndex:
    def __init__(
        self,
        machine: MachineModel,
        model: AnalyticModel,
        slice_bytes: Sequence[float] | _Floats,
        most_gb_per_s: float = 0.0,
    ) -> None: ...
    def begin(
        self,
        mixes: Sequence[SliceProfiles],
        conditions: Conditions,
        cores: npt.NDArray[np.int32],
    ) -> None: ...
    def begin_again(self, conditions: Conditions, cores: npt.NDArray[np.int32]) -> None: ...
    def move(self, slice: int, core: int) -> None: ...
    def run(
        self, conditions: Conditions, seconds: float, limit_us: float = 0.0
    ) -> RunningEpoch: ...
    @property
    def cores(self) -> npt.NDArray[np.int32]: ...
    @property
    def nodes(self) -> npt.NDArray[np.int32]: ...
    @property
    def pending(self) -> _Floats: ...
    @property
    def copies(self) -> int: ...
    @property
    def shift(self) -> int: ...

class NoiseStream:
    def __init__(self, strength: float, seed: Sequence[int]) -> None: ...
    def readings(self, variation: float, count: int) -> _Floats: ...
    def factors(self, variations: Sequence[float], rows: int) -> _Floats: ...

class EpochTask:
    def __init__(
        self,
        *,
        slices: int,
        nodes: int,
        sockets: int,
        epochs: int,
        moves_per_epoch: int,
        seconds: float,
        limit_us: float,
        price_per_gb: float,
        noise: float,
        throughput_variation: float,
        variations: Sequence[float],
        seen: Sequence[int],
        sees_offcore: bool,
        facts: Sequence[float],
        core_of_tile: Sequence[int],
        tile_of_core: Sequence[int],
        worker_tiles: Sequence[int],
    ) -> None: ...

class EpochBatch:
    def __init__(
        self,
        task: EpochTask,
        environments: int,
        rows: dict[str, npt.NDArray[Any]],
        results: dict[str, npt.NDArray[Any]],
        threads: int = 1,
    ) -> None: ...
    def start(
        self,
        environment: int,
        index: RunningIndex,
        course: Sequence[Conditions],
        noise_seed: int,
    ) -> None: ...
    def step(self, actions: npt.NDArray[np.int64], resting: npt.NDArray[np.bool_]) -> None: ...
    def step_one(self, environment: int, slice: int, tile: int) -> None: ...
    def epoch(self, environment: int) -> RunningEpoch: ...
    def cores(self, environment: int) -> npt.NDArray[np.int32]: ...
    def timeline(self, environment: int) -> _Floats: ...
    def moves(self, environment: int) -> npt.NDArray[np.int32]: ...

# native/kinds
class Profiler:
    def __init__(self, profiles: SliceProfiles) -> None: ...
    def profiles(self, seed: int) -> SliceProfiles: ...

class IndexKind:
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def records(self) -> Literal["keys", "points"]: ...
    @property
    def usual_workload(self) -> str: ...
    @property
    def profiled_by_formulas(self) -> bool: ...
    def record(
        self,
        workload: WorkloadSpec,
        slices: int,
        *,
        queries: int = 2_000_000,
        line_sampling: int = 64,
        page_sampling: int = 8,
        seed: int = 0,
    ) -> Trace: ...
    def make_profiler(
        self,
        workload: WorkloadSpec,
        slices: int,
        *,
        queries: int = 2_000_000,
        line_sampling: int = 64,
        page_sampling: int = 8,
    ) -> Profiler: ...

def index_kinds() -> list[IndexKind]: ...

class IndexPluginError(RuntimeError): ...

def register_plugin(path: str) -> str: ...
def check_plugin(
    path: str,
    *,
    operations: int = 200_000,
    threads: int = 4,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> list[str]: ...

class PlannedQueries:
    def __init__(
        self, workload: WorkloadSpec, slices: int, *, queries: int, seed: int = 0
    ) -> None: ...
    @property
    def keys(self) -> _Keys: ...
    @property
    def operations(self) -> _Keys: ...

class AccessTrace:
    def __init__(self, planned: PlannedQueries) -> None: ...
    def take_facts(self, facts: str) -> None: ...
    def feed(self, piece: bytes) -> int: ...
    def finish(self, costs: Sequence[tuple[float, float]]) -> Trace: ...
    @property
    def left_out(self) -> float: ...

def arrays_of_trace(trace: Trace) -> dict[str, npt.NDArray[Any]]: ...
def trace_of_arrays(slices: int, arrays: dict[str, npt.NDArray[Any]]) -> Trace: ...
def drive_plugin(
    library: str,
    slices: int,
    *,
    keys: str,
    queries: str,
    facts: str,
    parent: int,
    counted: int = 0,
) -> None: ...

# native/environment
class SpatialRules:
    def __init__(
        self,
        *,
        slices: int,
        counters: int,
        meta: int,
        columns: int,
        core_of_tile: list[int],
        node_of_core: list[int],
        socket_of_node: list[int],
        worker_tiles: list[int],
        remaps: bool,
        max_slices_per_core: int,
        max_slices_of_node: list[int],
        chooses_node: bool,
        measure_every: int,
        reward: str,
        observation: str,
    ) -> None: ...
    def expand(
        self,
        counters: npt.NDArray[np.float32],
        order: npt.NDArray[np.int32],
        incumbent: npt.NDArray[np.int32],
        incumbent_nodes: npt.NDArray[np.int32],
        actions: npt.NDArray[np.int32],
        steps: int,
        arrays: dict[str, npt.NDArray[Any]],
    ) -> None: ...
    def expand_masks(self, actions: npt.NDArray[np.int32], steps: int) -> npt.NDArray[np.int8]: ...
    def incumbent_view(
        self, counters: npt.NDArray[np.float32], cores: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.float32]: ...

def place_in_order(
    times: _Floats, order: npt.NDArray[np.int64], *, max_per_core: int
) -> npt.NDArray[np.int64]: ...
def balance(
    times: _Floats, start: npt.NDArray[np.int64], *, max_per_core: int, changes: int
) -> npt.NDArray[np.int64]: ...
def spatial_rewards(
    mode: str,
    *,
    incumbent: float,
    final: float,
    throughput: _Floats,
    shares: _Floats,
    order: npt.NDArray[np.int32],
) -> _Floats: ...
def spatial_returns_to_go(
    mode: str,
    *,
    incumbent: float,
    final: float,
    throughput: _Floats,
    shares: _Floats,
    order: npt.NDArray[np.int32],
) -> _Floats: ...

# (row, profiler, seed, co-tenants, cores, nodes); stands for a tuple at run time
Opening = tuple[
    int,
    Profiler | None,
    int,
    Interference | None,
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
]

class EpisodeBatch:
    def __init__(
        self,
        rules: SpatialRules,
        models: Sequence[AnalyticModel | None],
        *,
        observations: dict[str, npt.NDArray[Any]],
        results: dict[str, npt.NDArray[Any]],
        threads: int,
    ) -> None: ...
    def open(
        self, openings: Sequence[Opening], prepared: Sequence[int] = ()
    ) -> list[ModelSnapshot]: ...
    def prepare(self, openings: Sequence[Opening]) -> None: ...
    def start(
        self,
        environment: int,
        *,
        counters: npt.NDArray[np.float32],
        meta: npt.NDArray[np.float32],
        order: npt.NDArray[np.int32],
        cores: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
        readings: npt.NDArray[np.float64],
        throughput: float,
    ) -> None: ...
    def step(
        self,
        actions: npt.NDArray[np.int64],
        resting: npt.NDArray[np.bool_],
        *,
        copy: bool,
    ) -> dict[str, npt.NDArray[Any]] | None: ...
    def step_one(
        self, environment: int, action: int
    ) -> tuple[
        bool,
        bool,
        tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int8], float, float, int, int, int, int]
        | None,
    ]: ...
    def read(self, environment: int, throughput: float) -> None: ...
    def observe(self) -> dict[str, npt.NDArray[Any]]: ...
    def observe_one(
        self, environment: int
    ) -> tuple[
        dict[str, npt.NDArray[Any]], npt.NDArray[np.int8], float, float, int, int, int, int
    ]: ...
    def schedule(self, environment: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
    def placed(self, environment: int) -> npt.NDArray[np.int32]: ...

ForkedError: type[RuntimeError]

# native/numa and native/pmu
def host_topology(root: str = "/") -> dict[str, Any]: ...
def host_facts(root: str = "/") -> dict[str, str]: ...
def available_memory(root: str = "/") -> int: ...

#: Names of the counters, in the order of the table that the module was built with.
COUNTERS: tuple[str, ...]
#: What only a build for Linux has; empty in a portable one.
HOST_NAMES: tuple[str, ...]

def probe_events() -> list[dict[str, Any]]: ...

# native/runtime
class RunnerError(RuntimeError): ...
class Cancelled(RunnerError): ...
class PlacementRefused(RunnerError): ...

def placement_refusal() -> str: ...

class CoTenants:
    def __init__(self, co_tenants: Sequence[tuple[str, int, float, int, int]]) -> None: ...
    def stop(self) -> None: ...

class LiveRun:
    def change(
        self,
        cores: npt.ArrayLike,
        *,
        nodes: Sequence[int] = ...,
        routing: str = "core",
        data: str = "keep",
        pace: str = "lazy",
    ) -> None: ...
    def next_round(self, timeout: float) -> dict[str, Any] | None: ...
    def stop(self) -> dict[str, Any]: ...
    def end(self) -> None: ...
    @property
    def running(self) -> bool: ...

class Runner:
    def __init__(
        self,
        spec: WorkloadSpec,
        index: str,
        slices: int = 256,
        huge_pages: bool = True,
        load_threads: int = 0,
    ) -> None: ...
    def load(
        self, progress: Callable[[int], object] | None = None, *, nodes: Sequence[int] = ...
    ) -> None: ...
    def measure(
        self,
        cores: npt.ArrayLike,
        *,
        worker_cpus: Sequence[int],
        router_cpus: Sequence[int] = ...,
        load: str = "closed",
        outstanding_per_worker: int = 32,
        rate_mqs: float = 0.0,
        warmup_seconds: float = 0.2,
        seed: int = 0,
        window: int = 100,
        batch: int = 1,
        nodes: Sequence[int] = ...,
        routing: str = "core",
        data: str = "keep",
        strategy: str = "copy",
        pace: str = "lazy",
        lazy_nodes: int = 64,
        always_move: bool = False,
        interleave_nodes: Sequence[int] = ...,
        co_tenants: Sequence[tuple[str, int, float, int, int]] = ...,
        sweeper_cpus: Sequence[int] = ...,
        sweep_seconds: float = 0.1,
        kept_rounds: int = 64,
        cancelled: Callable[[], bool] | None = None,
        seconds: float = 1.0,
        changes: Sequence[tuple[float, npt.ArrayLike, Sequence[int], str, str]] = ...,
        on_rounds: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]: ...
    def start(
        self,
        cores: npt.ArrayLike,
        *,
        worker_cpus: Sequence[int],
        router_cpus: Sequence[int] = ...,
        load: str = "closed",
        outstanding_per_worker: int = 32,
        rate_mqs: float = 0.0,
        warmup_seconds: float = 0.2,
        seed: int = 0,
        window: int = 100,
        batch: int = 1,
        nodes: Sequence[int] = ...,
        routing: str = "core",
        data: str = "keep",
        strategy: str = "copy",
        pace: str = "lazy",
        lazy_nodes: int = 64,
        always_move: bool = False,
        interleave_nodes: Sequence[int] = ...,
        co_tenants: Sequence[tuple[str, int, float, int, int]] = ...,
        sweeper_cpus: Sequence[int] = ...,
        sweep_seconds: float = 0.1,
        kept_rounds: int = 64,
        cancelled: Callable[[], bool] | None = None,
    ) -> LiveRun: ...
    @property
    def index(self) -> Any: ...
    @property
    def size(self) -> int: ...
    @property
    def loaded(self) -> bool: ...
    @property
    def hidden_memory(self) -> str: ...
    @property
    def load_report(self) -> dict[str, Any] | None: ...
    @property
    def next_insert_record(self) -> int: ...
    @property
    def slices(self) -> int: ...
    @property
    def spec(self) -> WorkloadSpec: ...

# native/threads
class SlowMemory:
    read_ns: float
    write_ns: float
    remote_read_ratio: float
    remote_write_ratio: float
    remote_read_share: float
    remote_write_share: float
    remote_writers: float
    remote_writer_cost: float
    remote_mixed_cost: float
    granule_bytes: float
    def __init__(self) -> None: ...

class ThreadProgram:
    write_share: float
    value_bytes: float
    read_cycles: float
    write_cycles: float
    read_faults: float
    write_faults: float
    fault_ns: float
    index_lines: float
    ordinary_lines: float
    first_touches: float
    def __init__(self) -> None: ...

class KernelScheduler:
    slice_s: float
    node_imbalance: float
    turbo_ghz: float
    move_lines: float
    def __init__(self) -> None: ...

class ThreadServer:
    def __init__(
        self,
        machine: MachineModel,
        slow: SlowMemory,
        program: ThreadProgram,
        kernel: KernelScheduler,
        *,
        homes: Sequence[int],
        requests: float,
        seed: int,
    ) -> None: ...
    def place(self, cpus: Sequence[int]) -> None: ...
    def move(self, thread: int, cpu: int) -> None: ...
    def advance(self, seconds: float) -> float: ...
    def cpus(self) -> npt.NDArray[np.int32]: ...
    def homes(self) -> npt.NDArray[np.int32]: ...
    def pinned(self) -> _Bools: ...
    def requests(self) -> _Floats: ...
    def major_faults(self) -> _Floats: ...
    def minor_faults(self) -> _Floats: ...
    def inputs(self) -> _Floats: ...
    def latency_ns(self, quantile: float) -> float: ...
    @property
    def ended(self) -> bool: ...
    @property
    def slow_read_gb_per_s(self) -> float: ...
    @property
    def slow_write_gb_per_s(self) -> float: ...
    @property
    def local_slow_accesses(self) -> float: ...
    @property
    def remote_slow_accesses(self) -> float: ...
    @property
    def utilisation(self) -> float: ...
    @property
    def requests_done(self) -> float: ...
    @property
    def user_seconds(self) -> float: ...
    @property
    def kernel_seconds(self) -> float: ...

class ThreadCounters:
    def __init__(self, thread: int) -> None: ...
    @property
    def names(self) -> list[str]: ...
    def read(self) -> dict[str, float]: ...

class KeyValueLoad:
    def __init__(
        self,
        *,
        threads: int,
        write_share: float,
        sequential: bool,
        keys: int,
        value_bytes: int,
        node: int = -1,
        requests: int = 0,
        seed: int = 0,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def latency_ns(self, quantile: float) -> float: ...
    @property
    def running(self) -> bool: ...
    @property
    def requests(self) -> int: ...
    @property
    def damaged(self) -> int: ...

"""Made-up worlds: a random server, a random workload, and schedules that ran on it.

A world is drawn from its split and its number alone. Its server is one of ``random_machine()``, so
no named machine, workload or task is ever among them. What is drawn, from which ranges, stands in
``draw_world()`` and ``draw_co_tenants()``.

In each of INSTANCES instances of a world, SCHEDULES schedules run one after the other, as logs of
several policies would hold them: one that ignores the load, one that is uneven, that of a rule, and
changed or improved ones. A model learns from every pair of them what the second one would serve.

Each split has its own range of numbers of machines, so that no server is in two of them.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pmoss_env.backends import make_backend
from pmoss_env.backends.base import IncrementalBackend
from pmoss_env.baselines import STATIC_BASELINES, make_baseline
from pmoss_env.checks import check_name, check_whole
from pmoss_env.context import Context
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.interference import possible_targets
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.random_machine import PREFIXES
from pmoss_env.noise import Noise
from pmoss_env.types import (
    CO_TENANT_FAMILIES,
    COUNTERS,
    CoTenant,
    HardwareSnapshot,
    Instance,
    Int32Array,
    Schedule,
)
from pmoss_env.workloads.description import Workload

#: Splits, and the number of the machine of the first world of each.
SPLITS = {"train": 10_000_000, "validation": 20_000_000, "test": 30_000_000}
#: Worlds of a split.
MAX_WORLDS = 10_000_000
#: Workload instances with their co-tenants in a world, and schedules that run in each.
INSTANCES, SCHEDULES = 2, 6
#: Slices and workers of the largest world.
MAX_SLICES, MAX_WORKERS = 256, 256
#: Rules whose schedules run; none asks the model.
_RULES = ("lpt", "best-fit", "lpt-capacity", "greedy-capacity", "two-level")
_STRONGEST = {
    "busy_core": 0.8,
    "busy_sibling": 0.9,
    "cache_thrash": 0.5,
    "memory_stream": 0.97,
    "link_stream": 0.8,
}
#: Moves that an improved schedule was offered.
_MOVES = 60

#: What is kept of a world. ``columns`` are numbers of workers in the machine's list; ``counters``
#: are those of an observation, million per second; ``throughput`` is in Mq/s; ``groups`` and
#: ``cache_mib`` are those of ``groups_of()`` and ``cache_mib_of()``. Slices that the world has not
#: are 0, and workers -1.
RECORD = np.dtype(
    [
        ("slices", np.int32),
        ("workers", np.int32),
        ("columns", np.uint8, (INSTANCES, SCHEDULES, MAX_SLICES)),
        ("counters", np.float32, (INSTANCES, SCHEDULES, MAX_SLICES, len(COUNTERS))),
        ("throughput", np.float32, (INSTANCES, SCHEDULES)),
        ("groups", np.int16, (3, MAX_WORKERS)),
        ("cache_mib", np.float32, (2,)),
    ]
)


@dataclass(frozen=True)
class World:
    """What decides a world, but for its instances.

    Attributes:
        split: one of SPLITS.
        number: in the split.
        machine: name of its server.
        workload: its queries.
        load: as of the environment.
        slices: of the key space.
        noise: strength of the measurement noise.
        deviation: of the true machine from its description.
    """

    split: str
    number: int
    machine: str
    workload: Workload
    load: str
    slices: int
    noise: float
    deviation: float


class _Ran(NamedTuple):
    schedule: Schedule
    snapshot: HardwareSnapshot


def draw_world(split: str, number: int) -> World:
    """Draws a world.

    - The server has 1 or 2 hardware threads a core, or 2 on some cores. 4 in 10 servers deviate
      by up to 30 % from their description.
    - Half of the workloads have all kinds of operations, half two of them. Scans have up to 10 to
      500 entries, the index 5 to 50 million records.
    - Keys are drawn uniformly, or by Zipf's law with an exponent from 0.4 to 1.15. Or half to 95 %
      of the draws are from a hot range of 1 to 25 % of the records.
    - Half of the worlds have 256 slices, the others 128 or 64.
    - Readings of half of the worlds have noise, of a strength up to 1.5.

    Args:
        split: one of SPLITS.
        number: 0 to MAX_WORLDS - 1.

    Raises:
        UnknownNameError: no such split.
        DescriptionError: an impossible number.
    """
    check_name("split", split, SPLITS)
    check_whole("number of a world", number, 0, MAX_WORLDS - 1)
    machine_number = SPLITS[split] + number
    rng = np.random.default_rng([machine_number, 0x776F726C64])
    prefixes = (PREFIXES[0], *PREFIXES)
    return World(
        split=split,
        number=number,
        machine=f"{prefixes[number % len(prefixes)]}{machine_number}",
        workload=_draw_workload(rng),
        load=str(rng.choice(["closed", "closed", "closed:8", "closed:128"])),
        slices=int(rng.choice([256, 256, 128, 64])),
        noise=_between(rng, 0.0, 1.5) if rng.random() < 0.5 else 0.0,
        deviation=_between(rng, 0.0, 0.3) if rng.random() < 0.4 else 0.0,
    )


def log_world(world: World) -> npt.NDArray[Any]:
    """() RECORD of a world: the schedules that ran in it, and their counters.

    Its server has at most MAX_WORKERS workers, which every one of ``random_machine()`` keeps to.
    """
    machine = load_machine(world.machine)
    rng = np.random.default_rng([SPLITS[world.split] + world.number, 0x6C6F67])
    record = np.zeros((), RECORD)
    record["slices"], record["workers"] = world.slices, machine.workers.size
    record["groups"] = -1
    record["groups"][:, : machine.workers.size] = groups_of(machine)
    record["cache_mib"] = cache_mib_of(machine)
    column = np.full(machine.cores, -1)
    column[machine.workers] = np.arange(machine.workers.size)
    backend = make_backend(
        "analytic",
        machine=machine,
        workload=world.workload,
        index="btree",
        slices=world.slices,
        load=world.load,
        **({"deviation": world.deviation} if world.deviation else {}),
    )
    assert isinstance(backend, IncrementalBackend)
    with closing(backend):
        for instance in range(INSTANCES):
            seed = int(rng.integers(2**53))
            backend.set_instance(Instance(seed, draw_co_tenants(machine, rng)))
            noise = Noise(world.noise, (seed, instance))
            for place, ran in enumerate(_schedules(backend, machine, world.slices, rng, noise)):
                at = instance, place
                counters = np.nan_to_num(observed_counters(ran.snapshot), posinf=0.0, neginf=0.0)
                record["counters"][at][: world.slices] = counters
                record["columns"][at][: world.slices] = column[ran.schedule.cores]
                record["throughput"][at] = ran.snapshot.throughput
    return record


def groups_of(machine: Machine) -> Int32Array:
    """(3, workers) numbers of each worker's physical core, last-level cache and node.

    They are dense: 0 is that of the lowest number in the machine, whatever that is.
    """
    places = (machine.physical_of_core, machine.llc_of_core, machine.node_of_core)
    numbers = [np.unique(place[machine.workers], return_inverse=True)[1] for place in places]
    return np.stack(numbers).astype(np.int32)


def cache_mib_of(machine: Machine) -> list[float]:
    """The MiB of a second-level and of a last-level cache; 1 where its description is silent."""
    sizes = [machine.parameters.get(name) for name in ("l2_kib", "llc_kib")]
    return [float(np.max(kib.value)) / 1024 if kib is not None else 1.0 for kib in sizes]


def draw_co_tenants(machine: Machine, rng: np.random.Generator) -> tuple[CoTenant, ...]:
    """Draws the co-tenants of an instance.

    One instance in seven has none. Else each family that the machine allows is there with a chance
    of 35 % or, in a third of the instances, 80 %; on up to half of its targets; with strengths from
    0.05 to the strongest of the family, 0.5 to 0.97.
    """
    crowd = rng.random()
    chance = 0.0 if crowd < 0.15 else 0.35 if crowd < 0.7 else 0.8
    drawn: list[CoTenant] = []
    for family in CO_TENANT_FAMILIES:
        targets = possible_targets(family, machine)
        if rng.random() >= chance or not targets.size:
            continue
        count = int(rng.integers(1, max(2, targets.size // 2 + 1)))
        for target in rng.choice(targets, size=count, replace=False):
            strength = _between(rng, 0.05, _STRONGEST[family])
            drawn.append(CoTenant(family, int(target), strength))
    return tuple(drawn)


def _draw_workload(rng: np.random.Generator) -> Workload:
    shares = rng.random(4) if rng.random() < 0.5 else np.zeros(4)
    if not shares.any():
        first, second = rng.choice(4, 2, replace=False)
        shares[first] = float(rng.choice([0.5, 0.95, 1.0]))
        shares[second] = 1 - shares[first]
    # Rounded, so that no sum or logarithm of another processor makes another workload.
    _, insert, scan, update = np.round(shares / shares.sum(), 3)
    distribution = str(rng.choice(["uniform", "zipf", "zipf", "zipf_ordered", "hot_range"]))
    scattered = distribution == "zipf_ordered" or rng.random() < 2 / 3
    return Workload(
        name="made-up",
        description="drawn",
        source="",
        lookup=round(float(1 - insert - scan - update), 3),
        insert=float(insert),
        scan=float(scan),
        update=float(update),
        distribution=distribution,
        theta=_between(rng, 0.4, 1.15),
        zipf_items=int(rng.choice([20, 50, 200, 1000, 10_000])) * 1_000_000,
        records=int(rng.choice([5, 10, 20, 30, 50])) * 1_000_000,
        max_scan_length=int(rng.choice([10, 20, 50, 100, 200, 500])),
        keys="scattered" if scattered else "clustered",
        hot_share=_between(rng, 0.5, 0.95),
        hot_fraction=float(rng.choice([0.01, 0.02, 0.05, 0.1, 0.25])),
    )


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return round(float(rng.uniform(low, high)), 3)


def _schedules(
    backend: IncrementalBackend,
    machine: Machine,
    slices: int,
    rng: np.random.Generator,
    noise: Noise,
) -> list[_Ran]:
    """What ran in one instance, as it was measured."""
    workers = machine.workers

    def run(cores: Int32Array) -> _Ran:
        schedule = machine.local_schedule(np.asarray(cores, dtype=np.int32))
        return _Ran(schedule, noise.snapshot(backend.measure(schedule, seed=0)))

    def drawn() -> Int32Array:
        if rng.random() < 0.5:
            return rng.choice(workers, slices)
        return _rule(str(rng.choice(STATIC_BASELINES)), None)

    def _rule(name: str, before: _Ran | None) -> Int32Array:
        schedule, snapshot = before or (None, None)
        context = Context(
            machine=machine, slices=slices, incumbent=schedule, snapshot=snapshot, rng=rng
        )
        return make_baseline(name)(context).cores

    ran = [run(drawn())]
    if rng.random() < 0.5:
        weights = rng.random(workers.size)
        for _ in range(int(rng.integers(3))):  # no power: its last bits differ between processors
            weights = weights * weights
        ran.append(run(rng.choice(workers, slices, p=weights / weights.sum())))
    else:
        ran.append(run(drawn()))
    ran.append(run(_rule(str(rng.choice(_RULES)), ran[int(rng.integers(2))])))
    while len(ran) < SCHEDULES:
        cores = ran[int(rng.integers(2, len(ran)))].schedule.cores.copy()
        changed = int(rng.integers(1, max(2, slices // int(rng.choice([2, 8, 32])))))
        places = rng.choice(slices, changed, replace=False)
        if rng.random() < 0.5:
            cores[places] = rng.choice(workers, changed)
        else:
            cores[places] = cores[rng.permutation(places)]
        if rng.random() < 0.5:
            _improve(backend, machine, cores, rng)
        ran.append(run(cores))
    return ran


def _improve(
    backend: IncrementalBackend, machine: Machine, cores: Int32Array, rng: np.random.Generator
) -> None:
    """Keeps of some random moves those that the model serves more with."""
    best = backend.place(machine.local_schedule(cores))
    for _ in range(_MOVES):
        slice_, core = int(rng.integers(cores.size)), int(rng.choice(machine.workers))
        served = backend.move(slice_, core)
        if served > best:
            best, cores[slice_] = served, core
        else:
            backend.move(slice_, int(cores[slice_]))

"""The arguments of the continual environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from pmoss_env.backends.deviation import MAX_DEVIATION
from pmoss_env.baselines import STATIC_BASELINES
from pmoss_env.checks import check_name, check_number, check_type, check_whole
from pmoss_env.envs.base import RENDER_MODES
from pmoss_env.envs.continual.drift import DriftFamily, make_family
from pmoss_env.envs.continual.families import FAMILIES
from pmoss_env.envs.continual.running import Migration
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.noise import Noise

BACKENDS = ("analytic", "simulated", "hardware")
#: Arguments that only a model of a machine supports, and their neutral values.
_OF_MODELS = {
    "noise": 0.0,
    "deviation": 0.0,
    "record_bytes": 1000.0,
    "copy_gb_per_s": 0.0,
}
ON_ILLEGAL = ("leave", "raise")
#: The first schedule of an episode: best-fit by the counters of another one, or a static baseline.
INCUMBENTS = ("best-fit", *STATIC_BASELINES)
#: Slices, epochs and moves are counted in 32 bits.
_MAX = 2**31 - 1
_MAX_SEED = 2**64 - 1
#: The states of a drift take about two kilobytes per epoch.
_MAX_EPOCHS = 1_000_000
#: Moves per epoch that are valid for any number of slices.
_USUAL_MOVES = 32


@dataclass(frozen=True)
class Arguments:
    """The keyword arguments of ``ContinualSchedulingEnv``, all plain JSON.

    Attributes:
        machine: a name of ``pmoss_env.machines.machine_names()`` or a path to a machine file.
        index: "btree", or another kind with a workload for it.
        workload: a name of the workload catalogue or a path to a workload file.
        slices: number of key ranges.
        backend: "analytic", "simulated", or "hardware": an index on this host, with machine="host".
        load: as in the spatial environment.
        drift: a family of ``pmoss_env.envs.continual.FAMILIES``.
        drift_options: parameters of the family that differ from its defaults.
        epochs: number of epochs until an episode is truncated.
        epoch_seconds: length of an epoch.
        moves_per_epoch: largest number of moves before an epoch.
        record_bytes: bytes that move with a record; 1,000 as in YCSB.
        copy_gb_per_s: limit of the copying thread; 0: no limit.
        p99_limit_us: queries with a longer response time do not count; None: all count.
        price_per_gb: price of a copied gigabyte, in million queries.
        deviation: relative deviation of latencies, bandwidths and core speeds from the description.
        incumbent: first schedule of an episode; one of INCUMBENTS.
        workload_seed: None for a new workload instance per episode, or a whole number.
        counters: "all", or "software": without a performance monitoring unit.
        noise: strength of the measurement noise; 1 is as on hardware.
        on_illegal: "leave" (the move is omitted and counted) or "raise".
        backend_options: further options of the backend, such as {"records": 1000000}.
        render_mode: "ansi" or "rgb_array"; ``gymnasium.make`` takes "human", too.

    Raises:
        UnknownNameError: a name in no catalogue.
        UnsupportedError: another backend, or an argument that it does not support.
        DescriptionError: any other invalid value.
    """

    machine: str
    index: str
    workload: str
    slices: int
    backend: str
    load: str
    drift: str
    drift_options: Mapping[str, Any] | None
    epochs: int
    epoch_seconds: float
    moves_per_epoch: int
    record_bytes: float
    copy_gb_per_s: float
    p99_limit_us: float | None
    price_per_gb: float
    deviation: float
    incumbent: str
    workload_seed: int | None
    counters: str
    noise: float
    on_illegal: str
    backend_options: Mapping[str, Any] | None
    render_mode: str | None

    def __post_init__(self) -> None:
        for name in ("machine", "index", "workload", "backend", "load"):
            check_type(name, str, getattr(self, name))
        if self.backend not in BACKENDS:
            raise UnsupportedError(
                f"backend = {self.backend!r}: time goes in epochs on {', '.join(BACKENDS)} only"
            )
        named: dict[str, tuple[str, ...]] = {
            "incumbent": INCUMBENTS,
            "counters": ("all", "software"),
            "on_illegal": ON_ILLEGAL,
            "render_mode": RENDER_MODES,
        }
        for kind, names in named.items():
            value = getattr(self, kind)
            if kind != "render_mode" or value is not None:
                check_name(kind, value, names)
        for name in ("slices", "epochs", "moves_per_epoch"):
            check_whole(name, getattr(self, name), 1, _MAX_EPOCHS if name == "epochs" else _MAX)
        limit = max(self.slices, _USUAL_MOVES)
        if self.moves_per_epoch > limit:
            raise DescriptionError(
                f"moves_per_epoch = {self.moves_per_epoch}: must be at most {limit}: each of the "
                f"{self.slices} slices moves once before an epoch"
            )
        if self.workload_seed is not None:
            check_whole("workload_seed", self.workload_seed, 0, _MAX_SEED)
        check_number("epoch_seconds", self.epoch_seconds, 1e-3, 3600.0)
        check_number("price_per_gb", self.price_per_gb, 0.0, 1e9)
        check_number("deviation", self.deviation, 0.0, MAX_DEVIATION)
        if self.p99_limit_us is not None:
            check_number("p99_limit_us", self.p99_limit_us, 1e-3, 1e9)
        Noise(self.noise, (0,))
        check_number("record_bytes", self.record_bytes, 1.0, 2.0**30)
        check_number("copy_gb_per_s", self.copy_gb_per_s, 0.0, 1e6)
        _ = self.family, self.migration
        self._check_options()
        if self.family.needs_open_load and not self.load.startswith("open:"):
            raise UnsupportedError(
                f"load = {self.load!r}: drift {self.drift!r} varies an open load; give "
                "load='open:<million queries per second at the peak>'"
            )
        if self.backend != "analytic":
            self._check_for_others()
        if self.on_host:
            self._check_for_hardware()

    @property
    def on_host(self) -> bool:
        """Whether the index runs on this host."""
        return self.backend == "hardware"

    def _check_options(self) -> None:
        options = self.backend_options
        if options is not None and not isinstance(options, Mapping):
            raise DescriptionError(f"backend_options = {options!r}: must be an object or null")
        for name in options or {}:
            check_type("key of backend_options", str, name)
            if name in (*(field.name for field in fields(self)), "own_process"):
                raise UnsupportedError(f"backend_options[{name!r}]: is chosen by the environment")

    def _check_for_others(self) -> None:
        if self.backend == "simulated" and self.load.startswith("saturated"):
            raise UnsupportedError(
                f"load = {self.load!r}: the simulator moves slices under a closed or an open load"
            )
        if not self.family.only_co_tenants:
            raise UnsupportedError(
                f"drift = {self.drift!r}: changes the queries of the index; on {self.backend} "
                "only co-tenants change: choose another drift, or the backend analytic"
            )
        if self.p99_limit_us is not None:
            raise UnsupportedError(
                f"p99_limit_us = {self.p99_limit_us!r}: needs the share of queries within it; "
                f"leave it out on {self.backend}, or choose the backend analytic"
            )

    def _check_for_hardware(self) -> None:
        for name, neutral in _OF_MODELS.items():
            if (value := getattr(self, name)) != neutral:
                raise UnsupportedError(
                    f"{name} = {value!r}: is of the model; on hardware leave it at {neutral!r}: "
                    "this host has its own"
                )

    @cached_property
    def family(self) -> DriftFamily:
        """The family of drift with its parameters."""
        return make_family(FAMILIES, self.drift, self.drift_options)

    @cached_property
    def migration(self) -> Migration:
        """The costs of moves."""
        return Migration(float(self.record_bytes), float(self.copy_gb_per_s))

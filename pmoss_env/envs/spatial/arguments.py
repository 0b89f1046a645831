"""The arguments of the spatial environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pmoss_env.backends import backend_class, backend_options
from pmoss_env.backends.deviation import check_deviation
from pmoss_env.baselines import STATIC_BASELINES
from pmoss_env.checks import check_name, check_type, check_whole
from pmoss_env.envs.base import ON_ILLEGAL, RENDER_MODES
from pmoss_env.envs.spatial.observation import OBSERVATION_MODES, PLACEMENT_ORDERS
from pmoss_env.envs.spatial.rules import ACTIONS, REWARDS
from pmoss_env.errors import DescriptionError, UnsupportedError
from pmoss_env.interference import INTERFERENCE
from pmoss_env.noise import Noise
from pmoss_env.types import READABLE

MIXTURE = "mixture"
#: Options of backends for which the environment has arguments.
_NO_OPTIONS = ("name", "machine", "workload", "index", "slices", "load", "deviation")


@dataclass(frozen=True)
class Arguments:
    """The keyword arguments of ``SpatialSchedulingEnv``, all plain JSON.

    Attributes:
        machine: a name of ``pmoss_env.machines.machine_names()`` or a path to a machine file.
        index: "btree", or "rtree" (``slices`` are cells of a grid) with a workload for it, such as
            "rtree-ranges". The first reset in a process builds (and, for a model, runs) the tree,
            for all environments: tens of seconds for the paper's 50 million records, seconds for
            the 5 million of "rtree-ranges-5m". The log shows the progress.
        workload: a name of the workload catalogue or a path to a workload file.
        slices: number of key ranges.
        backend: "analytic" (a model, microseconds), "simulated" (the index's memory accesses on a
            model of the machine's caches and memories, about a second) or "hardware" (this host).
        load: "closed", "closed:<queries in flight per worker>" (32 by default), "saturated",
            "saturated:mix" or "open:<Mq/s>".
        interference: "none", or a key of ``pmoss_env.interference.INTERFERENCE``.
        observation: "full", "paper", "complete" or "compact".
        actions: "core", or "core_node": an action also chooses the node of the slice's data.
        reward: reward of a step, see the environment; None: "improvement" or "terminal", by
            backend.
        incumbent: "grouped", "spread", "mixed", "random", or "mixture": one of these four.
        order: "index" (slice 0 first) or "load" (most queries in the incumbent's snapshot first).
        workload_seed: None for a new workload instance per episode, or a whole number.
        counters: "all", or "software": as in a virtual machine without a performance monitoring
            unit, where only our runtime and the kernel count. "amd" and "arm": also those that
            these makers' processors count, by the codes of ``counters.toml``.
        noise: strength of the measurement noise (``pmoss_env.noise``); 1 is as on hardware.
        deviation: relative deviation of the true machine's latencies, bandwidths and core speeds
            from its description, 0 to 0.5, on the analytic backend. They are drawn for every
            workload instance; only counters and throughput show them.
        on_illegal: "remap", "terminate" or "raise".
        constraints: None, or a dict of ``max_slices_per_core``, a whole number, and
            ``node_memory_gib``: GiB of each node that the index may fill, one number or a list.
        backend_options: further options of the backend.
        measure_every: steps between measurements; None means every step on an incremental backend,
            and for the reward "improvement". Otherwise only the last step is measured. Hardware
            needs it for "improvement".
        render_mode: "ansi" or "rgb_array"; ``gymnasium.make`` takes "human", too.

    Raises:
        UnknownNameError: a name in no catalogue.
        UnsupportedError: an argument that the backend does not support.
        DescriptionError: any other invalid value.
    """

    machine: str
    index: str
    workload: str
    slices: int
    backend: str
    load: str
    interference: str
    observation: str
    reward: str | None
    incumbent: str
    actions: str
    order: str
    workload_seed: int | None
    counters: str
    noise: float
    deviation: float
    on_illegal: str
    constraints: Mapping[str, Any] | None
    backend_options: Mapping[str, Any] | None
    measure_every: int | None
    render_mode: str | None

    def __post_init__(self) -> None:
        for name in ("machine", "index", "workload", "backend", "load"):
            check_type(name, str, getattr(self, name))
        check_name("interference", self.interference, INTERFERENCE)
        check_name("observation", self.observation, OBSERVATION_MODES)
        check_name("actions", self.actions, ACTIONS)
        check_name("order", self.order, PLACEMENT_ORDERS)
        check_name("counters", self.counters, READABLE)
        check_name("incumbent", self.incumbent, (*STATIC_BASELINES, MIXTURE))
        check_name("on_illegal", self.on_illegal, ON_ILLEGAL)
        if self.reward is not None:
            check_name("reward", self.reward, REWARDS)
        if self.render_mode is not None:
            check_name("render_mode", self.render_mode, RENDER_MODES)
        check_whole("slices", self.slices, 1, 65536)
        if self.workload_seed is not None:
            check_whole("workload_seed", self.workload_seed, 0, 2**64 - 1)
        if self.measure_every is not None:
            check_whole("measure_every", self.measure_every, 1)
        Noise(self.noise, (0,))
        if check_deviation(self.deviation) and "deviation" not in backend_options(self.backend):
            raise UnsupportedError(
                f"deviation = {self.deviation}: the backend {self.backend!r} has the machine that "
                "it has: use backend='analytic'"
            )
        _check_object("constraints", self.constraints)
        _check_object("backend_options", self.backend_options)
        for name in sorted(self.backend_options or {}):
            if name in _NO_OPTIONS:
                raise DescriptionError(
                    f"backend_options[{name!r}]: is an argument of the environment itself"
                )
        measures_host = backend_class(self.backend).measures_host
        if measures_host and self.reward == "improvement" and self.measure_every is None:
            raise UnsupportedError(
                f"reward='improvement' on {self.backend} would measure {self.slices} times per "
                "episode: say how often with measure_every=<steps>, or use reward='terminal'"
            )


def _check_object(name: str, value: object) -> None:
    if value is None:
        return
    try:
        plain = isinstance(value, dict) and bool(json.dumps(value))
    except (TypeError, ValueError):
        plain = False
    if not plain:
        raise DescriptionError(f"{name} = {value!r}: must be None or a dict of plain JSON")

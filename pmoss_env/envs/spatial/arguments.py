"""The arguments of the spatial environment, checked before anything is made of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pmoss_env.backends import backend_class
from pmoss_env.baselines import STATIC_BASELINES
from pmoss_env.envs.spatial.observation import OBSERVATION_MODES, PLACEMENT_ORDERS
from pmoss_env.envs.spatial.rules import ON_ILLEGAL, REWARDS
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.interference import INTERFERENCE
from pmoss_env.noise import Noise

#: Counters that an episode's snapshots hold.
READABLE = ("all", "software")
RENDER_MODES = ("ansi", "rgb_array")
MIXTURE = "mixture"
#: What backend_options cannot name, because the environment has arguments for it.
_OWN = ("name", "machine", "workload", "index", "slices", "load")


@dataclass(frozen=True)
class Arguments:
    """The keyword arguments of ``SpatialSchedulingEnv``, which describes them.

    Raises:
        UnknownNameError: a name in no catalogue.
        UnsupportedError: what the backend cannot do.
        DescriptionError: any other impossible value.
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
    order: str
    workload_seed: int | None
    counters: str
    noise: float
    on_illegal: str
    constraints: Mapping[str, Any] | None
    backend_options: Mapping[str, Any] | None
    measure_every: int | None
    render_mode: str | None

    def __post_init__(self) -> None:
        for name in ("machine", "index", "workload", "backend", "load"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise DescriptionError(f"{name} = {value!r}: must be a text")
        check_name("interference", self.interference, INTERFERENCE)
        check_name("observation", self.observation, OBSERVATION_MODES)
        check_name("order", self.order, PLACEMENT_ORDERS)
        check_name("counters", self.counters, READABLE)
        check_name("incumbent", self.incumbent, (*STATIC_BASELINES, MIXTURE))
        check_name("on_illegal", self.on_illegal, ON_ILLEGAL)
        if self.reward is not None:
            check_name("reward", self.reward, REWARDS)
        if self.render_mode is not None:
            check_name("render_mode", self.render_mode, RENDER_MODES)
        _check_whole("slices", self.slices, minimum=1, maximum=65536)
        if self.workload_seed is not None:
            _check_whole("workload_seed", self.workload_seed, minimum=0, maximum=2**64 - 1)
        if self.measure_every is not None:
            _check_whole("measure_every", self.measure_every, minimum=1)
        if isinstance(self.noise, bool) or not isinstance(self.noise, (int, float)):
            raise DescriptionError(f"noise = {self.noise!r}: must be a number")
        Noise(self.noise, (0,))
        _check_object("constraints", self.constraints)
        _check_object("backend_options", self.backend_options)
        for name in sorted(self.backend_options or {}):
            if name in _OWN:
                raise DescriptionError(
                    f"backend_options[{name!r}]: is an argument of the environment itself"
                )
        measures_host = backend_class(self.backend).measures_host
        if measures_host and self.reward == "improvement" and self.measure_every is None:
            raise UnsupportedError(
                f"reward='improvement' on {self.backend} would measure {self.slices} times per "
                "episode: say how often with measure_every=<steps>, or use reward='terminal'"
            )


def check_name(kind: str, name: object, known: Collection[str]) -> None:
    """Raises UnknownNameError unless ``name`` is one of ``known``."""
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known)


def _check_whole(name: str, value: object, minimum: int, maximum: float = float("inf")) -> None:
    # NumPy's integers are refused: Gymnasium cannot write them to an environment's JSON form.
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        limit = "" if maximum == float("inf") else f" to {maximum}"
        raise DescriptionError(
            f"{name} = {value!r}: must be a plain whole number from {minimum}{limit}"
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

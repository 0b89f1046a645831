"""Access-path selection as a domain: the path by which each table scan reads its data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_datasets.interfaces import Judge
from pmoss_datasets.stepwise import Rule, StepDomain
from pmoss_env.envs.access_path import PATHS
from pmoss_env.errors import UnsupportedError
from pmoss_env.types import Int8Array

_CPU, _OFFLOAD = PATHS.index("cpu"), PATHS.index("offload")


def _cpu(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> int:
    """The processor loads, always."""
    return _CPU


def _offload(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> int:
    """The engine copies, always."""
    return _OFFLOAD


def _oracle(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> int:
    """The coherent path that the environment knows to be fastest."""
    return int(np.argmin(env.path_times_us()[: _OFFLOAD + 1]))


class AccessPathDomain(StepDomain):
    """Datasets, policies and scores of ``pmoss/AccessPath-v0``.

    An episode scores by the time of all its scans: 0 is the mean of random legal paths, 100 the
    fastest coherent path of every scan, which no policy can beat. With relaxed coherence results
    may be wrong, so that such episodes are not scored.
    """

    name = "access-path"
    env_id = "pmoss/AccessPath-v0"
    rules: ClassVar[Mapping[str, Rule]] = {
        "always-cpu": _cpu,
        "always-offload": _offload,
        "oracle": _oracle,
    }
    #: What the oracle sees is in no observation; what it chooses is certain all the same.
    good = ("oracle",)
    knowledge: ClassVar[Mapping[str, str]] = {
        "always-cpu": "nothing",
        "always-offload": "nothing",
        "oracle": "what each path will take",
    }
    simple = ("random", "always-cpu", "always-offload")
    infos = ("run_time_us", "correct")
    on_machine = True
    outcome_name = "time of all scans, negated"
    unit = "ms"
    is_cost = True
    usual: ClassVar[Mapping[str, Any]] = {"machine": "uv-300h"}
    presets = Path(__file__).parent / "presets"

    def outcome_of(self, info: Mapping[str, Any], total: float) -> float:
        """Minus the milliseconds of all scans."""
        return -float(info["total_time_us"]) / 1e3

    def judge(self, env: Any) -> Judge:
        """See StepDomain; UnsupportedError with relaxed coherence."""
        if self.task_of(env)[0].get("relaxed"):
            raise UnsupportedError(
                "relaxed = True: results may be wrong, so that such episodes are not scored: leave "
                "it out to compare policies"
            )
        return super().judge(env)


ACCESS_PATH = AccessPathDomain()

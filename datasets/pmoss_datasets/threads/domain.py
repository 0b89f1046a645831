"""Thread scheduling as a domain: how many threads of a core go to the memory with their data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pmoss_datasets.stepwise import Rule, StepDomain
from pmoss_env.types import Int8Array


def _stay(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> int:
    """Moves as few threads as it may: the kernel alone decides where they run."""
    return int(np.flatnonzero(mask)[0])


def _rule(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> int:
    """Moves all threads of an unbalanced core (Yang et al. 2020)."""
    return int(np.flatnonzero(mask)[-1])


def _half(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> int:
    """The middle of the legal numbers: half of the core's threads, rounded up."""
    legal = np.flatnonzero(mask)
    return int(legal[legal.size // 2])


class ThreadsDomain(StepDomain):
    """Datasets, policies and scores of ``pmoss/ThreadScheduling-v0``.

    An episode scores by the requests that were answered per second: 0 is what the kernel reaches
    alone, 100 what the best of the rules reaches.
    """

    name = "threads"
    env_id = "pmoss/ThreadScheduling-v0"
    rules: ClassVar[Mapping[str, Rule]] = {"stay": _stay, "rule": _rule, "half": _half}
    zero = "stay"
    knowledge: ClassVar[Mapping[str, str]] = {"stay": "nothing"}
    simple = ("random", "stay", "half", "rule")
    infos = ("moved", "seconds", "user_seconds", "kernel_seconds", "requests", "p99_ms")
    on_machine = True
    outcome_name = "rate of answered requests"
    unit = "thousand requests/s"
    usual: ClassVar[Mapping[str, Any]] = {"machine": "xeon-6240m-optane", "program": "fillrandom"}
    presets = Path(__file__).parent / "presets"

    def task(self, kwargs: Mapping[str, Any]) -> str:
        """``<machine>-threads-<program>`` and the arguments that are not usual."""
        machine, program = Path(kwargs["machine"]).stem, str(kwargs["program"])
        others = self.unusual(kwargs, {"machine", "program"})
        return "-".join([machine, self.name, program, *others])

    def outcome_of(self, info: Mapping[str, Any], total: float) -> float:
        """Thousand requests per second."""
        return float(info["requests"]) / float(info["seconds"]) / 1e3


THREADS = ThreadsDomain()

from dataclasses import replace
from typing import Any

import gymnasium
import pytest

from pmoss_env.backends import (
    Backend,
    backend_class,
    backend_names,
    backend_options,
    incremental,
    make_backend,
)
from pmoss_env.errors import UnknownNameError, UnsupportedError
from pmoss_env.workloads import load_workload

MINE = """
from pmoss_env.backends.analytic import AnalyticBackend

class Slow(AnalyticBackend):
    name = "slow"
    incremental = False

    def __init__(self, subject, *, patience=1):
        super().__init__(subject)
        self.patience = patience
"""


def test_a_backend_says_what_it_can_do() -> None:
    said = {
        name: (kind.repeatable, kind.measures_host, kind.incremental)
        for name in ("analytic", "simulated", "hardware")
        for kind in [backend_class(name)]
    }
    assert said == {
        "analytic": (True, False, True),
        "simulated": (True, False, False),
        "hardware": (False, True, False),
    }


def test_a_backend_of_another_package_is_used_by_its_name(install_package: Any) -> None:
    install_package("slow_backend", {"pmoss.backends": {"slow": "slow_backend:Slow"}}, MINE)
    assert backend_names() == ["analytic", "simulated", "hardware", "slow"]
    assert backend_options("slow") == ["patience"]
    backend = make_backend("slow", machine="toy", workload="ycsb-a", slices=8, patience=3)
    assert isinstance(backend, Backend)
    assert incremental(backend) is None
    with pytest.raises(UnsupportedError, match="takes no option 'x'; it takes patience"):
        make_backend("slow", machine="toy", workload="ycsb-a", x=1)
    env = gymnasium.make("pmoss/toy-v0", backend="slow", incumbent="grouped")
    _, info = env.reset(seed=1)
    fast = gymnasium.make("pmoss/toy-v0", incumbent="grouped").reset(seed=1)[1]
    assert info["throughput"] == fast["throughput"]
    # It cannot be asked after every move, so that the end is what it pays.
    assert env.unwrapped.reward == "terminal"  # type: ignore[attr-defined]


def test_what_no_package_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown backend 'slow'"):
        make_backend("slow", machine="toy", workload="ycsb-a")
    with pytest.raises(UnknownNameError, match="unknown backend 7"):
        backend_class(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["analytic", "simulated"])
def test_models_know_values_of_eight_bytes(backend: str) -> None:
    large = replace(load_workload("lookups"), value_bytes=64)
    with pytest.raises(UnsupportedError, match=f"value_bytes = 64: the {backend} backend models"):
        make_backend(backend, machine="toy", workload=large, slices=16)

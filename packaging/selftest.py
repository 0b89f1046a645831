"""Checks an installed pmoss_env by itself: no checkout, no compiler, no extra is needed.

    python selftest.py [--page first-episode.md] [--portable]

It runs the native indexes against NumPy. It plays an episode on each model and environment, and
compares the bits with those that every build must give. ``--page`` runs the Python of a page.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Digests of what every build computes: Linux, macOS, Windows; x86-64 and Arm.
EXPECTED = {
    "analytic": "a59c4098037273fb",
    "simulated": "ed36aaebf9e1943a",
    "continual": "a61aaebf18797191",
    "threads": "31fa8900eb7ddb67",
    "access-path": "a622546bcc79386f",
}


def _play(env: Any, steps: int) -> Iterator[bytes]:
    """Observations and rewards of an episode whose actions are drawn among the legal ones."""
    import numpy as np

    rng = np.random.default_rng(0)
    observation, info = env.reset(seed=0)
    for _ in range(steps):
        if isinstance(observation, dict):
            yield from (np.ascontiguousarray(observation[key]).tobytes() for key in observation)
        else:
            yield np.ascontiguousarray(observation).tobytes()
        # One mask for each part of an action.
        space = env.action_space
        sizes = space.nvec if hasattr(space, "nvec") else [space.n]
        masks = np.split(info["action_mask"], np.cumsum(sizes)[:-1])
        parts = [int(rng.choice(np.flatnonzero(mask))) for mask in masks]
        observation, reward, terminated, truncated, info = env.step(
            parts[0] if len(parts) == 1 else np.array(parts)
        )
        yield np.float64(reward).tobytes()
        if terminated or truncated:
            break
    env.close()


def digests() -> dict[str, str]:
    """A digest per model and environment."""
    import gymnasium

    import pmoss_env  # noqa: F401  registers the environments

    spatial = {"machine": "toy", "slices": 16}
    envs = {
        "analytic": ("pmoss/SpatialScheduling-v0", {**spatial, "machine": "milan-nps4"}),
        "simulated": (
            "pmoss/SpatialScheduling-v0",
            {
                **spatial,
                "backend": "simulated",
                "backend_options": {"records": 200_000, "queries": 50_000},
            },
        ),
        "continual": ("pmoss/ContinualScheduling-v1", {}),
        "threads": ("pmoss/ThreadScheduling-v0", {}),
        "access-path": ("pmoss/AccessPath-v0", {}),
    }
    digest_of = {}
    for name, (env_id, arguments) in envs.items():
        digest = hashlib.sha256()
        for part in _play(gymnasium.make(env_id, **arguments), 40):
            digest.update(part)
        digest_of[name] = digest.hexdigest()[:16]
    return digest_of


def check_indexes() -> None:
    """The B+-tree and the R-tree against NumPy, with every instruction set that there is."""
    import numpy as np

    from pmoss_env import _native

    rng = np.random.default_rng(1)
    keys = rng.integers(0, 1 << 63, 50_000, dtype=np.uint64)
    values = np.arange(keys.size, dtype=np.uint64)
    for isa in _native.search_isas():
        _native.set_search_isa(isa)
        tree = _native.BTree(slices=16)
        tree.insert(keys, values)
        is_held, got = tree.lookup(keys)
        assert is_held.all() and (got == values).all(), f"the B+-tree is wrong with {isa}"
        assert (tree.scan(0, keys.size)[0] == np.unique(keys)).all(), f"scans with {isa} are wrong"
    points = rng.integers(0, 1 << 32, (20_000, 2), dtype=np.uint64)
    rtree = _native.RTree(slices=16)
    rtree.insert(points, np.arange(len(points), dtype=np.uint64))
    low, high = 1 << 30, 3 << 30
    inside = ((points >= low) & (points <= high)).all(axis=1).sum()
    assert rtree.count([[low, low, high, high]])[0] == inside, "the R-tree is wrong"


def check_hardware(portable: bool) -> str:
    """Measures this host for a moment, or shows that a portable build refuses in words."""
    from pmoss_env.backends import make_backend
    from pmoss_env.errors import PlatformError

    def measure() -> float:
        backend = make_backend(
            "hardware", machine="host", workload="lookups", slices=8, seconds=0.2, records=20_000
        )
        try:
            workers = backend.machine.workers
            schedule = backend.machine.local_schedule(workers[[0] * 8])
            return backend.measure(schedule, seed=0).throughput
        finally:
            backend.close()

    if not portable:
        return f"{measure():.1f} million queries per second"
    try:
        measure()
    except PlatformError as error:
        return str(error)
    raise AssertionError("a portable build measures this host")


def programs(page: Path) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def main() -> None:
    """Runs all checks and says what they took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", type=Path)
    parser.add_argument("--portable", action="store_true", help="the build must be a portable one")
    asked = parser.parse_args()
    began = time.perf_counter()
    import pmoss_env
    from pmoss_env.platforms import looks_at_host

    print(f"pmoss_env {pmoss_env.__version__} from {Path(pmoss_env.__file__).parent}")
    print(f"import: {time.perf_counter() - began:.2f} s")
    portable = not looks_at_host()
    assert portable or not asked.portable, "this is no portable build"
    check_indexes()
    print("indexes: right")
    digest_of = digests()
    for name, digest in digest_of.items():
        print(f"{name}: {digest}")
    assert digest_of == EXPECTED, f"other bits than everywhere else; expected {EXPECTED}"
    for code in programs(asked.page) if asked.page else ():
        exec(compile(code, str(asked.page), "exec"), {})
    print(f"hardware: {check_hardware(portable)}")
    print(f"passed in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()

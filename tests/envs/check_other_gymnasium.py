"""Checks every registered id against whatever Gymnasium is on the path.

Not a pytest file: the test suite runs it in a process of its own, with an older Gymnasium first on
the path. Exits 0 and prints the version if all is well.
"""

import sys
import warnings

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from pmoss_env.registration import spatial_environments


def check(name: str) -> None:
    """Runs both checkers and one whole episode, wrapped and vectorised."""
    check_env(gymnasium.make(name).unwrapped, skip_render_check=True)
    check_env_for_sb3(gymnasium.make(name).unwrapped, skip_render_check=True)
    env = gymnasium.make(name)
    _, info = env.reset(seed=1)
    steps, terminated = 0, False
    while not terminated:
        action = env.action_space.sample(mask=info["action_mask"])
        _, _, terminated, truncated, info = env.step(action)
        assert not truncated, name
        steps += 1
    env.close()
    if "slice_throughput" in info:
        assert steps == info["slice_throughput"].size, name
        assert np.isclose(info["slice_throughput"].sum(), info["throughput"]), name
        check_vectors(name, steps + 1)


def check_vectors(name: str, steps: int) -> None:
    """Plays the native vector environment beside Gymnasium's own, over the first resets."""
    native, own = (
        gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode)
        for mode in ("vector_entry_point", "sync")
    )
    assert str(native.metadata["autoreset_mode"]).lower().replace("_", "").endswith("nextstep")
    results = [native.reset(seed=1), own.reset(seed=1)]
    rng = np.random.default_rng(0)
    for _ in range(steps):
        for first, second in zip(*results, strict=True):
            if not isinstance(first, dict):
                first, second = {"": first}, {"": second}
            assert set(first) == set(second), name
            for key in first:
                assert first[key].dtype == second[key].dtype, (name, key)
                assert first[key].tobytes() == second[key].tobytes(), (name, key)
        actions = rng.integers(native.single_action_space.n, size=2)
        results = [native.step(actions), own.step(actions)]
    native.close()
    own.close()


def main() -> int:
    """Checks all ids; raises at the first one that fails."""
    # The checker's advice (an unusual bound, a missing render mode) is no failure here.
    warnings.simplefilter("ignore")
    # R-trees of full size take over a minute each to profile; the small ones have the same code.
    names = sorted(
        name
        for name, kwargs in spatial_environments().items()
        if kwargs.get("index") != "rtree" or kwargs["workload"] == "rtree-ranges-5m"
    )
    for name in names:
        check(name)
    print(f"gymnasium {gymnasium.__version__}: {len(names)} ids are fine")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks every registered id against whatever Gymnasium is on the path.

Not a pytest file: the test suite runs it in a process of its own, with an older Gymnasium first on
the path. Exits 0 and prints the version if all is well.
"""

from __future__ import annotations

import sys
import warnings

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from pmoss_env.registration import environments


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
    assert steps == info["slice_throughput"].size, name
    assert np.isclose(info["slice_throughput"].sum(), info["throughput"]), name
    env.close()
    for mode in ("vector_entry_point", "sync"):
        envs = gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode)
        _, infos = envs.reset(seed=1)
        assert infos["action_mask"].shape == (2, envs.single_action_space.n), name
        assert not any(infos["illegal_actions"]), name
        envs.step(envs.action_space.sample())
        envs.close()


def main() -> int:
    """Checks all ids; raises at the first one that fails."""
    # The checker's advice (an unusual bound, a missing render mode) is no failure here.
    warnings.simplefilter("ignore")
    names = sorted(environments())
    for name in names:
        check(name)
    print(f"gymnasium {gymnasium.__version__}: {len(names)} ids are fine")
    return 0


if __name__ == "__main__":
    sys.exit(main())

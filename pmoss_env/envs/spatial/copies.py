"""Copies and pickles of an environment: its arguments, and how its episode came to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pmoss_env.errors import UnsupportedError

#: The generator before reset() drew from it, and the options of reset().
Began = tuple[dict[str, Any], dict[str, Any] | None]


def copied_state(
    env: Any, arguments: dict[str, Any], began: Began | None, actions: Sequence[int]
) -> dict[str, Any]:
    """What repeat() needs.

    Args:
        env: a ``SpatialSchedulingEnv``.
        arguments: its keyword arguments.
        began: how the episode began; None where none is to be repeated.
        actions: that it has taken since.

    Raises:
        UnsupportedError: the backend does not give the same bits twice.
    """
    if not env.backend.repeatable:
        raise UnsupportedError(
            f"an episode on the backend {env.backend.name!r} cannot be copied: it measures, "
            "and never twice the same"
        )
    return {
        "arguments": arguments,
        "began": began,
        "actions": list(actions) if began else [],
        "generator": env.np_random.bit_generator.state,
        "np_random_seed": env._np_random_seed,
        "spec": env.spec,
    }


def repeat(env: Any, state: dict[str, Any]) -> None:
    """Repeats the episode of copied_state() in a new environment with the same arguments."""
    env.spec = state["spec"]
    generator = env.np_random.bit_generator
    if state["began"] is not None:
        generator.state, options = state["began"]
        env.reset(options=options)
        for action in state["actions"]:
            env.step(action)
    generator.state = state["generator"]
    env._np_random_seed = state["np_random_seed"]

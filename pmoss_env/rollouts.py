"""Letting policies place slices on a backend, episode by episode, and keeping what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pmoss_env import __version__
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.evaluation import DEFAULT_ENV, Policy, episode_seed, make_environment, rollout
from pmoss_env.rows import RowFile


def roll_out(
    env_kwargs: Mapping[str, Any],
    policies: Mapping[str, Policy],
    *,
    episodes: int,
    seed: int,
    out: Path | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Plays ``episodes`` episodes with every policy; each meets the same incumbents and instances.

    Args:
        env_kwargs: of ``pmoss/SpatialScheduling-v0``.
        policies: by name.
        episodes: per policy.
        seed: of the episodes.
        out: file of rows; what it holds already is not played again.
        on_row: called with each row, also with those of the file.

    Returns:
        Rows: policy, episode, incumbent and final throughput (Mq/s), the seconds that the policy
        took, illegal actions, the final cores and the provenance of the final snapshot.

    Raises:
        DescriptionError: ``out`` holds results of another command.
        BackendError: a measurement failed; finished rows are in the file.
    """
    header = {"kind": "rollout", "version": __version__, "env": dict(env_kwargs), "seed": seed}
    file = RowFile(out, header) if out else None
    rows: list[dict[str, Any]] = []
    known = {(row["policy"], row["episode"]): row for row in (file.rows if file else [])}
    env: SpatialSchedulingEnv | None = None
    try:
        for episode in range(episodes):
            for name, policy in policies.items():
                row = known.get((name, episode))
                if row is None:
                    if env is None:
                        env = make_environment(DEFAULT_ENV, env_kwargs)
                    row = {"policy": name, "episode": episode}
                    row |= _play(env, policy, episode_seed(seed, episode))
                    if file:
                        file.append(row)
                rows.append(row)
                if on_row:
                    on_row(row)
    finally:
        if env is not None:
            env.close()
    return rows


def _play(env: SpatialSchedulingEnv, policy: Policy, seed: int) -> dict[str, Any]:
    _, info, seconds = rollout(env, policy, seed)
    final = env.final_snapshot()
    return {
        "incumbent_mq_per_s": env.incumbent_snapshot.throughput,
        "final_mq_per_s": final.throughput,
        "p99_us": final.latency_p99_us,
        "policy_seconds": seconds,
        "illegal_actions": int(info["illegal_actions"]),
        "cores": env.schedule.cores.tolist(),
        "provenance": dict(final.provenance),
    }

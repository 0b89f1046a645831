"""Letting policies place slices on a backend, episode by episode, and keeping what was measured.

A rollout can be undone: the incumbent is put back, measured, and compared with what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from pmoss_benchmarks.evaluation import DEFAULT_ENV, episode_seed, make_environment
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.result_files import ResultFile
from pmoss_datasets.spatial.scoring import Searcher
from pmoss_env import __version__
from pmoss_env.backends import backend_options
from pmoss_env.backends.frames import pack_schedule
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.types import HardwareSnapshot, Schedule

#: When the incumbent is put back: where it was faster than what the policy made, or in any case.
Undo = Literal["never", "worse", "always"]
#: Share of the incumbent's pages at home that may be missing after it was put back: what the
#: kernel moves meanwhile.
_LOST_SHARE = 0.01
#: Of a rollout's index on hardware, in multiples of its records.
_GROWTH = 100.0


@dataclass(frozen=True)
class Restored:
    """What came of putting the incumbent back.

    Attributes:
        verified: on models, every bit of the snapshot is as it was. On hardware no
            measurement repeats. There the same workers serve and as many records are present. The
            kernel finds as large a share of the pages at home as before, where it can tell.
        differs: what was not as before; empty if verified.
        mq_per_s: what the incumbent measures now.
    """

    verified: bool
    differs: tuple[str, ...]
    mq_per_s: float


def roll_out(
    env_kwargs: Mapping[str, Any],
    policies: Mapping[str, Policy],
    *,
    episodes: int,
    seed: int,
    incumbent: Schedule | None = None,
    undo: Undo = "never",
    out: Path | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
    on_round: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Plays ``episodes`` episodes with every policy; each meets the same incumbents and instances.

    Args:
        env_kwargs: of ``pmoss/SpatialScheduling-v0``. On hardware the index may grow a hundredfold
            unless ``max_growth`` among the backend's options says otherwise.
        policies: by name.
        episodes: per policy.
        seed: of the episodes.
        incumbent: what runs at the start of each; drawn from the seed if None.
        undo: when the incumbent is put back at the end of an episode.
        out: file of rows; what it holds already is not played again.
        on_row: called with each row, also with those of the file.
        on_round: called with every sweeping round of the hardware backend, while it measures.

    Returns:
        Rows of plain JSON. They hold throughputs in Mq/s, latencies in us, the slices that moved,
        and the seconds that the policy took. ``restored`` says what undoing found, None without.

    Raises:
        DatasetError: ``out`` holds results of another command.
        DescriptionError: no episode is asked for.
        CheckpointError: an agent was fitted for another task.
        BackendError: a measurement failed; finished rows are in the file.
    """
    if undo not in get_args(Undo):
        raise UnknownNameError("undo", undo, get_args(Undo))
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    header = {
        "kind": "rollout",
        "version": __version__,
        "env": dict(env_kwargs),
        "seed": seed,
        "incumbent": None if incumbent is None else pack_schedule(incumbent),
        "undo": undo,
    }
    rows: list[dict[str, Any]] = []
    file = ResultFile(out, header, key=("policy", "episode"))
    stage: _Stage | None = None
    try:
        for episode in range(episodes):
            for name, policy in policies.items():
                row = file.get(name, episode)
                if row is None:
                    if stage is None:
                        stage = _Stage(env_kwargs, policies, on_round)
                    row = {"policy": name, "episode": episode}
                    row |= stage.play(policy, episode_seed(seed, episode), incumbent, undo)
                    file.append(row)
                rows.append(row)
                if on_row:
                    on_row(row)
    finally:
        file.close()
        if stage is not None:
            stage.close()
    return rows


class _Stage:
    """An environment, and a backend for the policies that search."""

    def __init__(
        self,
        env_kwargs: Mapping[str, Any],
        policies: Mapping[str, Policy],
        on_round: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        if "max_growth" in backend_options(env_kwargs.get("backend", "analytic")):
            # The index that runs is the one to be placed, and put back: it stays as it grows.
            options = {"max_growth": _GROWTH, **(env_kwargs.get("backend_options") or {})}
            env_kwargs = {**env_kwargs, "backend_options": options}
        self._env = make_environment(DEFAULT_ENV, env_kwargs)
        self._env.session.watch(on_round)
        self._searcher = Searcher(self._env)
        for policy in policies.values():
            if (check_env := getattr(policy, "check_env", None)) is not None:
                check_env(self._env)

    def play(
        self, policy: Policy, seed: int, incumbent: Schedule | None, undo: Undo
    ) -> dict[str, Any]:
        env = self._env
        searches = isinstance(policy, SchedulePolicy) and policy.searches
        options = {} if incumbent is None else {"incumbent": incumbent}
        played = domain_of_env(DEFAULT_ENV).play(
            env, policy, seed, self._searcher if searches else None, **options
        )
        before, final = env.incumbent_snapshot, env.final_snapshot()
        cores = env.schedule.cores
        worse = final.throughput < before.throughput
        back = undo == "always" or (undo == "worse" and worse)
        return {
            "incumbent_mq_per_s": before.throughput,
            "final_mq_per_s": final.throughput,
            "incumbent_p99_us": before.latency_p99_us,
            "p99_us": final.latency_p99_us,
            "moved_slices": int((cores != env.incumbent.cores).sum()),
            "policy_seconds": played.seconds,
            "illegal_actions": played.illegal_actions,
            "incumbent_cores": env.incumbent.cores.tolist(),
            "cores": cores.tolist(),
            "provenance": dict(final.provenance),
            "restored": asdict(restore(env)) if back else None,
        }

    def close(self) -> None:
        self._env.close()
        self._searcher.close()


def restore(env: SpatialSchedulingEnv) -> Restored:
    """Puts the incumbent of the environment's episode back and looks whether all is as it was."""
    before = env.incumbent_snapshot
    after = env.restore()
    if env.backend.measures_host:
        differs = _differs_on_hardware(before, after)
    else:
        differs = [
            name
            for name in ("throughput", "slice_counters", "offcore", "latency_p99_us")
            if not np.array_equal(getattr(before, name), getattr(after, name), equal_nan=True)
        ]
    return Restored(not differs, tuple(differs), after.throughput)


def _differs_on_hardware(before: HardwareSnapshot, after: HardwareSnapshot) -> list[str]:
    first, second = before.provenance, after.provenance
    differs = [name for name in ("worker_cpus", "router_cpus") if first[name] != second[name]]
    if first["records_after"] > second["records_before"]:
        differs.append("records (the index was loaded anew: allow a larger -o max_growth)")
    home, now = (facts["data"]["home_share"] for facts in (first, second))
    if home is not None and (now is None or now < home - _LOST_SHARE):
        differs.append("pages at home")
    return differs

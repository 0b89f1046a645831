"""Vectors of running indexes, stepped in C++ (native/environment)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.envs.continual.env import ContinualSchedulingEnv
from pmoss_env.envs.continual.episodes import INFO_KEYS, Episodes
from pmoss_env.envs.continual.observation import Observation
from pmoss_env.envs.vector import (
    NEXT_STEP,
    BatchVectorEnv,
    check_counts,
    checked_mode,
    read_only,
)
from pmoss_env.errors import IllegalActionError, UnsupportedError
from pmoss_env.types import BoolArray


class ContinualVectorEnv(BatchVectorEnv[ContinualSchedulingEnv]):
    """The vector form of ``ContinualSchedulingEnv`` on the analytic backend.

    ``gymnasium.make_vec("pmoss/ContinualScheduling-v1", num_envs=n)`` makes it. Every
    sub-environment gives the same bits as the single environment with the same seed and actions,
    whatever ``num_envs`` and ``threads``. Moves, epochs, noise and observations are computed in C++
    without the interpreter's lock; episodes begin in Python.

    Autoreset modes and infos are those of ``pmoss_env.envs.spatial.vector.SpatialVectorEnv``.
    """

    _ended_by = "truncated"
    _episodes: Episodes

    def __init__(
        self,
        num_envs: int = 1,
        *,
        threads: int = 1,
        copy: bool = True,
        autoreset_mode: str = NEXT_STEP,
        **arguments: Any,
    ) -> None:
        """Creates the sub-environments.

        Args:
            num_envs: number of sub-environments, N.
            threads: number of native threads that step them; the results do not depend on it.
            copy: whether observations are fresh arrays. Otherwise every call returns the same
                read-only arrays, which the next call changes.
            autoreset_mode: "NextStep" or "SameStep", or Gymnasium's enum of these values.
            **arguments: of ``ContinualSchedulingEnv``.

        Raises:
            UnsupportedError: another backend than analytic.
            UnknownNameError: another autoreset mode.
            DescriptionError: an invalid value.
        """
        check_counts(num_envs, threads)
        checked_mode(autoreset_mode)
        if (backend := arguments.get("backend", "analytic")) != "analytic":
            raise UnsupportedError(
                f"backend = {backend!r}: the native vector environment needs the analytic model; "
                "give gymnasium.make() the backend, or make_vec() the backend 'analytic'"
            )
        envs = [ContinualSchedulingEnv(**arguments) for _ in range(num_envs)]
        super().__init__(envs, copy=copy, autoreset_mode=autoreset_mode, info_keys=INFO_KEYS)
        first = envs[0]
        self._episodes = Episodes(
            first.arguments, first.machine, first.observation_space, num_envs, threads
        )
        for i, env in enumerate(envs):
            env.join(self._episodes, i)
        self._shown = read_only(self._episodes.state)
        self._limits = np.array([first.slices + 1, first.machine.tiles])
        self._raises = first.arguments.on_illegal == "raise"

    def _observed(self) -> Observation:
        if not self._copy:
            return dict(self._shown)
        return {key: rows.copy() for key, rows in self._episodes.state.items()}

    def _checked(self, actions: Any, resting: BoolArray) -> npt.NDArray[np.int64]:
        given = np.ascontiguousarray(actions)
        if given.shape != (self.num_envs, 2) or given.dtype.kind not in "iu":
            raise IllegalActionError(
                f"actions of shape {given.shape} and type {given.dtype}: must be "
                f"({self.num_envs}, 2) whole numbers"
            )
        chosen: npt.NDArray[np.int64] = given.astype(np.int64, copy=False)
        outside = (chosen < 0) | (chosen >= self._limits)
        if outside.any():
            i, part = np.argwhere(outside)[0].tolist()
            raise IllegalActionError(
                f"{('slice', 'tile')[part]} {chosen[i, part]} of sub-environment {i}: must be "
                f"from 0 to {self._limits[part] - 1}"
            )
        if self._raises:
            moving = np.flatnonzero((chosen[:, 0] < self._limits[0] - 1) & ~resting)
            for i in moving.tolist():
                self._envs[i].refuse_masked(*chosen[i].tolist())
        return chosen

    def _advance(self, actions: npt.NDArray[np.int64], resting: BoolArray) -> Observation:
        self._episodes.batch.step(actions, resting)
        self._episodes.add_noise(np.flatnonzero(~resting).tolist())
        return self._observed()

    def _start(
        self, i: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        self._envs[i].begin(seed=seed, options=options)

    def _finish(self, i: int) -> tuple[Observation, dict[str, Any]]:
        self._envs[i].session.running = False
        return self._episodes.observation(i), self._episodes.info(i)

    def _infos(self, finals: dict[int, tuple[Observation, dict[str, Any]]]) -> dict[str, Any]:
        results = self._episodes.results
        return {
            "action_mask": self._episodes.masks,
            **{key: results[key].copy() for key in INFO_KEYS[1:]},
            **self._given,
        }

"""Vectors of running indexes, stepped in C++ (native/environment)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.envs.continual.env import ContinualSchedulingEnv
from pmoss_env.envs.continual.episodes import INFO_KEYS, Episodes
from pmoss_env.envs.continual.observation import Observation
from pmoss_env.envs.vector import BatchVectorEnv
from pmoss_env.errors import IllegalActionError
from pmoss_env.types import BoolArray


class ContinualVectorEnv(BatchVectorEnv[ContinualSchedulingEnv]):
    """The vector form of ``ContinualSchedulingEnv`` on the analytic backend.

    ``gymnasium.make_vec("pmoss/ContinualScheduling-v1", num_envs=n)`` makes it. Every
    sub-environment gives the same bits as the single environment with the same seed and actions,
    whatever ``num_envs`` and ``threads``. Moves, epochs, noise and observations are computed in C++
    without the interpreter's lock; episodes begin in Python.

    See BatchVectorEnv for its arguments, autoreset modes and infos.
    """

    _env_class = ContinualSchedulingEnv
    _ended_by = "truncated"
    _episodes: Episodes

    @staticmethod
    def _is_native(backend: str) -> bool:
        return backend == "analytic"

    def _make_episodes(
        self, first: ContinualSchedulingEnv, threads: int
    ) -> tuple[Episodes, tuple[str, ...]]:
        self._limits = np.array([first.slices + 1, first.machine.tiles])
        space = first.observation_space
        episodes = Episodes(first.arguments, first.machine, space, self.num_envs, threads)
        return episodes, INFO_KEYS

    def _observed(self) -> Observation:
        if not self._copy:
            return dict(self._shown)
        return {key: rows.copy() for key, rows in self._episodes.state.items()}

    def _checked(self, actions: Any, starting: Sequence[int]) -> npt.NDArray[np.int64]:
        chosen = self._whole_numbers(actions)
        outside = (chosen < 0) | (chosen >= self._limits)
        if outside.any():
            i, part = np.argwhere(outside)[0].tolist()
            raise IllegalActionError(
                f"{('slice', 'tile')[part]} {chosen[i, part]} of sub-environment {i}: must be "
                f"from 0 to {self._limits[part] - 1}"
            )
        if self._raises:
            moving = chosen[:, 0] < self._limits[0] - 1
            moving[starting] = False
            for i in np.flatnonzero(moving).tolist():
                self._envs[i].refuse_masked(*chosen[i].tolist())
        return chosen

    def _advance(self, actions: npt.NDArray[np.int64], resting: BoolArray) -> Observation:
        self._episodes.batch.step(actions, resting)
        self._episodes.add_noise(np.flatnonzero(~resting).tolist())
        return self._observed()

    def _finish(self, i: int) -> None:
        self._envs[i].session.running = False

    def _final(self, i: int) -> tuple[Observation, dict[str, Any]]:
        return self._episodes.observation(i), self._episodes.info(i)

    def _infos(self, over: Sequence[int]) -> dict[str, Any]:
        results = self._episodes.results
        return {
            "action_mask": self._episodes.masks,
            **{key: results[key].copy() for key in INFO_KEYS[1:]},
            **self._given,
        }

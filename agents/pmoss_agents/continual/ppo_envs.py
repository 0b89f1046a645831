"""Continual scheduling as MaskablePPO learns from it; needs the extra online."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_agents.agent import Array
from pmoss_agents.continual.ppo_network import History, epoch_begins, nodes_of, shapes_of
from pmoss_env.envs.continual.stable_baselines import ContinualVecEnv


class RoundsVecEnv(ContinualVecEnv):
    """A ``ContinualVecEnv`` that shows the history of its episodes, and scales rewards.

    Args:
        usual: what an epoch pays in the mean; a reward is what it paid beyond that.
        scale: what rewards are divided by.
        **arguments: of ``ContinualVecEnv``.
    """

    def __init__(
        self, num_envs: int, *, counters: int, usual: float, scale: float, **arguments: Any
    ) -> None:
        super().__init__(num_envs, **arguments)
        first = self._envs.sub_environments()[0]
        nodes = nodes_of(first.machine)
        self._history = History(num_envs, nodes, counters)
        self._usual, self._scale = np.float32(usual), np.float32(scale)
        boxes = shapes_of(first.slices, len(nodes), counters)
        self.observation_space = spaces.Dict(
            {key: spaces.Box(-np.inf, np.inf, shape, np.float32) for key, shape in boxes.items()}
        )

    def reset(self) -> dict[str, Array]:
        """Starts every episode, with the seeds set before."""
        self._history.forget(np.ones(self.num_envs, dtype=np.bool_))
        observations = super().reset()
        self._history.take(observations, epoch_begins(observations))
        return self._history.show(observations)

    def step_wait(
        self,
    ) -> tuple[dict[str, Array], npt.NDArray[Any], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """One step of every sub-environment. Only a step that begins an epoch has a reward."""
        observations, rewards, ended, infos = super().step_wait()
        new = epoch = epoch_begins(observations)
        if ended.any():
            self._end(observations, ended, infos)
            new = ended  # the others were taken with the last epochs
        self._history.take(observations, new)
        paid = np.where(epoch, (rewards - self._usual) / self._scale, np.float32(0.0))
        return self._history.show(observations), paid.astype(np.float32), ended, infos

    def _end(
        self,
        observations: dict[str, Array],
        ended: npt.NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> None:
        """Takes the epochs of this step, and shows the last ones of episodes that have ended."""
        last = {key: rows.copy() for key, rows in observations.items()}
        rows = ended.nonzero()[0].tolist()
        for i in rows:
            for key, value in infos[i]["terminal_observation"].items():
                last[key][i] = value
        self._history.take(last, epoch_begins(last))
        shown = self._history.show(last)
        for i in rows:
            infos[i]["terminal_observation"] = {key: part[i] for key, part in shown.items()}
        self._history.forget(ended)

"""Native vector environments for Stable-Baselines3; needs the extra online."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pmoss_env.envs.vector import SAME_STEP, BatchVectorEnv, Observation
from pmoss_env.errors import UnsupportedError
from pmoss_env.extras import require

require("stable_baselines3")

from stable_baselines3.common.vec_env import VecEnv  # noqa: E402

Indices = int | Iterable[int] | None


class BatchVecEnv(VecEnv):
    """A native vector environment as a ``VecEnv``.

    Observations, rewards and infos are those of a ``DummyVecEnv`` of single environments.
    """

    #: The wrapped vector environment.
    vector_env: Callable[..., BatchVectorEnv[Any]]

    def __init__(self, num_envs: int = 1, *, threads: int = 1, **arguments: Any) -> None:
        """Creates the sub-environments.

        Args:
            threads: number of native threads that step them.

        Raises:
            UnsupportedError: another backend than "analytic".
            DescriptionError: an invalid value.
        """
        self._envs = envs = type(self).vector_env(
            num_envs, threads=threads, autoreset_mode=SAME_STEP, **arguments
        )
        self._actions: npt.NDArray[np.int64] = np.zeros(envs.num_envs, dtype=np.int64)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Observation:
        """Starts every episode, with the seeds and options that were set."""
        options = self._options[0]
        if any(other != options for other in self._options):
            raise UnsupportedError("options differ between sub-environments: must be the same")
        observations, infos = self._envs.reset(seed=self._seeds, options=options or None)
        self.reset_infos = self._rows(infos)
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Stores the actions for step_wait()."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[Observation, npt.NDArray[Any], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Steps every sub-environment and resets it after the end of an episode."""
        observations, rewards, terminated, truncated, infos = self._envs.step(self._actions)
        rows = self._rows(infos)
        ended: npt.NDArray[np.bool_] = terminated | truncated
        if ended.any():
            finals = self._rows(infos["final_info"])
            for i in ended.nonzero()[0].tolist():
                self.reset_infos[i] = rows[i]
                rows[i] = {**finals[i], "terminal_observation": infos["final_obs"][i]}
        for row, cut in zip(rows, (truncated & ~terminated).tolist(), strict=True):
            row["TimeLimit.truncated"] = cut
        return observations, rewards.astype(np.float32), ended, rows

    def close(self) -> None:
        """Closes the sub-environments. Safe to repeat."""
        self._envs.close()

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """The image of each sub-environment."""
        return self._envs.render()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of sub-environments, in the present state of the batch."""
        envs = self._envs.sub_environments()
        return [getattr(envs[i], attr_name) for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Raises UnsupportedError: sub-environments are views of the batch."""
        raise UnsupportedError(f"cannot set {attr_name!r}: give it when the environment is made")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """The results of a method of sub-environments that changes nothing."""
        if method_name == "action_masks":
            masks = self._envs.action_masks()
            return [masks[i] for i in self._get_indices(indices)]
        methods = self.get_attr(method_name, indices)
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """No sub-environment is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def _rows(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        """The info of each sub-environment, with Python numbers as in the single environment."""
        columns = {
            key: infos[key] if infos[key].ndim > 1 else infos[key].tolist()
            for key in self._envs.info_keys
        }
        return [{key: column[i] for key, column in columns.items()} for i in range(self.num_envs)]

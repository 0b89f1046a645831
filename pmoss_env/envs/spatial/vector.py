"""Vectors of episodes of spatial scheduling, stepped in C++ (native/environment)."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt

from pmoss_env.backends import backend_class, backend_names
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.episodes import INFO_KEYS, Episodes, Observation
from pmoss_env.envs.vector import (
    NEXT_STEP,
    BatchVectorEnv,
    check_counts,
    checked_mode,
    read_only,
)
from pmoss_env.errors import IllegalActionError, UnsupportedError
from pmoss_env.types import BoolArray


class SpatialVectorEnv(BatchVectorEnv[SpatialSchedulingEnv]):
    """The vector form of ``SpatialSchedulingEnv`` on the analytic backend.

    ``gymnasium.make_vec("pmoss/SpatialScheduling-v0", num_envs=n)`` makes it. Every
    sub-environment gives the same bits as the single environment with the same seed and actions,
    whatever ``num_envs`` and ``threads``. Observations, rewards, masks and moves of the model are
    computed in C++ without the interpreter's lock; episodes begin and end in Python.

    After the end of an episode the next call of step() resets the sub-environment, ignores its
    action and gives the reward 0. With ``autoreset_mode="SameStep"`` the call that ends an episode
    also resets it: it returns the new observation and info, and the final ones in
    ``infos["final_obs"]`` and ``infos["final_info"]``. ``metadata["autoreset_mode"]`` is the mode.

    Infos follow Gymnasium's convention for vectors. There is an array per key of the single
    environment's info, with a row per sub-environment. Its (num_envs,) bool mask under
    ``"_" + key`` is always all True.
    """

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
            **arguments: of ``SpatialSchedulingEnv``.

        Raises:
            UnsupportedError: a backend without a native model; here all but "analytic".
            UnknownNameError: another autoreset mode.
            DescriptionError: an invalid value.
        """
        check_counts(num_envs, threads)
        checked_mode(autoreset_mode)
        backend = arguments.get("backend", "analytic")
        if backend in backend_names() and not hasattr(backend_class(backend), "model"):
            raise UnsupportedError(
                f"backend = {backend!r}: the native vector environment needs a model, such as "
                "'analytic'; give gymnasium.make_vec() vectorization_mode='sync'"
            )
        envs = [SpatialSchedulingEnv(**arguments) for _ in range(num_envs)]
        first = envs[0]
        self._chooses_node = first.session.chooses_node
        super().__init__(
            envs,
            copy=copy,
            autoreset_mode=autoreset_mode,
            info_keys=(*INFO_KEYS, "node") if self._chooses_node else INFO_KEYS,
        )
        self._choices = int(cast(gymnasium.spaces.Discrete, first.action_space).n)
        self._action_kind = "actions" if self._chooses_node else "tiles"
        self._raises = arguments.get("on_illegal") == "raise"
        self._episodes = Episodes([env.session for env in envs], first.observation_space, threads)
        for i, env in enumerate(envs):
            env.join(self._episodes, i)
        self._batch = self._episodes.batch
        self._results = self._episodes.results
        self._shown = read_only(self._episodes.state)
        self._incumbent_throughput = np.zeros(num_envs)
        # Read-only, so that every call can return it.
        self._no_shares = np.zeros((num_envs, first.slices))
        self._no_shares.setflags(write=False)

    def _observed(self) -> Observation:
        return self._batch.observe() if self._copy else dict(self._shown)

    def _advance(self, actions: npt.NDArray[np.int64], resting: BoolArray) -> Observation:
        copies = self._batch.step(actions, resting, copy=self._copy)
        return dict(self._shown) if copies is None else copies

    def _checked(self, actions: Any, resting: BoolArray) -> npt.NDArray[np.int64]:
        given = np.ascontiguousarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise IllegalActionError(
                f"actions of shape {given.shape} and type {given.dtype}: must be "
                f"({self.num_envs},) whole numbers"
            )
        tiles: npt.NDArray[np.int64] = given.astype(np.int64, copy=False)
        # Negative numbers become large ones.
        unsigned = tiles.view(np.uint64)
        if unsigned.max() >= self._choices:
            i = int(np.argmax(unsigned >= self._choices))
            raise IllegalActionError(
                f"action {given[i]} of sub-environment {i}: {self._action_kind} are 0 to "
                f"{self._choices - 1}"
            )
        if self._raises:
            masked = (self._episodes.masks[np.arange(self.num_envs), tiles] == 0) & ~resting
            if masked.any():
                i = int(np.argmax(masked))
                raise IllegalActionError(
                    f"action {tiles[i]} of sub-environment {i}: the mask forbids it; "
                    "see infos['action_mask']"
                )
        return tiles

    def _start(
        self, i: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        env = self._envs[i]
        env.begin(seed=seed, options=options)
        self._incumbent_throughput[i] = env.incumbent_snapshot.throughput

    def _finish(self, i: int) -> tuple[Observation, dict[str, Any]]:
        """Ends a finished episode; returns its observation and info."""
        self._episodes.finish(i)
        observation, _, info = self._episodes.shown(i)
        return observation, info

    def _infos(self, finals: dict[int, tuple[Observation, dict[str, Any]]]) -> dict[str, Any]:
        shares = self._no_shares
        if finals:
            shares = np.zeros(shares.shape)
            for i, (_, info) in finals.items():
                shares[i] = info["slice_throughput"]
        return {
            "action_mask": self._episodes.masks.copy(),
            "illegal_actions": self._results["illegal_actions"].copy(),
            "throughput": self._results["throughput"].copy(),
            "incumbent_throughput": self._incumbent_throughput.copy(),
            "slice": self._results["slice"].copy(),
            "tile": self._results["tile"].copy(),
            "slice_throughput": shares,
            **({"node": self._results["node"].copy()} if self._chooses_node else {}),
            **self._given,
        }

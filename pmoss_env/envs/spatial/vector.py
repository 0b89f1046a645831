"""Many episodes of spatial scheduling side by side, stepped in C++ (native/environment)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from pmoss_env.backends import backend_class, backend_names
from pmoss_env.backends.process_lock import Visit
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.episodes import INFO_KEYS, Episodes, Observation
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.types import BoolArray

#: The modes of Gymnasium's AutoresetMode that are known here; Gymnasium 1.0 has no such words yet.
NEXT_STEP, SAME_STEP = AUTORESET_MODES = ("NextStep", "SameStep")


class SpatialVectorEnv(VectorEnv[Observation, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """The vector form of ``SpatialSchedulingEnv`` on the analytic backend.

    ``gymnasium.make_vec("pmoss/SpatialScheduling-v0", num_envs=n)`` makes it. Every
    sub-environment gives the bits that the single environment gives with the same seed and
    actions, whatever ``num_envs`` and ``threads``. Observations, rewards, masks and moves of the
    model are computed in C++ without the interpreter's lock; episodes begin and end in Python.

    An episode that ended is reset by the next call of step(), which ignores that
    sub-environment's action and pays 0. With ``autoreset_mode="SameStep"`` the call that ends an
    episode resets it too: it returns the new episode's observation and info, and the old one's in
    ``infos["final_obs"]`` and ``infos["final_info"]``. ``metadata["autoreset_mode"]`` says which.

    Infos follow Gymnasium's convention for vectors. There is an array per key of the single
    environment's info, with a row per sub-environment. Under ``"_" + key`` is the (num_envs,) bool
    mask of the sub-environments that gave it, which is always all True.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        threads: int = 1,
        copy: bool = True,
        autoreset_mode: str = NEXT_STEP,
        **arguments: Any,
    ) -> None:
        """Makes the sub-environments.

        Args:
            num_envs: how many, N.
            threads: how many native threads step them; the results are the same.
            copy: True returns fresh observations from every call. False returns the same read-only
                arrays every time, valid until the next call: a step then writes what changes.
            autoreset_mode: "NextStep" or "SameStep", or Gymnasium's enum of these values.
            **arguments: of ``SpatialSchedulingEnv``.

        Raises:
            UnsupportedError: a backend without a native model, any but "analytic" of ours.
            UnknownNameError: another autoreset mode.
            DescriptionError: an impossible value, here or in ``arguments``.
        """
        for name, value in (("num_envs", num_envs), ("threads", threads)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise DescriptionError(f"{name} = {value!r}: must be a whole number from 1")
        autoreset_mode = getattr(autoreset_mode, "value", autoreset_mode)
        if autoreset_mode not in AUTORESET_MODES:
            raise UnknownNameError("autoreset_mode", autoreset_mode, AUTORESET_MODES)
        backend = arguments.get("backend", "analytic")
        if backend in backend_names() and not hasattr(backend_class(backend), "model"):
            raise UnsupportedError(
                f"backend = {backend!r}: the native vector environment needs a model, such as "
                "'analytic'; give gymnasium.make_vec() vectorization_mode='sync'"
            )
        self.num_envs = num_envs
        modes = getattr(gymnasium.vector, "AutoresetMode", str)
        #: As TorchRL and Gymnasium's own vector environments have it.
        self.autoreset_mode = modes(autoreset_mode)
        self.metadata = {**SpatialSchedulingEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self._same_step = autoreset_mode == SAME_STEP
        self._envs = [SpatialSchedulingEnv(**arguments) for _ in range(num_envs)]
        first = self._envs[0]
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = cast(
            gymnasium.Space[Observation], batch_space(first.observation_space, num_envs)
        )
        self.action_space = cast(
            gymnasium.Space[npt.NDArray[np.int64]], batch_space(first.action_space, num_envs)
        )
        self._copy = copy
        self._choices = int(cast(gymnasium.spaces.Discrete, first.action_space).n)
        self._what = "actions" if first.session.chooses_node else "tiles"
        info_keys = (*INFO_KEYS, "node") if first.session.chooses_node else INFO_KEYS
        self._raises = arguments.get("on_illegal") == "raise"
        self._episodes = Episodes(
            [env.session for env in self._envs], first.observation_space, threads
        )
        for i, env in enumerate(self._envs):
            env.join(self._episodes, i)
        self._batch = self._episodes.batch
        self._state, self._results = self._episodes.state, self._episodes.results
        self._shown = {key: rows.view() for key, rows in self._state.items()}
        for rows in self._shown.values():
            rows.setflags(write=False)
        self._incumbent_throughput = np.zeros(num_envs)
        # Read-only, so that every call can return them.
        self._no_shares = np.zeros((num_envs, first.slices))
        everybody = np.ones(num_envs, dtype=np.bool_)
        for values in (self._no_shares, everybody):
            values.setflags(write=False)
        self._given = {f"_{key}": everybody for key in info_keys}
        self._running = False
        self._visit = Visit()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode in every sub-environment.

        Args:
            seed: None, one for each sub-environment, or one number for seed, seed + 1, ...
            options: of every sub-environment.

        Raises:
            DescriptionError: a wrong number of seeds.
            ForkedError: another thread was in here when this process was forked.
        """
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise DescriptionError(
                f"seed: {len(seeds)} were given for {self.num_envs} sub-environments"
            )
        with self._visit:
            self._running = False
            for i, one in enumerate(seeds):
                self._start(i, one, options)
            self._running = True
        observations = self._batch.observe() if self._copy else dict(self._shown)
        return observations, self._infos(self._no_shares)

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Takes one action in every sub-environment; starts a new episode where one has ended.

        Args:
            actions: (num_envs,) whole numbers, the tile of each.

        Raises:
            IllegalActionError: actions of another shape or type, no such tile, or a masked one with
                ``on_illegal="raise"``; no sub-environment has moved then.
            ResetNeeded: before reset, or after close.
            ForkedError: in a process that was forked from the one that made ``threads``, or while
                another thread was in here.
        """
        with self._visit:
            return self._step(actions)

    def _step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() first")
        resting = self._results["ended"].copy()
        tiles = self._checked(actions, resting)
        for i in resting.nonzero()[0].tolist():
            self._start(i)
        copies = self._batch.step(tiles, resting, copy=self._copy)
        ended = self._results["ended"].nonzero()[0].tolist()
        finals = {i: self._finish(i) for i in ended}
        rewards, terminated = self._results["rewards"].copy(), self._results["ended"].copy()
        shares = self._no_shares
        final: dict[str, Any] = {}
        if self._same_step and finals:
            final = self._final_infos(finals, terminated)
            for i in finals:
                self._start(i)
                for key, rows in (copies or {}).items():
                    rows[i] = self._state[key][i]
        elif finals:
            shares = np.zeros(shares.shape)
            for i, (_, info) in finals.items():
                shares[i] = info["slice_throughput"]
        return (
            dict(self._shown) if copies is None else copies,
            rewards,
            terminated,
            np.zeros(self.num_envs, dtype=np.bool_),
            {**self._infos(shares), **final},
        )

    def action_masks(self) -> BoolArray:
        """(num_envs, actions) bool, what is legal for the next slices; works before reset too."""
        return self._episodes.masks.astype(np.bool_)

    def sub_environments(self) -> tuple[SpatialSchedulingEnv, ...]:
        """Every sub-environment, the face of its row of the batch: only to look at."""
        return tuple(self._envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The result of a method, or the value of an attribute, of every sub-environment."""
        values = [getattr(env, name) for env in self.sub_environments()]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The value of an attribute of every sub-environment."""
        return tuple(getattr(env, name) for env in self._envs)

    def render(self) -> tuple[Any, ...]:
        """What each sub-environment renders."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the sub-environments."""
        self._running = False
        for env in self._envs:
            env.close()

    def _checked(self, actions: Any, resting: BoolArray) -> npt.NDArray[np.int64]:
        given = np.ascontiguousarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise IllegalActionError(
                f"actions of shape {given.shape} and type {given.dtype}: must be "
                f"({self.num_envs},) whole numbers"
            )
        tiles: npt.NDArray[np.int64] = given.astype(np.int64, copy=False)
        # A negative number is a huge one here.
        unsigned = tiles.view(np.uint64)
        if unsigned.max() >= self._choices:
            i = int(np.argmax(unsigned >= self._choices))
            raise IllegalActionError(
                f"action {given[i]} of sub-environment {i}: {self._what} are 0 to "
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
        """Ends the episode that has come to its end; its observation and info."""
        self._episodes.finish(i)
        observation, _, info = self._episodes.shown(i)
        return observation, info

    def _final_infos(
        self, finals: dict[int, tuple[Observation, dict[str, Any]]], ended: BoolArray
    ) -> dict[str, Any]:
        """How episodes ended that have been followed by others already."""
        observations = np.full(self.num_envs, None, dtype=object)
        infos: dict[str, Any] = {}
        for i, (observation, info) in finals.items():
            observations[i] = observation
            infos = self._add_info(infos, info, i)
        return {
            "final_obs": observations,
            "_final_obs": ended.copy(),
            "final_info": infos,
            "_final_info": ended.copy(),
        }

    def _infos(self, shares: npt.NDArray[np.float64]) -> dict[str, Any]:
        chosen = {}
        if self._episodes.sessions[0].chooses_node:
            chosen["node"] = self._results["node"].copy()
        return {
            "action_mask": self._episodes.masks.copy(),
            "illegal_actions": self._results["illegal_actions"].copy(),
            "throughput": self._results["throughput"].copy(),
            "incumbent_throughput": self._incumbent_throughput.copy(),
            "slice": self._results["slice"].copy(),
            "tile": self._results["tile"].copy(),
            "slice_throughput": shares,
            **chosen,
            **self._given,
        }

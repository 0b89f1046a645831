"""What vector environments share whose episodes are rows of a batch in C++."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from pmoss_env.backends.process_lock import ForkGuard
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.types import BoolArray

Observation = dict[str, npt.NDArray[Any]]
#: The modes of Gymnasium's AutoresetMode that are known here; Gymnasium 1.0 has no such words yet.
NEXT_STEP, SAME_STEP = AUTORESET_MODES = ("NextStep", "SameStep")
_Env = TypeVar("_Env", bound=gymnasium.Env[Any, Any])
_Steps = tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]


class Rows(Protocol):
    """The batch, as this file needs it: see the ``Episodes`` of an environment."""

    state: Observation
    results: dict[str, npt.NDArray[Any]]

    @property
    def masks(self) -> npt.NDArray[np.int8]:
        """(rows, actions) int8."""
        ...


class BatchVectorEnv(
    VectorEnv[Observation, npt.NDArray[np.int64], npt.NDArray[Any]], Generic[_Env], ABC
):
    """Sub-environments that are the faces of rows of a batch.

    A subclass sets ``_episodes``. It says how an action is checked and how the batch advances, how
    an episode starts and how it ends.

    Attributes:
        autoreset_mode: as TorchRL and Gymnasium's own vector environments have it.
        info_keys: what the info of a sub-environment holds.
    """

    _episodes: Rows

    def __init__(
        self,
        envs: Sequence[_Env],
        *,
        copy: bool,
        autoreset_mode: Any,
        info_keys: Sequence[str],
    ) -> None:
        """Takes the sub-environments over.

        Args:
            envs: under the same arguments.
            copy: whether observations are fresh arrays.
            autoreset_mode: "NextStep" or "SameStep", or Gymnasium's enum of these values.
            info_keys: of a sub-environment.

        Raises:
            UnknownNameError: another autoreset mode.
        """
        autoreset_mode = checked_mode(autoreset_mode)
        first = envs[0]
        self._envs = list(envs)
        self.num_envs = len(envs)
        modes = getattr(gymnasium.vector, "AutoresetMode", str)
        self.autoreset_mode = modes(autoreset_mode)
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self._same_step = autoreset_mode == SAME_STEP
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = cast(
            gymnasium.Space[Observation], batch_space(first.observation_space, self.num_envs)
        )
        self.action_space = cast(
            gymnasium.Space[npt.NDArray[np.int64]], batch_space(first.action_space, self.num_envs)
        )
        self._copy = copy
        # Read-only, so that every call can return it.
        everybody = np.ones(self.num_envs, dtype=np.bool_)
        everybody.setflags(write=False)
        self.info_keys = tuple(info_keys)
        self._given = {f"_{key}": everybody for key in info_keys}
        self._running = False
        self._fork_guard = ForkGuard()

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
        with self._fork_guard:
            self._running = False
            for i, one in enumerate(seeds):
                self._start(i, one, options)
            self._running = True
        return self._observed(), self._infos({})

    def step(self, actions: npt.NDArray[np.int64]) -> _Steps:
        """Takes one action in every sub-environment; starts a new episode where one has ended.

        Args:
            actions: whole numbers, a row of each sub-environment as its action space says.

        Raises:
            IllegalActionError: actions of another shape or type, none of the space, or a masked one
                with ``on_illegal="raise"``; no sub-environment has moved then.
            ResetNeeded: before reset, or after close.
            ForkedError: in a process that was forked from the one that made ``threads``, or while
                another thread was in here.
        """
        with self._fork_guard:
            if not self._running:
                raise ResetNeeded("no episode is running: call reset() first")
            return self._step(actions)

    def _step(self, actions: npt.NDArray[np.int64]) -> _Steps:
        ended = self._ended()
        resting = ended.copy()
        checked = self._checked(actions, resting)
        for i in resting.nonzero()[0].tolist():
            self._start(i)
        observations = self._advance(checked, resting)
        finals = {i: self._finish(i) for i in ended.nonzero()[0].tolist()}
        results = self._episodes.results
        rewards, ended = results["rewards"].copy(), ended.copy()
        final: dict[str, Any] = {}
        if self._same_step and finals:
            final = self._final_infos(finals, ended)
            for i in finals:
                self._start(i)
                if self._copy:
                    for key, rows in observations.items():
                        rows[i] = self._episodes.state[key][i]
            finals = {}
        never = np.zeros(self.num_envs, dtype=np.bool_)
        ends = (ended, never) if self._ended_by == "ended" else (never, ended)
        return observations, rewards, *ends, {**self._infos(finals), **final}

    def action_masks(self) -> BoolArray:
        """(num_envs, actions) bool, what is legal next; works before reset too."""
        return self._episodes.masks.astype(np.bool_)

    def sub_environments(self) -> tuple[_Env, ...]:
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

    #: The result that says which episodes have ended: "ended" ones terminate.
    _ended_by = "ended"

    def _ended(self) -> BoolArray:
        return cast(BoolArray, self._episodes.results[self._ended_by])

    @abstractmethod
    def _observed(self) -> Observation:
        """All observations, fresh or read-only."""

    @abstractmethod
    def _checked(self, actions: Any, resting: BoolArray) -> npt.NDArray[np.int64]:
        """The actions, or IllegalActionError; those of ``resting`` rows do not matter."""

    @abstractmethod
    def _advance(self, actions: npt.NDArray[np.int64], resting: BoolArray) -> Observation:
        """Steps the batch; the observations after it."""

    @abstractmethod
    def _start(
        self, i: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Begins an episode in a row."""

    @abstractmethod
    def _finish(self, i: int) -> tuple[Observation, dict[str, Any]]:
        """Ends the episode that has come to its end; its observation and info."""

    @abstractmethod
    def _infos(self, finals: dict[int, tuple[Observation, dict[str, Any]]]) -> dict[str, Any]:
        """The infos of all rows; ``finals`` are those that have ended now."""

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


def read_only(state: Observation) -> Observation:
    """Views of the arrays that nobody can write through."""
    shown = {key: rows.view() for key, rows in state.items()}
    for rows in shown.values():
        rows.setflags(write=False)
    return shown


def checked_mode(autoreset_mode: Any) -> str:
    """The name of an autoreset mode; UnknownNameError for another one."""
    mode = getattr(autoreset_mode, "value", autoreset_mode)
    if mode not in AUTORESET_MODES:
        raise UnknownNameError("autoreset_mode", mode, AUTORESET_MODES)
    return cast(str, mode)


#: Native threads that step a batch, at most: far more than any host has cores.
MAX_THREADS = 1024


def check_counts(num_envs: Any, threads: Any) -> None:
    """DescriptionError unless both are whole numbers from 1, or for too many threads."""
    for name, value in (("num_envs", num_envs), ("threads", threads)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DescriptionError(f"{name} = {value!r}: must be a whole number from 1")
    if threads > MAX_THREADS:
        raise DescriptionError(f"threads = {threads}: must be at most {MAX_THREADS:,}")


__all__ = [
    "AUTORESET_MODES",
    "NEXT_STEP",
    "SAME_STEP",
    "BatchVectorEnv",
    "check_counts",
    "checked_mode",
    "read_only",
]

"""Base of vector environments whose episodes are rows of a batch in C++."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from pmoss_env.backends import backend_names
from pmoss_env.backends.process_lock import ForkGuard
from pmoss_env.checks import check_name, check_whole
from pmoss_env.errors import DescriptionError, IllegalActionError, UnsupportedError
from pmoss_env.types import BoolArray

Observation = dict[str, npt.NDArray[Any]]
#: The supported modes of Gymnasium's AutoresetMode, which Gymnasium 1.0 does not have.
NEXT_STEP, SAME_STEP = AUTORESET_MODES = ("NextStep", "SameStep")
#: Most native threads of a batch: more than any host has cores.
MAX_THREADS = 1024
#: Most sub-environments of a vector environment. On the default machine each takes some megabytes.
MAX_ENVS = 4096
_Env = TypeVar("_Env", bound=gymnasium.Env[Any, Any])
_Steps = tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]


class Rows(Protocol):
    """A batch of episodes: the ``Episodes`` of an environment."""

    state: Observation
    results: dict[str, npt.NDArray[Any]]

    @property
    def masks(self) -> npt.NDArray[np.int8]:
        """(rows, actions) int8."""
        ...


class BatchVectorEnv(
    VectorEnv[Observation, npt.NDArray[np.int64], npt.NDArray[Any]], Generic[_Env], ABC
):
    """A vector of sub-environments that are views of rows of a batch.

    A subclass makes the batch. It defines how actions are checked, how the batch advances, and how
    episodes start and end.

    After the end of an episode the next call of step() resets the sub-environment, ignores its
    action and gives the reward 0. With ``autoreset_mode="SameStep"`` the call that ends an episode
    also resets it: it returns the new observation and info, and the final ones in
    ``infos["final_obs"]`` and ``infos["final_info"]``. ``metadata["autoreset_mode"]`` is the mode.

    Infos follow Gymnasium's convention for vectors. There is an array per key of the single
    environment's info, with a row per sub-environment. Its (num_envs,) bool mask under
    ``"_" + key`` is always all True.

    Attributes:
        autoreset_mode: as in TorchRL and Gymnasium's own vector environments.
        info_keys: keys of the info of a sub-environment.
    """

    #: The class of the sub-environments.
    _env_class: type[Any]
    _episodes: Rows

    def __init__(
        self,
        num_envs: int = 1,
        *,
        threads: int = 1,
        copy: bool = True,
        autoreset_mode: Any = NEXT_STEP,
        **arguments: Any,
    ) -> None:
        """Creates the sub-environments.

        Args:
            num_envs: number of sub-environments, N.
            threads: number of native threads that step them; the results do not depend on it.
            copy: whether observations are fresh arrays. Otherwise every call returns the same
                read-only arrays, which the next call changes.
            autoreset_mode: "NextStep" or "SameStep", or Gymnasium's enum of these values.

        Raises:
            UnsupportedError: a backend without a native model; here all but "analytic".
            UnknownNameError: another autoreset mode.
            DescriptionError: an invalid value.
        """
        check_whole("num_envs", num_envs, 1, MAX_ENVS)
        check_whole("threads", threads, 1, MAX_THREADS)
        mode = getattr(autoreset_mode, "value", autoreset_mode)
        check_name("autoreset_mode", mode, AUTORESET_MODES)
        backend = arguments.get("backend", "analytic")
        if backend in backend_names() and not self._is_native(backend):
            raise UnsupportedError(
                f"backend = {backend!r}: the native vector environment needs the backend "
                "'analytic'; give gymnasium.make_vec() vectorization_mode='sync'"
            )
        self._envs: list[_Env] = [self._env_class(**arguments) for _ in range(num_envs)]
        first = self._envs[0]
        self.num_envs = num_envs
        self.autoreset_mode = getattr(gymnasium.vector, "AutoresetMode", str)(mode)
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self._same_step = mode == SAME_STEP
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = cast(
            gymnasium.Space[Observation], batch_space(first.observation_space, num_envs)
        )
        self.action_space = cast(
            gymnasium.Space[npt.NDArray[np.int64]], batch_space(first.action_space, num_envs)
        )
        self._copy, self._raises = copy, arguments.get("on_illegal") == "raise"
        self._episodes, self.info_keys = self._make_episodes(first, threads)
        for i, env in enumerate(self._envs):
            env.join(self._episodes, i)  # type: ignore[attr-defined]
        self._shown = {key: rows.view() for key, rows in self._episodes.state.items()}
        # Read-only, so that every call can return it.
        all_rows = np.ones(num_envs, dtype=np.bool_)
        for rows in (*self._shown.values(), all_rows):
            rows.setflags(write=False)
        self._given = {f"_{key}": all_rows for key in self.info_keys}
        self._running = False
        #: Whether a masked action was taken, which is said once.
        self._saw_masked = False
        self._fork_guard = ForkGuard()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode in every sub-environment.

        Args:
            seed: None, one for each sub-environment, or a number for seed, seed + 1, ...

        Raises:
            DescriptionError: a wrong number of seeds.
            ForkedError: in a process that was forked after the threads were started, or while
                another thread was in this call.
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
            self._start(range(self.num_envs), seeds, options)
            self._running = True
        return self._observed(), self._infos(())

    def step(self, actions: npt.NDArray[np.int64]) -> _Steps:
        """Steps every sub-environment; starts a new episode after the end of one.

        Args:
            actions: whole numbers, a row per sub-environment, of its action space.

        Raises:
            IllegalActionError: actions of another shape or type, outside of the space, or masked
                with ``on_illegal="raise"``; no sub-environment was stepped.
            ResetNeeded: before reset, or after close.
            ForkedError: in a process that was forked after the threads were started, or while
                another thread was in this call.
        """
        with self._fork_guard:
            if not self._running:
                raise ResetNeeded("no episode is running: call reset() first")
            return self._step(actions)

    def _step(self, actions: npt.NDArray[np.int64]) -> _Steps:
        ended = self._ended()
        resting = ended.copy()
        starting: Sequence[int] = resting.nonzero()[0].tolist()
        checked = self._checked(actions, starting)
        if starting:
            self._start(starting)
        observations = self._advance(checked, resting)
        over: Sequence[int] = ended.nonzero()[0].tolist()
        for i in over:
            self._finish(i)
        if over and not self._saw_masked:
            self._warn_of_masked(over)
        results = self._episodes.results
        rewards, ended = results["rewards"].copy(), ended.copy()
        final: dict[str, Any] = {}
        if self._same_step and over:
            final = self._final_infos(over, ended)
            self._start(over)
            if self._copy:
                for key, rows in observations.items():
                    rows[over] = self._episodes.state[key][over]
            over = ()
        never = np.zeros(self.num_envs, dtype=np.bool_)
        ends = (ended, never) if self._ended_by == "ended" else (never, ended)
        return observations, rewards, *ends, {**self._infos(over), **final}

    def _warn_of_masked(self, rows: Iterable[int]) -> None:
        """Says it once where ended episodes have masked actions: a look at each step would cost."""
        for i in rows:
            if count := int(self._episodes.results["illegal_actions"][i]):
                self._saw_masked = True
                gymnasium.logger.warn(
                    f"sub-environment {i}: the mask forbids {count} actions of the episode; see "
                    "infos['action_mask']. infos['illegal_actions'] counts such actions"
                )
                return

    def action_masks(self) -> BoolArray:
        """(num_envs, actions) bool, the legal actions; also before reset."""
        return self._episodes.masks.astype(np.bool_)

    def sub_environments(self) -> tuple[_Env, ...]:
        """The sub-environments, views of the rows of the batch; read-only."""
        return tuple(self._envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The result of a method, or the value of an attribute, of every sub-environment."""
        values = [getattr(env, name) for env in self.sub_environments()]
        return tuple(value(*args, **kwargs) if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The value of an attribute of every sub-environment."""
        return tuple(getattr(env, name) for env in self._envs)

    def render(self) -> tuple[Any, ...]:
        """The picture of each sub-environment."""
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the sub-environments."""
        self._running = False
        for env in self._envs:
            env.close()

    #: The key of the results that marks ended episodes; "ended" ones terminate.
    _ended_by = "ended"

    def _ended(self) -> BoolArray:
        return cast(BoolArray, self._episodes.results[self._ended_by])

    def _whole_numbers(self, actions: Any) -> npt.NDArray[np.int64]:
        """The actions as int64, or IllegalActionError for another shape or type."""
        given = np.ascontiguousarray(actions)
        if given.shape != self.action_space.shape or given.dtype.kind not in "iu":
            raise IllegalActionError(
                f"actions of shape {given.shape} and type {given.dtype}: must be "
                f"{self.action_space.shape} whole numbers"
            )
        return given.astype(np.int64, copy=False)

    @staticmethod
    @abstractmethod
    def _is_native(backend: str) -> bool:
        """Whether the batch can be stepped on the backend of this name."""

    @abstractmethod
    def _make_episodes(self, first: _Env, threads: int) -> tuple[Rows, tuple[str, ...]]:
        """The batch of all sub-environments, and the keys of their infos."""

    @abstractmethod
    def _observed(self) -> Observation:
        """All observations, fresh or read-only."""

    @abstractmethod
    def _checked(self, actions: Any, starting: Sequence[int]) -> npt.NDArray[np.int64]:
        """The actions, or IllegalActionError; rows that are ``starting`` may take masked ones.

        Where no row starts, what the batch refuses itself need not be checked.
        """

    @abstractmethod
    def _advance(self, actions: npt.NDArray[np.int64], resting: BoolArray) -> Observation:
        """Steps the batch and returns the observations."""

    def _start(
        self,
        rows: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Starts an episode in each of some rows; ``seeds`` are theirs."""
        for i, seed in zip(rows, seeds or [None] * len(rows), strict=True):
            self._envs[i].draw(seed=seed, options=options)  # type: ignore[attr-defined]

    @abstractmethod
    def _finish(self, i: int) -> None:
        """Ends the episode of a row that is over."""

    @abstractmethod
    def _final(self, i: int) -> tuple[Observation, dict[str, Any]]:
        """The observation and the info of a row whose episode is over."""

    @abstractmethod
    def _infos(self, over: Sequence[int]) -> dict[str, Any]:
        """The infos of all rows; ``over`` are those whose episodes are."""

    def _final_infos(self, over: Sequence[int], ended: BoolArray) -> dict[str, Any]:
        """The final observations and infos of episodes that were reset."""
        observations = np.full(self.num_envs, None, dtype=object)
        infos: dict[str, Any] = {}
        for i in over:
            observations[i], info = self._final(i)
            infos = self._add_info(infos, info, i)
        return {
            "final_obs": observations,
            "_final_obs": ended.copy(),
            "final_info": infos,
            "_final_info": ended.copy(),
        }

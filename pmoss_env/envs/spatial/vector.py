"""Vectors of episodes of spatial scheduling, stepped in C++ (native/environment)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded

from pmoss_env.backends import backend_class
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.episodes import INFO_KEYS, Episodes, Observation
from pmoss_env.envs.vector import BatchVectorEnv
from pmoss_env.errors import IllegalActionError, UnsupportedError
from pmoss_env.types import BoolArray


class SpatialVectorEnv(BatchVectorEnv[SpatialSchedulingEnv]):
    """The vector form of ``SpatialSchedulingEnv`` on the analytic backend.

    ``gymnasium.make_vec("pmoss/SpatialScheduling-v0", num_envs=n)`` makes it. Every
    sub-environment gives the same bits as the single environment with the same seed and actions,
    whatever ``num_envs`` and ``threads``. Observations, rewards, masks and moves of the model are
    computed in C++ without the interpreter's lock. So are the measurements of incumbents and of
    final schedules, row beside row. The rest of the begin and the end of an episode is Python.

    With ``threads`` above 1, the other threads measure the incumbents of next episodes while these
    run. An environment then holds two models, which take turns.

    See BatchVectorEnv for its arguments, autoreset modes and infos.
    """

    _env_class = SpatialSchedulingEnv
    _episodes: Episodes

    @staticmethod
    def _is_native(backend: str) -> bool:
        return hasattr(backend_class(backend), "model")

    def _make_episodes(
        self, first: SpatialSchedulingEnv, threads: int
    ) -> tuple[Episodes, tuple[str, ...]]:
        sessions = [env.session for env in self._envs]
        episodes = Episodes(sessions, first.observation_space, threads)
        self._prepares = threads > 1
        self._was_seeded = False
        self._batch, self._results = episodes.batch, episodes.results
        self._chooses_node = first.session.chooses_node
        self._choices = int(cast(gymnasium.spaces.Discrete, first.action_space).n)
        self._incumbent_throughput = np.zeros(self.num_envs)
        # Read-only, so that every call can return it.
        self._no_shares = np.zeros((self.num_envs, first.slices))
        self._no_shares.setflags(write=False)
        self._facts: Observation = {}
        self._keeps_facts = first.observation_mode == "compact"
        return episodes, (*INFO_KEYS, *(["node"] if self._chooses_node else []))

    def _observed(self) -> Observation:
        return self._batch.observe() if self._copy else dict(self._shown)

    def _advance(self, actions: npt.NDArray[np.int64], resting: BoolArray) -> Observation:
        try:
            copies = self._batch.step(actions, resting, copy=self._copy)
        except ValueError:
            self._check_choices(actions)
            raise
        return dict(self._shown) if copies is None else copies

    def _check_choices(self, tiles: npt.NDArray[np.int64]) -> None:
        outside = (tiles < 0) | (tiles >= self._choices)
        if outside.any():
            i = int(np.argmax(outside))
            kind = "actions" if self._chooses_node else "tiles"
            raise IllegalActionError(
                f"action {tiles[i]} of sub-environment {i}: {kind} are 0 to {self._choices - 1}"
            )

    def _checked(self, actions: Any, starting: Sequence[int]) -> npt.NDArray[np.int64]:
        tiles = self._whole_numbers(actions)
        if starting or self._raises:
            self._check_choices(tiles)
        if self._raises:
            masked = self._episodes.masks[np.arange(self.num_envs), tiles] == 0
            masked[starting] = False
            if masked.any():
                i = int(np.argmax(masked))
                raise IllegalActionError(
                    f"action {tiles[i]} of sub-environment {i}: the mask forbids it; "
                    "see infos['action_mask']"
                )
        return tiles

    def _start(
        self,
        rows: Sequence[int],
        seeds: Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super()._start(rows, seeds, options)
        self._episodes.begin(rows)
        # Whoever seeds each episode discards what is prepared.
        seeded = any(seed is not None for seed in seeds or ())
        if self._prepares and not (seeded and self._was_seeded):
            self._episodes.prepare(rows, [self._envs[i].np_random for i in rows])
        self._was_seeded = seeded
        for i in rows:
            session = self._envs[i].session
            self._incumbent_throughput[i] = session.incumbent_snapshot.throughput
            if self._keeps_facts:
                for key, values in session.facts().items():
                    facts = self._facts.setdefault(
                        key, np.zeros((self.num_envs, *values.shape), values.dtype)
                    )
                    facts[i] = values

    def episode_facts(self) -> Observation:
        """``SpatialSchedulingEnv.episode_facts()`` of all rows, (num_envs, ...), without copies.

        The arrays are read-only; a call that starts an episode in a row changes them there.

        Raises:
            UnsupportedError: another ``observation`` than "compact".
            ResetNeeded: before reset.
        """
        if not self._keeps_facts:
            raise UnsupportedError(
                "episode_facts() belongs to observation='compact'; the sub-environments have theirs"
            )
        if not self._facts:
            raise ResetNeeded("no episode is running: call reset() first")
        shown = {key: rows.view() for key, rows in self._facts.items()}
        for rows in shown.values():
            rows.setflags(write=False)
        return shown

    def _finish(self, i: int) -> None:
        self._episodes.finish(i)

    def _final(self, i: int) -> tuple[Observation, dict[str, Any]]:
        observation, _, info = self._episodes.shown(i)
        return observation, info

    def _infos(self, over: Sequence[int]) -> dict[str, Any]:
        shares = self._no_shares
        if over:
            shares = np.zeros(shares.shape)
            for i in over:
                session = self._envs[i].session
                assert session.final_shares is not None
                shares[i] = session.final_shares[session.order]
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

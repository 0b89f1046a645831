"""Episodes that advance together: their sessions and the native batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pmoss_env import _native
from pmoss_env.envs.spatial.session import Session
from pmoss_env.types import BoolArray, Int8Array, Schedule

Observation = dict[str, npt.NDArray[Any]]
#: Result of EpisodeBatch.observe_one().
Shown = tuple[Observation, Int8Array, float, float, int, int, int, int]
#: The keys of info, at reset and at every step.
INFO_KEYS = (
    "action_mask",
    "illegal_actions",
    "throughput",
    "incumbent_throughput",
    "slice",
    "tile",
    "slice_throughput",
)


class Episodes:
    """An episode per session, all under the same rules. Row i belongs to session i.

    Attributes:
        sessions: the sessions.
        state: the arrays of observations, a row per episode; written by the batch.
        results: the arrays of the other results of a step, an element per episode.
        batch: the native batch.
    """

    def __init__(
        self, sessions: Sequence[Session], space: spaces.Space[Any], threads: int = 1
    ) -> None:
        """Allocates the arrays.

        Args:
            sessions: with the same arguments.
            space: the observation space of one environment, a ``Dict``.
        """
        self.sessions = sessions
        rows = len(sessions)
        self._no_shares = np.zeros(sessions[0].slices)
        self.state: Observation = {
            key: np.zeros((rows, *cast(tuple[int, ...], box.shape)), box.dtype)
            for key, box in cast(spaces.Dict, space).items()
        }
        self._tiles = self.state["position_mask"].reshape(rows, -1)
        self._tiles[:] = sessions[0].machine.worker_tiles
        self._nodes = self.state.get("node_mask")
        if self._nodes is not None:
            room = sessions[0].slices_of_node
            self._nodes[:] = 1 if room is None else room > 0
        self.results: dict[str, npt.NDArray[Any]] = {
            "rewards": np.zeros(rows),
            "ended": np.zeros(rows, dtype=np.bool_),
            "throughput": np.zeros(rows),
            "illegal_actions": np.zeros(rows, dtype=np.int64),
            "slice": np.zeros(rows, dtype=np.int64),
            "tile": np.zeros(rows, dtype=np.int64),
            "node": np.zeros(rows, dtype=np.int64),
        }
        self.batch = _native.EpisodeBatch(
            sessions[0].rules,
            [session.model for session in sessions],
            observations=self.state,
            results=self.results,
            threads=threads,
        )

    def begin(self, rows: Sequence[int]) -> None:
        """Begins the drawn episodes of some sessions; a model measures them side by side."""
        sessions = [self.sessions[i] for i in rows]
        measured: Sequence[_native.ModelSnapshot | None] = [None] * len(rows)
        if sessions[0].model is not None:
            openings = [session.opening(i) for i, session in zip(rows, sessions, strict=True)]
            prepared = [i for i in rows if self.sessions[i].is_prepared]
            measured = (
                self.batch.open(openings, prepared) if prepared else self.batch.open(openings)
            )
        for i, session, raw in zip(rows, sessions, measured, strict=True):
            session.begin(raw)
            self.start(i)

    def prepare(self, rows: Sequence[int], rngs: Sequence[np.random.Generator]) -> None:
        """Has the native threads prepare the next episodes of some rows while these run.

        Args:
            rows: whose episodes begin.
            rngs: the generator of each of these rows.
        """
        ahead = [self.sessions[i].draw_ahead(rng, i) for i, rng in zip(rows, rngs, strict=True)]
        self.batch.prepare([opening for opening in ahead if opening is not None])

    def start(self, i: int) -> None:
        """Starts the episode of session ``i`` in the batch."""
        session = self.sessions[i]
        self.batch.start(
            i,
            counters=session.counters,
            meta=session.meta,
            order=session.order,
            cores=session.incumbent.cores,
            nodes=session.incumbent.nodes,
            readings=session.readings,
            throughput=session.incumbent_snapshot.throughput,
        )

    @property
    def masks(self) -> Int8Array:
        """(rows, actions) int8, 1 = legal; read-only."""
        if self._nodes is None:
            return self._tiles
        masks: Int8Array = self._tiles[:, :, None] * self._nodes[:, None, :]
        return masks.reshape(len(masks), -1)

    def step(self, i: int, action: int) -> tuple[bool, Shown | None]:
        """Steps an episode; measures the schedule if the step requires it.

        Returns:
            Whether the episode is over, and the argument of shown(); None after a measurement.
        """
        ended, due, shown = self.batch.step_one(i, action)
        if ended:
            self.finish(i)
        elif due:
            session = self.sessions[i]
            steps = self.batch.placed(i).size
            slice_ = int(session.order[steps - 1])
            self.batch.read(i, session.ask(self.schedule(i), slice_, steps))
        return ended, shown

    def finish(self, i: int) -> None:
        """Measures the final schedule of episode ``i`` and ends it."""
        session = self.sessions[i]
        # The schedule of the last step may have been measured already.
        self.batch.read(i, session.measure_final(self.schedule(i)))
        session.end(float(self.results["throughput"][i]))

    def schedule(self, i: int) -> Schedule:
        """The present full schedule: slices placed so far, the others as the incumbent."""
        return Schedule(*self.batch.schedule(i))

    def legal(self, i: int) -> BoolArray:
        """(actions,) bool, the legal actions for the next slice of episode ``i``."""
        legal: BoolArray = self.masks[i].astype(np.bool_)
        return legal

    def shown(
        self, i: int, latest: Shown | None = None
    ) -> tuple[Observation, float, dict[str, Any]]:
        """The observation of episode ``i`` in fresh arrays, the latest reward, and the info.

        Args:
            latest: result of the latest step(), for the first call after it.
        """
        session = self.sessions[i]
        shown = self.batch.observe_one(i) if latest is None else latest
        observation, mask, reward, throughput, illegal, slice_, tile, node = shown
        final = session.final_shares
        info = {
            "action_mask": mask,
            "illegal_actions": illegal,
            "throughput": throughput,
            "incumbent_throughput": session.incumbent_snapshot.throughput,
            "slice": slice_,
            "tile": tile,
            "slice_throughput": (self._no_shares.copy() if final is None else final[session.order]),
        }
        if session.chooses_node:
            info["node"] = node
        return observation, reward, info

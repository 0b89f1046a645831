"""Continual scheduling: keeps a running index fast while its surroundings change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from pmoss_env.checks import check_options
from pmoss_env.context import Context
from pmoss_env.envs.actions import whole_number
from pmoss_env.envs.base import BaseEnv
from pmoss_env.envs.continual.arguments import Arguments
from pmoss_env.envs.continual.episodes import INFO_KEYS, Episodes
from pmoss_env.envs.continual.observation import Observation, observation_space
from pmoss_env.envs.continual.session import Session
from pmoss_env.errors import IllegalActionError
from pmoss_env.machines import Machine
from pmoss_env.types import BoolArray


class ContinualSchedulingEnv(BaseEnv[Observation, npt.NDArray[np.int64]]):
    """Keep a running index fast on a NUMA server while its surroundings change.

    ## Description

    An index is cut into ``slices`` key ranges, each served by a worker core. It runs all the time,
    and time is divided into epochs. Before each epoch a policy may move slices to other cores. A
    moved slice changes its core at once; its data follow while queries run, one copy at a time.
    Until they have arrived, the slice is served remotely. Copies take memory and link bandwidth,
    and a moved slice finds none of its lines in the caches.

    Meanwhile the surroundings drift: batch jobs start, compute and shuffle, memory gets busy, hot
    ranges move. Only the counters of the last epoch show it.

    This is the loop of P-MOSS (sections 3 to 5): probe, learn, move, and repeat.

    ## Observation Space

    A ``Dict`` over the machine's grid of r x c core tiles, with H counters
    (``pmoss_env.types.COUNTERS``) and S slices:

    | key | shape, type | meaning |
    |---|---|---|
    | `slice_counters` | (S, H) float32 | of the last epoch, million counts/s; 0 if unavailable |
    | `core_counters` | (r, c, H) float32 | the same, summed over the slices that each core served |
    | `meta` | (M,) float32 | GB/s per node and link, logical cores, nodes, sockets |
    | `last` | (4,) float32 | of the last epoch: Mq/s, p50 and p99 in us, GB copied |
    | `slice_tiles` | (S,) int32 | the tile of each slice, with the moves made so far |
    | `slice_nodes` | (S,) int32 | the node that holds its data |
    | `pending` | (S,) float32 | share of its data that is not copied yet |
    | `moved` | (S,) int8 | 1 = moved before the last epoch |
    | `slice_mask` | (S + 1,) int8 | 1 = may be moved; the last entry is "no further move" |
    | `tile_mask` | (r * c,) int8 | 1 = a worker core |
    | `epoch` | (1,) float32 | epochs so far / ``epochs`` |
    | `moves_left` | (1,) float32 | moves left before the next epoch / ``moves_per_epoch`` |

    ``pmoss_env.envs.spatial.meta_names(machine)`` names the entries of ``meta``.
    ``context(rng).snapshot.counters_available`` says which counters are available.

    ## Action Space

    ``MultiDiscrete([S + 1, r * c])``: a slice and its new tile. The last slice index means "no
    further move": the epoch begins, as it does after ``moves_per_epoch`` moves. A slice moves at
    most once before an epoch. A move to its own tile changes nothing, but counts as a move.

    Each part has a mask: ``slice_mask`` and ``tile_mask`` of the observation. ``action_masks()``
    and ``info["action_mask"]`` are both masks concatenated. Gymnasium samples with a mask per part:
    ``action_space.sample((observation["slice_mask"], observation["tile_mask"]))``. The tile does
    not matter with "no further move". On a masked action ``on_illegal`` decides: "leave" moves
    nothing, but counts as a move; "raise" raises IllegalActionError. Illegal actions are counted in
    ``info["illegal_actions"]``.

    ## Rewards

    A step that begins an epoch has the million queries served in it as its reward; all others have
    0. With ``p99_limit_us``, queries with a longer response time do not count. ``price_per_gb`` is
    subtracted for each gigabyte copied in the epoch.

    ## Starting State

    ``reset`` draws from its seed the workload instance, the true machine, the course of the drift
    and the noise. It runs epoch 0 under the ``incumbent``.

    ## Episode End

    Never ``terminated``. ``truncated`` after ``epochs`` epochs, epoch 0 not counted.

    ## Information

    The same keys at reset and at every step:

    - ``action_mask``: (S + 1 + r * c,) int8.
    - ``illegal_actions``: int, in this episode so far.
    - ``epoch``: int, epochs so far.
    - ``moves``: int, moves made for the next epoch so far.
    - ``queries``: float, million served in all epochs so far, epoch 0 not counted.
    - ``paid``: float, the sum of all rewards so far.
    - ``throughput``: float, Mq/s of the last epoch, without noise.
    - ``p99_us``: float, of the last epoch.
    - ``moved_gb``: float, copied in the last epoch.
    - ``pending_slices``: int, slices whose data have not arrived yet.

    ## Backends

    ``backend="analytic"`` models an epoch. ``backend="simulated"`` samples it on the simulated
    server, while data move and afterwards; only co-tenants drift, and there is no ``p99_limit_us``.
    ``backend="hardware"`` runs it: with ``machine="host"`` threads serve a real index on this host,
    under a closed load unless ``load`` says otherwise. Co-tenants are threads, too. The
    environment, its actions and its observations are the same, with these differences:

    - An epoch takes ``epoch_seconds``. Nothing repeats with the same bits.
    - Counters that this host does not count are 0; ``counters_available`` of the snapshot of
      ``context()`` shows them. If no query was completed, response times are NaN in ``info`` and 0
      in ``last``.
    - Queries that are served while a policy computes belong to no epoch.
    - A slice whose data move has a ``pending`` of 1: the copied share is unknown.
    - The threads end with the episode, and with ``close()``.

    ## Arguments

    All are plain JSON, so that ``env.spec.to_json()`` works.
    ``pmoss_env.envs.continual.arguments.Arguments`` describes them.

    Raises ``UnknownNameError`` for a name in no catalogue, ``UnsupportedError`` for arguments that
    machine or backend do not support, and ``DescriptionError`` for any other invalid value.

    ## References

    Rayhan and Aref, P-MOSS: Learned Scheduling For Indexes Over NUMA Servers Using Low-Level
    Hardware Statistics.

    ## Version History

    - v1: copies use latencies under load; before, idle latencies. Since then the response times
      of ``last`` have noise, too, where ``noise`` is not 0.
    - v0: first version.
    """

    def __init__(
        self,
        *,
        machine: str = "skylake-x-8n",
        index: str = "btree",
        workload: str = "ycsb-a",
        slices: int = 256,
        backend: str = "analytic",
        load: str = "closed",
        drift: str = "jobs",
        drift_options: Mapping[str, Any] | None = None,
        epochs: int = 100,
        epoch_seconds: float = 1.0,
        moves_per_epoch: int = 8,
        record_bytes: float = 1000.0,
        copy_gb_per_s: float = 0.0,
        p99_limit_us: float | None = None,
        price_per_gb: float = 0.0,
        deviation: float = 0.0,
        incumbent: str = "best-fit",
        workload_seed: int | None = None,
        counters: str = "all",
        noise: float = 0.0,
        on_illegal: str = "leave",
        backend_options: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        values = locals()
        values = {field.name: values[field.name] for field in fields(Arguments)}
        self.arguments = Arguments(**values)
        self.session = Session(self.arguments)
        self.observation_space = cast(
            spaces.Space[Observation], observation_space(self.session.machine, slices)
        )
        tiles = self.session.machine.tiles
        self.action_space = cast(
            spaces.Space[npt.NDArray[np.int64]], spaces.MultiDiscrete([slices + 1, tiles])
        )
        self.render_mode = render_mode
        self._raises, self._tiles = on_illegal == "raise", tiles
        self.join(Episodes(self.arguments, self.session.machine, self.observation_space), 0)

    def join(self, episodes: Episodes, row: int) -> None:
        """Makes this a view of a row of a batch, for a vector environment."""
        self._episodes, self._row = episodes, row
        self.session.join(episodes, row)

    @property
    def machine(self) -> Machine:
        """The described machine."""
        return self.session.machine

    @property
    def slices(self) -> int:
        """Number of slices."""
        return self.session.slices

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode; see the class's section on the starting state.

        Raises:
            UnknownNameError: an option; there are none.
            DescriptionError: options that are no dict.
        """
        self.draw(seed=seed, options=options)
        return self._episodes.observation(self._row), self._episodes.info(self._row)

    def draw(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Draws the start of an episode, and runs its first epoch; a vector shows it."""
        check_options(options)
        super().reset(seed=seed)
        self.session.begin(self.np_random)

    def step(self, action: npt.ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Moves a slice, or begins the next epoch.

        Raises:
            IllegalActionError: no such action, or a masked one with ``on_illegal="raise"``.
            ResetNeeded: before reset, or after the end of the episode.
        """
        if not self.session.running:
            raise ResetNeeded("no episode is running: call reset() first")
        slice_, tile = self._checked(action)
        episodes, row = self._episodes, self._row
        episodes.batch.step_one(row, slice_, tile)
        episodes.add_noise((row,))
        truncated = bool(episodes.results["truncated"][row])
        self.session.running = not truncated
        reward = float(episodes.results["rewards"][row])
        return episodes.observation(row), reward, False, truncated, episodes.info(row)

    def action_masks(self) -> BoolArray:
        """(S + 1 + r * c,) bool, the masks of both parts; also before reset."""
        masks: BoolArray = self._episodes.masks[self._row].astype(np.bool_)
        return masks

    def context(self, rng: np.random.Generator) -> Context:
        """The information for a baseline: schedule and snapshot of the last epoch."""
        self.session.need_episode()
        return Context(
            machine=self.machine,
            slices=self.slices,
            incumbent=self.machine.local_schedule(self.session.cores_seen),
            snapshot=self.session.snapshot.for_policies(),
            rng=rng,
        )

    def _picture(self, mode: str) -> Any:
        """The last epoch and the time before it."""
        from pmoss_env.envs.continual import viewer

        self.session.need_episode()
        return viewer.show(self.session, mode)

    def close(self) -> None:
        """Ends the episode, and on hardware all threads. Safe to repeat."""
        self.session.close()

    def _checked(self, action: npt.ArrayLike) -> tuple[int, int]:
        """The two parts of an action."""
        message = f"action {action!r}: must be whole numbers [slice, tile]"
        try:
            slice_, tile = (whole_number(part, message) for part in action)  # type: ignore[union-attr]
        except (TypeError, ValueError) as error:
            raise IllegalActionError(message) from error
        slices, tiles = self.slices, self._tiles
        if not (0 <= slice_ <= slices and 0 <= tile < tiles):
            wrong = (
                ("tile", tile, tiles - 1) if 0 <= slice_ <= slices else ("slice", slice_, slices)
            )
            raise IllegalActionError("{} {}: must be from 0 to {}".format(*wrong))
        if self._raises and slice_ < slices:
            self.refuse_masked(slice_, tile)
        return slice_, tile

    def refuse_masked(self, slice_: int, tile: int) -> None:
        """Raises IllegalActionError if the masks forbid a move."""
        state = self._episodes.state
        unmoved, works = state["slice_mask"][self._row, slice_], state["tile_mask"][self._row, tile]
        if unmoved and works:
            return
        reason = (
            f"the tile is no worker of {self.machine.name}"
            if unmoved
            else "the slice has moved before this epoch"
        )
        raise IllegalActionError(
            f"slice {slice_} to tile {tile}: {reason}; see info['action_mask']"
        )


__all__ = ["INFO_KEYS", "ContinualSchedulingEnv"]

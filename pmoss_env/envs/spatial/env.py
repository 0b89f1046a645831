"""Spatial scheduling: places every slice of a main-memory index on a core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from pmoss_env.backends import Backend
from pmoss_env.checks import check_options
from pmoss_env.context import Context
from pmoss_env.envs.actions import whole_action
from pmoss_env.envs.base import BaseEnv
from pmoss_env.envs.spatial.arguments import MIXTURE, Arguments
from pmoss_env.envs.spatial.episodes import INFO_KEYS, Episodes, Observation
from pmoss_env.envs.spatial.observation import observation_space
from pmoss_env.envs.spatial.rules import REWARDS, Reward
from pmoss_env.envs.spatial.session import Session
from pmoss_env.errors import IllegalActionError, ScheduleError
from pmoss_env.machines import Machine
from pmoss_env.types import BoolArray, HardwareSnapshot, Instance, Int32Array, Schedule

__all__ = ["INFO_KEYS", "REWARDS", "Observation", "Reward", "SpatialSchedulingEnv"]


class SpatialSchedulingEnv(BaseEnv[Observation, np.int64]):
    """Re-schedule a running main-memory index over the cores of a NUMA server.

    ## Description

    An index is cut into ``slices``: key ranges, or cells of a plane. A schedule assigns a worker
    core to each slice, and a NUMA node to its data; the throughput in million queries per second
    (Mq/s) depends on it. An episode starts with an incumbent schedule and shows the hardware
    counters under it. Each step places one slice again. The data of a slice go to the node of its
    core. Slices that are not yet placed stay where the incumbent has them. So every intermediate
    state is a full schedule that a server could run.

    This is the decision process of P-MOSS (section 6).

    ## Observation Space

    A ``Dict`` over the machine's grid of r x c core tiles, with H = 21 counters
    (``pmoss_env.types.COUNTERS``, million counts per second; 0 where not available):

    | key | shape, type | meaning |
    |---|---|---|
    | `view_mask` | (r, c) int8 | 1 = the tile hosts a slice placed in this episode |
    | `position_mask` | (r, c) int8 | 1 = the tile may take the next slice |
    | `machine_view` | (r, c, H) float32 | counters of the placed slices, summed per tile |
    | `meta` | (M,) float32 | GB/s per node and link, logical cores, nodes, sockets |
    | `slice` | (1,) float32 | index of the next slice / slices; 1 at the end |
    | `slice_view` | (H,) float32 | counters of the next slice; 0 at the end |
    | `incumbent_view` | (r, c, H) float32 | counters per tile under the incumbent schedule |

    All counters are those of the incumbent's snapshot; ``incumbent_snapshot.counters_available``
    says which are available. ``observation="paper"`` omits the last two keys.
    ``observation="complete"`` adds the whole state:

    | key | shape, type | meaning |
    |---|---|---|
    | `slice_counters` | (slices, H) float32 | counters of every slice under the incumbent |
    | `incumbent_tiles` | (slices,) int32 | the tile of each slice under the incumbent |
    | `slice_tiles` | (slices,) int32 | the tile of each slice now |

    ``observation="compact"`` has no key that stays the same in an episode or follows from others.
    It has ``position_mask``, ``slice``, ``slice_view``, with ``actions="core_node"`` ``node_mask``
    and ``node_room``, and:

    | key | shape, type | meaning |
    |---|---|---|
    | `slice_places` | (slices,) int16 | the action that would leave each slice where it is now |

    ``episode_facts()`` has the rest, once per episode and without copies. ``in_full()`` of
    ``pmoss_env.envs.spatial`` makes the keys of all modes of both, with the same bits.

    ``actions="core_node"`` adds to the other modes, for N nodes:

    | key | shape, type | meaning |
    |---|---|---|
    | `node_mask` | (N,) int8 | 1 = the node has room for the next slice's data |
    | `node_room` | (N,) float32 | free share of the slices that it may hold; 1 without limit |
    | `node_view` | (N, H) float32 | counters of the placed slices, summed per node of their data |
    | `incumbent_nodes` | (slices,) int32 | node of each slice's data at the start; if complete |
    | `slice_nodes` | (slices,) int32 | node of each slice's data now; if complete |

    ``pmoss_env.envs.spatial.meta_names(machine)`` names the entries of ``meta``.

    ## Memory

    With ``actions="core_node"`` a node holds at most the slices that fit into its memory, by the
    machine's description. ``constraints={"node_memory_gib": ...}`` sets the free memory, in both
    modes. Every slice counts as the largest one. Incumbents fit, too: the data of a full node lie
    on the next one with room.

    ## Action Space

    ``Discrete(r * c)``: tile row * c + column for the next slice. The legal tiles are the same in
    ``observation["position_mask"]``, ``info["action_mask"]`` and ``action_masks()``.

    ``actions="core_node"`` makes it ``Discrete(r * c * nodes)``: tile * nodes + node, so that the
    data may lie on another node than the core. It is flat for algorithms that only take discrete
    actions, such as DQN. ``divmod(action, nodes)`` gives tile and node. An action is legal if
    ``position_mask`` allows its tile and ``node_mask`` its node.

    On a masked action, ``on_illegal`` decides. "remap" takes the nearest legal tile: same node
    first, then same socket, then distance on the grid, then lowest number. The data of a full node
    go to the first node of its socket with room, else to the first one. "terminate" ends the
    episode with reward 0 and the slice where it was. "raise" raises IllegalActionError. Illegal
    actions are counted in ``info["illegal_actions"]``, and the first one gives a warning.

    ## Rewards

    In Mq/s, chosen by ``reward``:

    - "improvement": change of the throughput by the step; the return is X(final) - X(incumbent).
      Only every ``measure_every``-th step and the last one are measured; the others have reward 0.
    - "slice": X(final) at the last step, else 0. Datasets pay each step its slice's share of it,
      as the paper's return-to-go does: ``info["slice_throughput"]`` holds the shares at the end.
    - "terminal": X(final) at the last step, else 0.

    None means "improvement" on incremental backends, else "terminal".

    ## Starting State

    ``reset`` draws from its seed, in this order: the workload instance (its hot keys; fixed by
    ``workload_seed``), the co-tenants, the seed of the noise, and the incumbent schedule. The
    incumbent follows its rule on a random order of nodes and workers, so that episodes differ.
    ``options={"incumbent": schedule}`` sets it: a ``Schedule``, or the core of each slice.
    Constraints limit the placed slices, not the incumbent.

    ## Episode End

    ``terminated`` after the last slice, or after an illegal action with
    ``on_illegal="terminate"``. Never ``truncated``.

    ## Information

    The same keys at reset and at every step:

    - ``action_mask``: (actions,) int8, 1 = legal for the next slice.
    - ``illegal_actions``: int, in this episode so far.
    - ``throughput``: float, Mq/s of the present full schedule, by the latest measurement. X(final)
      at the end, whatever the reward.
    - ``incumbent_throughput``: float, Mq/s.
    - ``slice``: int, the next slice; ``slices`` at the end.
    - ``tile``: int, tile of the latest slice; -1 at reset.
    - ``node``: int, node of its data; with ``actions="core_node"`` only.
    - ``slice_throughput``: (slices,) float64, Mq/s of the slice placed at each step under the
      final schedule; 0 until the end. Sums to X(final).

    ## Arguments

    All are plain JSON, so that ``env.spec.to_json()`` works.
    ``pmoss_env.envs.spatial.arguments.Arguments`` describes them.

    Raises ``UnknownNameError`` for a name in no catalogue, and ``ScheduleError`` for slices or
    constraints that allow no schedule. Raises ``UnsupportedError`` for arguments that the backend
    does not support, and ``DescriptionError`` for any other invalid value.

    ## Vector Form

    On the analytic backend ``gymnasium.make_vec`` gives ``SpatialVectorEnv``
    (``pmoss_env.envs.spatial.vector``), whose steps run in C++ with the same bits; on the others,
    ask it for ``vectorization_mode="sync"`` or ``"async"``.

    ## References

    Rayhan and Aref, P-MOSS: Learned Scheduling For Indexes Over NUMA Servers Using Low-Level
    Hardware Statistics.

    ## Version History

    - v0: first version.
    - v1 of the tasks with ``rtree-ranges-inserts``: the throughput of a schedule no longer depends
      on the schedules before it.
    """

    metadata = BaseEnv.metadata | {"render_fps": 15}

    def __init__(
        self,
        *,
        machine: str = "skylake-x-8n",
        index: str = "btree",
        workload: str = "ycsb-a",
        slices: int = 256,
        backend: str = "analytic",
        load: str = "closed",
        interference: str = "none",
        observation: str = "full",
        actions: str = "core",
        reward: str | None = None,
        incumbent: str = MIXTURE,
        order: str = "index",
        workload_seed: int | None = None,
        counters: str = "all",
        noise: float = 0.0,
        deviation: float = 0.0,
        on_illegal: str = "remap",
        constraints: Mapping[str, Any] | None = None,
        backend_options: Mapping[str, Any] | None = None,
        measure_every: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        values = locals()
        values = {field.name: values[field.name] for field in fields(Arguments)}
        self.arguments = Arguments(**values)
        self.session = Session(self.arguments)
        machine_ = self.session.machine
        self.observation_space = cast(
            spaces.Space[Observation],
            observation_space(machine_, slices, observation, actions),
        )
        nodes = machine_.nodes if self.session.chooses_node else 1
        self._choices = machine_.tiles * nodes
        self.action_space = spaces.Discrete(self._choices)
        self.render_mode = render_mode
        self._raises = on_illegal == "raise"
        #: Whether a masked action was taken, which is said once.
        self._saw_masked = False
        kind = "actions" if self.session.chooses_node else "tiles"
        self._action_rule = f"{machine_.name} has {kind}"
        self._row = 0
        self._episodes = Episodes([self.session], self.observation_space)

    def join(self, episodes: Episodes, row: int) -> None:
        """Makes this a view of a row of a batch, for a vector environment.

        Args:
            episodes: the batch, with this environment's session at ``row``.
        """
        self._episodes, self._row = episodes, row

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode; see the class's section on the starting state.

        Args:
            seed: of all randomness of the episode; None continues the generator.
            options: None or ``{"incumbent": Schedule or the core of each slice}``.

        Raises:
            UnknownNameError: another option.
            DescriptionError: options that are no dict.
            ScheduleError: an incumbent that the machine cannot run.
        """
        self.draw(seed=seed, options=options)
        self._episodes.begin([self._row])
        observation, _, info = self._episodes.shown(self._row)
        return observation, info

    def draw(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Draws the start of an episode, which a vector environment then begins."""
        check_options(options, ("incumbent",))
        super().reset(seed=seed)
        self.session.draw(self.np_random, options)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Places the next slice where ``action`` says.

        Raises:
            IllegalActionError: no such action, or a masked one with ``on_illegal="raise"``.
            ResetNeeded: before reset, or after the end of the episode.
        """
        if not self.session.running:
            raise ResetNeeded("no episode is running: call reset() first")
        choice = whole_action(action, self._choices, self._action_rule)
        episodes, row = self._episodes, self._row
        if not self._saw_masked and not episodes.masks[row, choice]:
            problem = (
                f"action {choice}: the mask forbids it for slice "
                f"{episodes.results['slice'][row]}; see info['action_mask']"
            )
            if self._raises:
                raise IllegalActionError(problem)
            self._saw_masked = True
            gymnasium.logger.warn(f"{problem}. info['illegal_actions'] counts such actions")
        terminated, shown = episodes.step(row, choice)
        observation, reward, info = episodes.shown(row, shown)
        return observation, reward, terminated, False, info

    def action_masks(self) -> BoolArray:
        """(actions,) bool, the legal actions for the next slice; also before reset."""
        return self._episodes.legal(self._row)

    @property
    def machine(self) -> Machine:
        """The server."""
        return self.session.machine

    @property
    def slices(self) -> int:
        """Number of slices."""
        return self.session.slices

    @property
    def order(self) -> Int32Array:
        """(slices,) int32, the slice placed at each step of this episode."""
        return self.session.order.copy()

    @property
    def reward(self) -> str:
        """The reward: the ``reward`` argument, or the default on this backend."""
        return self.session.reward

    @property
    def order_kind(self) -> str:
        """The ``order`` argument: "index" or "load"."""
        return self.arguments.order

    @property
    def observation_mode(self) -> str:
        """The ``observation`` argument: "full", "paper", "complete" or "compact"."""
        return self.arguments.observation

    def episode_facts(self) -> dict[str, np.ndarray]:
        """What a compact observation leaves out, for the whole episode, as read-only arrays.

        ``slice_counters`` (slices, H) float32, ``meta`` (M,) float32, ``order`` (slices,) int32,
        the slice placed at each step, and ``incumbent_places`` (slices,) int16, the action that
        would leave each slice where the incumbent has it.

        Raises:
            ResetNeeded: there is no episode yet.
        """
        return self.session.facts()

    @property
    def actions_kind(self) -> str:
        """The ``actions`` argument: "core" or "core_node"."""
        return self.arguments.actions

    @property
    def counters_kind(self) -> str:
        """The ``counters`` argument: one of ``pmoss_env.types.READABLE``."""
        return self.arguments.counters

    @property
    def backend(self) -> Backend:
        """The episode's own backend, read-only. See ``session.new_backend()``."""
        return self.session.backend

    @property
    def schedule(self) -> Schedule:
        """The present full schedule: slices placed so far, the others as the incumbent."""
        self.session.need_episode()
        return self._episodes.schedule(self._row)

    @property
    def instance(self) -> Instance:
        """This episode's workload instance and co-tenants, hidden from policies."""
        self.session.need_episode()
        return self.session.instance

    @property
    def incumbent(self) -> Schedule:
        """The first schedule of the episode."""
        self.session.need_episode()
        return self.session.incumbent

    @property
    def incumbent_snapshot(self) -> HardwareSnapshot:
        """The incumbent's snapshot as observed, with noise."""
        self.session.need_episode()
        return self.session.incumbent_snapshot

    def final_snapshot(self) -> HardwareSnapshot:
        """The final schedule's snapshot; ScheduleError during the episode."""
        self.session.need_episode()
        if self.session.final_snapshot is None:
            raise ScheduleError(
                f"the episode is not over: {self._steps} of {self.slices} slices are placed"
            )
        return self.session.final_snapshot

    def finish(self, schedule: Schedule, balancing: bool | None = None) -> HardwareSnapshot:
        """Ends the episode with a whole schedule, also one whose workers share slices.

        No step leads to such a schedule. ``schedule`` of the environment does not change.

        Args:
            balancing: the kernel's automatic NUMA balancing meanwhile: switched on this host,
                modelled elsewhere. None keeps it as it is.

        Returns:
            Its snapshot as observed, with noise; ``final_snapshot()`` gives it again.

        Raises:
            ResetNeeded: there is no episode.
            ScheduleError: the machine cannot run the schedule.
            BackendError: the measurement failed, or the kernel's setting cannot be switched.
            UnsupportedError: the backend does not model the setting.
        """
        self.session.finish(schedule, balancing)
        return self.final_snapshot()

    def restore(self) -> HardwareSnapshot:
        """Measures the incumbent again and ends the episode.

        It uses the seed and the noise of reset(), so that a model gives ``incumbent_snapshot``
        again with the same bits. ``final_snapshot()`` does not change.

        Raises:
            ResetNeeded: there is no episode.
            BackendError: the measurement failed.
        """
        snapshot = self.session.restore()
        self._episodes.start(self._row)
        return snapshot

    def context(self, rng: np.random.Generator, backend: Backend | None = None) -> Context:
        """The information for a baseline, see ``Session.context``."""
        return self.session.context(rng, backend)

    def _picture(self, mode: str) -> Any:
        """The present schedule."""
        from pmoss_env.envs.spatial import viewer

        throughput = self._episodes.results["throughput"][self._row]
        return viewer.show(self.session, self.schedule, self._steps, throughput, mode)

    def close(self) -> None:
        """Releases the backend. Safe to repeat."""
        self.session.close()

    @property
    def _steps(self) -> int:
        return int(self._episodes.batch.placed(self._row).size)

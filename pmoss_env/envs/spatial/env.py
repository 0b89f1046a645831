"""Spatial scheduling: place every slice of a main-memory index on a core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from pmoss_env.backends import Backend
from pmoss_env.context import Context
from pmoss_env.envs.actions import whole_action
from pmoss_env.envs.copies import OF_A_VECTOR, Past, RepeatableEnv, measures
from pmoss_env.envs.spatial.arguments import MIXTURE, RENDER_MODES, Arguments
from pmoss_env.envs.spatial.episodes import INFO_KEYS, Episodes, Observation
from pmoss_env.envs.spatial.observation import observation_space
from pmoss_env.envs.spatial.rules import REWARDS, Reward
from pmoss_env.envs.spatial.session import Session
from pmoss_env.errors import IllegalActionError, ScheduleError
from pmoss_env.machines import Machine
from pmoss_env.types import BoolArray, HardwareSnapshot, Instance, Int32Array, Schedule

__all__ = ["INFO_KEYS", "REWARDS", "Observation", "Reward", "SpatialSchedulingEnv"]


class SpatialSchedulingEnv(RepeatableEnv[Observation, np.int64]):
    """Re-schedule a running main-memory index over the cores of a NUMA server.

    ## Description

    An index is cut into ``slices`` key ranges. A schedule says which worker core serves each slice
    and which NUMA node holds its data; the throughput in million queries per second (Mq/s) depends
    on it. An episode starts from an incumbent schedule, shows what the hardware counters said under
    it, and places slice after slice anew. The data of a slice go to the node of its core. A slice
    that is not placed yet stays where the incumbent has it. So every intermediate state is a full
    schedule that a server could run.

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
    says which are available. ``observation="paper"`` leaves out the last two keys.
    ``observation="complete"`` adds the whole state:

    | key | shape, type | meaning |
    |---|---|---|
    | `slice_counters` | (slices, H) float32 | counters of every slice under the incumbent |
    | `incumbent_tiles` | (slices,) int32 | the tile of each slice under the incumbent |
    | `slice_tiles` | (slices,) int32 | the tile of each slice now |

    ``actions="core_node"`` adds, for N nodes:

    | key | shape, type | meaning |
    |---|---|---|
    | `node_mask` | (N,) int8 | 1 = the node has room for the next slice's data |
    | `node_room` | (N,) float32 | free share of the slices that it may hold; 1 without limit |
    | `node_view` | (N, H) float32 | counters of the placed slices, summed per node of their data |
    | `incumbent_nodes` | (slices,) int32 | node of each slice's data at the start; if complete |
    | `slice_nodes` | (slices,) int32 | node of each slice's data now; if complete |

    ``pmoss_env.envs.spatial.meta_names(machine)`` names the entries of ``meta``.

    ## Memory

    With ``actions="core_node"`` a node holds no more slices than its memory does, by the machine's
    description. ``constraints={"node_memory_gib": ...}`` says what of it others leave, in both
    modes. Every slice counts as the largest one. Incumbents fit, too: data that a full node cannot
    hold lie on the next one with room.

    ## Action Space

    ``Discrete(r * c)``: tile row * c + column for the next slice. The legal tiles are the same in
    ``observation["position_mask"]``, ``info["action_mask"]`` and ``action_masks()``.

    ``actions="core_node"`` makes it ``Discrete(r * c * nodes)``: tile * nodes + node, so that the
    data may lie elsewhere than on the core's node. It is flat for the algorithms that take nothing
    else, such as DQN. ``divmod(action, nodes)`` gives tile and node. An action is legal where
    ``position_mask`` allows its tile and ``node_mask`` its node.

    On a masked action, ``on_illegal`` decides. "remap" takes the nearest legal tile: same node
    first, then same socket, then distance on the grid, then lowest number. The data of a full node
    go to the first node of its socket with room, else to the first one. "terminate" ends the
    episode with reward 0 and the slice where it was. "raise" raises IllegalActionError. Illegal
    actions are counted in ``info["illegal_actions"]``.

    ## Rewards

    In Mq/s, chosen by ``reward``:

    - "improvement": throughput after the step minus before it; the return is X(final) -
      X(incumbent). Only every ``measure_every``-th step and the last one are measured; the others
      pay 0.
    - "slice": the paper's return-to-go: each step pays its slice's share of X(final). The shares
      are known at the end only, so this live environment pays X(final) at the last step and 0
      before. ``info["slice_throughput"]`` then holds the shares, for a dataset to fill in.
    - "terminal": X(final) at the last step, else 0.

    None means "improvement" on backends that can be asked after every move, else "terminal".

    ## Starting State

    ``reset`` draws from its seed, in this order: the workload instance (which keys are hot; fixed
    by ``workload_seed``), the co-tenants, the seed of the noise, and the incumbent schedule. The
    incumbent follows the rule of its name on nodes and workers in a drawn order, so that episodes
    differ; it can be given as ``options={"incumbent": schedule}``: a ``Schedule``, or the core of
    each slice. Constraints bind what the episode places, not the incumbent.

    ## Episode End

    ``terminated`` after the last slice, or after an illegal action with
    ``on_illegal="terminate"``. Never ``truncated``.

    ## Information

    The same keys at reset and at every step:

    - ``action_mask``: (actions,) int8, what is legal for the next slice.
    - ``illegal_actions``: int, in this episode so far.
    - ``throughput``: float, Mq/s of the present full schedule; of the latest measurement where
      not every step is measured. X(final) at the end, whatever the reward.
    - ``incumbent_throughput``: float, Mq/s.
    - ``slice``: int, the next slice; ``slices`` when none is left.
    - ``tile``: int, where the latest slice really went; -1 at reset.
    - ``node``: int, where its data went; with ``actions="core_node"`` only.
    - ``slice_throughput``: (slices,) float64, Mq/s of the slice placed at each step under the
      final schedule; 0 until the end. Sums to X(final).

    ## Arguments

    All are plain JSON, so that ``env.spec.to_json()`` works.
    ``pmoss_env.envs.spatial.arguments.Arguments`` describes them.

    Raises ``UnknownNameError`` for a name in no catalogue, and ``ScheduleError`` for slices or
    constraints that allow no schedule. Raises ``UnsupportedError`` for what the backend cannot do,
    and ``DescriptionError`` for any other impossible value.

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

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares it per instance
        "render_modes": list(RENDER_MODES),
        "render_fps": 15,
    }

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
        given = locals()
        taken = {one.name: given[one.name] for one in fields(Arguments)}
        self.arguments = Arguments(**taken)
        self.session = Session(self.arguments)
        self.observation_space = cast(
            spaces.Space[Observation],
            observation_space(self.session.machine, slices, observation, actions),
        )
        where = self.session.machine
        self._choices = where.tiles * (where.nodes if self.session.chooses_node else 1)
        self.action_space = spaces.Discrete(self._choices)
        self.render_mode = render_mode
        self._raises = on_illegal == "raise"
        what = "actions" if self.session.chooses_node else "tiles"
        self._action_rule = f"{where.name} has {what}"
        self._row = 0
        self._episodes, self._joined = Episodes([self.session], self.observation_space), False
        self._past = Past(taken)

    def join(self, episodes: Episodes, row: int) -> None:
        """Makes this the face of one row of a batch that others step.

        Args:
            episodes: with this environment's session at ``row``.
            row: which.
        """
        self._episodes, self._row, self._joined = episodes, row, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode; see the class's section on the starting state.

        Args:
            seed: of everything that chance decides; None goes on with the generator at hand.
            options: None or ``{"incumbent": Schedule or the core of each slice}``.

        Raises:
            UnknownNameError: another option.
            ScheduleError: an incumbent that the machine cannot run.
        """
        self.begin(seed=seed, options=options)
        observation, _, info = self._episodes.shown(self._row)
        return observation, info

    def begin(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """What reset() does before it shows the episode."""
        super().reset(seed=seed)
        generator = self.np_random.bit_generator.state
        self.session.begin(self.np_random, options)
        self._episodes.start(self._row)
        self._past.begin(generator, options)

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
        if self._raises and not episodes.masks[row, choice]:
            raise IllegalActionError(
                f"action {choice}: the mask forbids it for slice "
                f"{episodes.results['slice'][row]}; see info['action_mask']"
            )
        terminated, known = episodes.step(row, choice)
        self._past.actions.append(choice)
        observation, reward, info = episodes.shown(row, known)
        return observation, reward, terminated, False, info

    def action_masks(self) -> BoolArray:
        """(actions,) bool, what is legal for the next slice; works before reset too."""
        return self._episodes.legal(self._row)

    @property
    def machine(self) -> Machine:
        """The machine that the slices go on."""
        return self.session.machine

    @property
    def slices(self) -> int:
        """How many slices an episode places."""
        return self.session.slices

    @property
    def order(self) -> Int32Array:
        """(slices,) int32, the slice placed at each step of this episode."""
        return self.session.order.copy()

    @property
    def reward(self) -> str:
        """The reward mode: the ``reward`` argument, or what its default is on this backend."""
        return self.session.reward

    @property
    def order_kind(self) -> str:
        """The ``order`` argument: "index" or "load"."""
        return self.arguments.order

    @property
    def observation_mode(self) -> str:
        """The ``observation`` argument: "full", "paper" or "complete"."""
        return self.arguments.observation

    @property
    def actions_kind(self) -> str:
        """The ``actions`` argument: "core" or "core_node"."""
        return self.arguments.actions

    @property
    def counters_kind(self) -> str:
        """The ``counters`` argument: "all" or "software"."""
        return self.arguments.counters

    @property
    def backend(self) -> Backend:
        """The episode's own backend: only to look at. See ``session.new_backend()``."""
        return self.session.backend

    @property
    def schedule(self) -> Schedule:
        """The present full schedule: slices placed so far, the others as the incumbent."""
        self.session.need_episode()
        return self._episodes.schedule(self._row)

    @property
    def instance(self) -> Instance:
        """This episode's workload instance and co-tenants; not for a policy to see."""
        self.session.need_episode()
        return self.session.instance

    @property
    def incumbent(self) -> Schedule:
        """The schedule that the episode started from."""
        self.session.need_episode()
        return self.session.incumbent

    @property
    def incumbent_snapshot(self) -> HardwareSnapshot:
        """The incumbent's snapshot, as observed: with its noise."""
        self.session.need_episode()
        return self.session.incumbent_snapshot

    def final_snapshot(self) -> HardwareSnapshot:
        """The final schedule's snapshot; ScheduleError while the episode runs."""
        self.session.need_episode()
        if self.session.final_snapshot is None:
            raise ScheduleError(
                f"the episode is not over: {self._steps} of {self.slices} slices are placed"
            )
        return self.session.final_snapshot

    def restore(self) -> HardwareSnapshot:
        """Undoes the episode: puts the incumbent back, measures it, and ends the episode.

        Measured with the seed and the noise of reset(), so that a modelled backend gives
        ``incumbent_snapshot`` again, bit for bit. ``final_snapshot()`` stays what it was.

        Raises:
            ResetNeeded: there is no episode.
            BackendError: the measurement failed.
        """
        snapshot = self.session.restore()
        self._episodes.start(self._row)
        return snapshot

    def context(self, rng: np.random.Generator, backend: Backend | None = None) -> Context:
        """What a baseline may know of this episode, see ``Session.context``."""
        return self.session.context(rng, backend)

    def render(self) -> Any:
        """The present schedule as text ("ansi") or as an (height, width, 3) uint8 image."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: give one to gymnasium.make()")
            return None
        from pmoss_env.envs.spatial import viewer

        throughput = self._episodes.results["throughput"][self._row]
        return viewer.show(self.session, self.schedule, self._steps, throughput, self.render_mode)

    def close(self) -> None:
        """Releases the backend. Safe to repeat."""
        self.session.close()

    @property
    def _steps(self) -> int:
        return int(self._episodes.batch.placed(self._row).size)

    def _goes_on(self) -> bool:
        return self.session.running

    def _no_copy(self) -> str:
        if self._joined:
            return OF_A_VECTOR
        return "" if self.backend.repeatable else measures(self.backend.name)

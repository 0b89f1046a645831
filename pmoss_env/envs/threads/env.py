"""Thread scheduling: moves the threads of a program to the slow memory with its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from pmoss_env.checks import check_name, check_options, check_type, check_whole
from pmoss_env.envs.actions import whole_action
from pmoss_env.envs.base import SEEDS, BaseEnv
from pmoss_env.envs.threads.decisions import (
    THRESHOLD,
    least_used_core,
    threads_to_move,
    unbalanced_cores,
)
from pmoss_env.envs.threads.observation import (
    MAX_REQUESTS,
    MAX_THREADS,
    Observation,
    observation_space,
    observe,
)
from pmoss_env.envs.threads.options import Options
from pmoss_env.envs.threads.programs import load_program, slow_memory, slow_nodes
from pmoss_env.envs.threads.reward import (
    Form,
    Utilisation,
    terms,
    weighted,
)
from pmoss_env.envs.threads.server import Outcome, Sample, SimulatedServer, ThreadServer
from pmoss_env.errors import DescriptionError, IllegalActionError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import BoolArray

#: The keys of info, at reset and at every step.
INFO_KEYS = (
    "action_mask",
    "illegal_actions",
    "core",
    "unbalanced_cores",
    "epoch",
    "moved",
    "lna",
    "bwvn",
    "util",
    "seconds",
    "user_seconds",
    "kernel_seconds",
    "requests",
    "p99_ms",
)


class ThreadSchedulingEnv(BaseEnv[Observation, np.int64]):
    """Migrate the threads of a running program to the slow memory that holds their data.

    ## Description

    A program's threads run on a server whose nodes have ordinary memory. Their data lie on slow
    memory: non-volatile memory in the paper, any chosen node on a live host. The kernel distributes
    the threads over all cores, so that many use another socket's slow memory. A decision epoch
    lasts one second. It finds the cores whose accesses to slow memory are mostly remote (P_ub >=
    ``threshold``). The decision is for one of them: how many of its threads move to the node that
    holds their data. Threads move, data do not. A moved thread is pinned; the kernel continues to
    balance the others.

    This is the decision process of the Smart Scheduler paper (sections 4 to 8).

    ## Observation Space

    A ``Dict``, with C cores, T threads and the twelve ``INPUTS`` of ``pmoss_env.envs.threads``,
    each divided by its scale:

    | key | shape, type | meaning |
    |---|---|---|
    | `inputs` | (12,) float32 | of the core to decide on; 0 without one |
    | `core_inputs` | (C, 12) float32 | of every core |
    | `threads` | (1,) float32 | threads on the core to decide on |
    | `core` | (1,) float32 | its number / C; -1 without one |
    | `action_mask` | (T + 1,) int8 | 1 = legal |

    ## Action Space

    ``Discrete(T + 1)``: number of the core's threads to migrate. With n threads on the core, 1 to
    n are legal, and 0 (they stay) unless ``stay=False``. Without an unbalanced core only 0 is
    legal. The mask is the same in ``observation["action_mask"]``, ``info["action_mask"]`` and
    ``action_masks()``. On a masked action ``on_illegal`` decides: "remap" takes the nearest legal
    number, "terminate" ends the episode with reward 0, "raise" raises IllegalActionError. Illegal
    actions are counted in ``info["illegal_actions"]``.

    The threads with the most major faults move; minor faults break ties. Each moves to the core
    with the fewest threads at the node nearest to its data.

    ## Rewards

    0.45 LNA + 0.45 BWVN + 0.1 Util (equation 3), from the epochs before and after the decision. LNA
    is the change of local accesses to slow memory. BWVN is its bandwidth with writes weighted by
    three. Util is the change of utilisation, of the CPUs or of the bandwidth (``utilisation``).
    ``reward="normalised"`` gives all three changes in units of one thread's share, "raw" the
    formulas of the paper; see ``pmoss_env.envs.threads.reward``.

    ## Starting State

    The kernel's placement, drawn from the seed, after one epoch.

    ## Episode End

    ``terminated`` when the program has answered all its requests (or its process has ended), or
    after an illegal action with ``on_illegal="terminate"``. Never ``truncated``.

    ## Information

    The same keys at reset and at every step:

    - ``action_mask``: (T + 1,) int8.
    - ``illegal_actions``: int, in this episode so far.
    - ``core``: int, the core to decide on; -1 without an unbalanced core.
    - ``unbalanced_cores``: int, number of unbalanced cores.
    - ``epoch``: int, epochs so far.
    - ``moved``: int, number of threads that the latest decision moved.
    - ``lna``, ``bwvn``, ``util``: float, the reward's terms.
    - ``seconds``, ``user_seconds``, ``kernel_seconds``: float, real time and processor time so far.
    - ``requests``: float, number answered so far; NaN for a process. At the end less than one
      request per thread may be missing: what a thread that moved still owed.
    - ``p99_ms``: float, 99th percentile of their latency; NaN for a process.

    ## Arguments

    All are plain JSON, so that ``env.spec.to_json()`` works.

    - ``machine``: a name of ``pmoss_env.machines.machine_names()`` or a path to a machine file; it
      must have slow memory: nodes without cores.
    - ``program``: a key of ``pmoss_env.envs.threads.PROGRAMS``.
    - ``threads``, ``requests``: None for the program's own; at most 10,000 threads.
    - ``data_nodes``: nodes of the threads' data, cyclically; None: the first slow node.
    - ``threshold``: least P_ub of an unbalanced core.
    - ``stay``: whether 0 is an action.
    - ``reward``: "normalised" or "raw".
    - ``utilisation``: "cpu" or "bandwidth".
    - ``epoch_seconds``: length of an epoch.
    - ``on_illegal``: "remap", "terminate" or "raise".
    - ``render_mode``: "ansi" or "rgb_array"; ``gymnasium.make`` takes "human", too.

    ``ThreadSchedulingEnv.on(server)`` makes the same environment over any ``ThreadServer``, such as
    the threads of a live process (``pmoss_env.envs.threads.live.process``).

    Raises ``UnknownNameError`` for a name in no catalogue and ``DescriptionError`` for any other
    invalid value.

    ## References

    Chen et al., Smart scheduler: an adaptive NVM-aware thread scheduling approach on NUMA systems,
    CCF Transactions on High Performance Computing, 2022.

    ## Version History

    - v0: first version.
    """

    def __init__(
        self,
        *,
        machine: str = "xeon-6240m-optane",
        program: str = "fillrandom",
        threads: int | None = None,
        requests: int | None = None,
        data_nodes: Sequence[int] | None = None,
        threshold: float = THRESHOLD,
        stay: bool = True,
        reward: str = "normalised",
        utilisation: str = "cpu",
        epoch_seconds: float = 1.0,
        on_illegal: str = "remap",
        render_mode: str | None = None,
    ) -> None:
        check_type("machine", str, machine)
        described = load_machine(machine)
        slow_memory(described)  # raises an error for a machine without slow memory
        self._program = load_program(program)
        for name, value in (("threads", threads), ("requests", requests)):
            if value is not None:
                check_whole(name, value, 1, MAX_THREADS if name == "threads" else MAX_REQUESTS)
                self._program = replace(self._program, **{name: value})  # type: ignore[arg-type]
        self._data_nodes = None if data_nodes is None else _node_list(data_nodes)
        self._server: ThreadServer | None = None
        self._given_server = False
        self._set_up(
            described,
            self._program.threads,
            Options(threshold, stay, reward, utilisation, epoch_seconds, on_illegal, render_mode),
        )
        SimulatedServer(described, self._program, data_nodes=self._data_nodes)  # checks the nodes

    @classmethod
    def on(cls, server: ThreadServer, *, most_threads: int, **options: Any) -> ThreadSchedulingEnv:
        """The same environment over a running server; ``reset`` continues it.

        Args:
            server: closed with the environment.
            most_threads: T, the largest number of threads of a core that a decision can move.
            **options: threshold, stay, reward, utilisation, epoch_seconds, on_illegal, render_mode.
        """
        check_whole("most_threads", most_threads, 1, MAX_THREADS)
        for name in options:
            check_name("option", name, [field.name for field in fields(Options)])
        env = cls.__new__(cls)
        env._server = server
        env._given_server = True
        env._data_nodes = None
        env._set_up(server.machine, most_threads, Options(**options))
        return env

    def _set_up(self, machine: Machine, most_threads: int, options: Options) -> None:
        self._machine = machine
        self._threshold = options.threshold
        self._stay = bool(options.stay)
        self._form = cast(Form, options.reward)
        self._utilisation = cast(Utilisation, options.utilisation)
        self._epoch_seconds = float(options.epoch_seconds)
        self._on_illegal = options.on_illegal
        self.render_mode = options.render_mode
        self._actions = most_threads + 1
        self._slow_gb_per_s = 1.0
        if machine.parameters and slow_nodes(machine):
            read = machine.distances.per_node("dram_gb_per_s")
            self._slow_gb_per_s = float(sum(read[node] for node in slow_nodes(machine)))
        self.observation_space = cast(
            spaces.Space[Observation], observation_space(machine, self._actions)
        )
        self.action_space = cast(spaces.Space[np.int64], spaces.Discrete(self._actions))
        self._mask = np.zeros(self._actions, dtype=np.int8)
        self._mask[0] = 1
        self._sample: Sample | None = None
        self._running = False
        self._core = -1
        self._unbalanced = 0
        self._epoch = 0
        self._moved = 0
        self._terms = (0.0, 0.0, 0.0)
        self._illegal_actions = 0

    @property
    def machine(self) -> Machine:
        """The machine that the threads run on."""
        return self._machine

    @property
    def server(self) -> ThreadServer:
        """The episode's server, read-only."""
        if self._server is None:
            raise ResetNeeded("there is no episode yet: call reset() first")
        return self._server

    @property
    def sample(self) -> Sample:
        """The sample of the latest epoch."""
        if self._sample is None:
            raise ResetNeeded("there is no episode yet: call reset() first")
        return self._sample

    @property
    def outcome(self) -> Outcome:
        """The program's result so far."""
        return self.server.outcome()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts the program and runs one epoch under the kernel's placement.

        Raises:
            UnknownNameError: an option; there are none.
            DescriptionError: options that are no dict.
        """
        check_options(options)
        super().reset(seed=seed)
        self._running = False
        if not self._given_server:
            self._server = SimulatedServer(
                self._machine,
                self._program,
                data_nodes=self._data_nodes,
                seed=int(self.np_random.integers(SEEDS)),
            )
        self._epoch = 0
        self._moved = 0
        self._illegal_actions = 0
        self._terms = (0.0, 0.0, 0.0)
        self._core = -1
        self._run_epoch()
        self._running = True
        return self._observe(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Migrates ``action`` threads of the current core and runs an epoch.

        Raises:
            IllegalActionError: no such action, or a masked one with ``on_illegal="raise"``.
            ResetNeeded: before reset, or after the end of the episode.
        """
        if not self._running:
            raise ResetNeeded("no episode is running: call reset() first")
        count = whole_action(action, self._actions, "must be from")
        if not self._mask[count]:
            legal = np.flatnonzero(self._mask)
            if self._on_illegal == "raise":
                raise IllegalActionError(
                    f"action {count}: core {self._core} allows {legal[0]} to {legal[-1]}; see "
                    "info['action_mask']"
                )
            self._illegal_actions += 1
            if self._on_illegal == "terminate":
                self._running = False
                self._moved, self._terms = 0, (0.0, 0.0, 0.0)
                return self._observe(), 0.0, True, False, self._info()
            count = int(legal[np.argmin(abs(legal - count))])
        before = self.sample
        self._moved = self._migrate(count)
        self._run_epoch()
        self._terms = terms(
            before,
            self.sample,
            form=self._form,
            utilisation=self._utilisation,
            slow_gb_per_s=self._slow_gb_per_s,
        )
        self._running = not self.server.ended
        if not self._running:
            # A shortened last epoch says nothing about the decision.
            self._terms = (0.0, 0.0, 0.0)
        return self._observe(), weighted(self._terms), not self._running, False, self._info()

    def action_masks(self) -> BoolArray:
        """(T + 1,) bool, the legal actions; also before reset."""
        return self._mask.astype(np.bool_)

    def _picture(self, mode: str) -> Any:
        """The threads on the cores."""
        from pmoss_env.envs.threads import viewer

        sample = self.sample
        title = (
            f"epoch {self._epoch}: {sample.threads.size} threads, {self._unbalanced} unbalanced "
            f"cores, slow memory reads {sample.slow_read_gb_per_s:.1f} and writes "
            f"{sample.slow_write_gb_per_s:.1f} GB/s"
        )
        draw = viewer.as_text if mode == "ansi" else viewer.as_image
        return draw(self._machine, sample, title)

    def close(self) -> None:
        """Releases the program. Safe to repeat."""
        self._running = False
        if self._server is not None:
            self._server.close()

    def _migrate(self, count: int) -> int:
        if self._core < 0 or count == 0:
            return 0
        sample = self.sample
        load = sample.core_load.copy()
        moved = 0
        for position in threads_to_move(sample, self._core, count):
            target = least_used_core(
                self._machine, self.server.nearest[int(sample.homes[position])], load
            )
            if self.server.move(int(sample.threads[position]), target):
                load[self._core] -= 1.0
                load[target] += 1.0
                moved += 1
        return moved

    def _run_epoch(self) -> None:
        self._sample = sample = self.server.advance(self._epoch_seconds)
        self._epoch += 1
        cores = unbalanced_cores(sample, self._threshold)
        if not self.server.ended:
            # A core whose threads are near their data has no target.
            cores = np.array([c for c in cores if self._could_move(int(c))], dtype=np.int32)
        self._unbalanced = cores.size
        self._mask[:] = 0
        if cores.size and not self.server.ended:
            # In turn, so that every core has a decision.
            self._core = int(cores[np.searchsorted(cores, self._core + 1) % cores.size])
            count = min(int(np.sum(sample.cpus == self._core)), self._actions - 1)
            self._mask[0 if self._stay else 1 : count + 1] = 1
        else:
            self._core = -1
            self._mask[0] = 1

    def _could_move(self, core: int) -> bool:
        homes = np.unique(self.sample.homes[self.sample.cpus == core])
        return any(core not in self.server.nearest[int(home)] for home in homes)

    def _observe(self) -> Observation:
        return observe(self._machine, self.sample, self._core, self._mask)

    def _info(self) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "action_mask": self._mask.copy(),
            "illegal_actions": self._illegal_actions,
            "core": self._core,
            "unbalanced_cores": self._unbalanced,
            "epoch": self._epoch,
            "moved": self._moved,
            "lna": self._terms[0],
            "bwvn": self._terms[1],
            "util": self._terms[2],
            "seconds": outcome.seconds,
            "user_seconds": outcome.user_seconds,
            "kernel_seconds": outcome.kernel_seconds,
            "requests": outcome.requests,
            "p99_ms": outcome.p99_ms,
        }


__all__ = ["INFO_KEYS", "ThreadSchedulingEnv"]


def _node_list(data_nodes: object) -> list[int]:
    """The nodes of an argument; DescriptionError unless it is a sequence of whole numbers."""
    if isinstance(data_nodes, str) or not isinstance(data_nodes, Sequence | np.ndarray):
        raise DescriptionError(f"data_nodes = {data_nodes!r}: must be a list of nodes, or None")
    nodes = [node.item() if isinstance(node, np.generic) else node for node in data_nodes]
    for node in nodes:
        check_whole("data_nodes: node", node, 0)
    return nodes

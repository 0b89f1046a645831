"""Data and counters as a study shows them: fewer episodes, fewer counters, older counters."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from pmoss_agents.spatial.surrogate import Surrogate
from pmoss_datasets import Dataset
from pmoss_datasets.fairness import reads_environment
from pmoss_env.context import Context
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.errors import DescriptionError
from pmoss_env.interference import draw_co_tenants
from pmoss_env.types import COUNTER_INDEX, BoolArray, Instance, Int32Array, Schedule

#: Seeds of the loads that were there before lie below this.
_SEEDS = 2**53


def _kept_counters(lost: Collection[str]) -> BoolArray:
    """(H,) bool, False where a counter is lost."""
    kept = np.ones(len(COUNTER_INDEX), dtype=np.bool_)
    kept[[COUNTER_INDEX[name] for name in lost]] = False
    return kept


class Part(Dataset):
    """Some episodes of a dataset, evenly spread, without some counters.

    Attributes:
        whole: the dataset.
    """

    def __init__(self, whole: Dataset, episodes: int, lost: Collection[str] = ()) -> None:
        """Takes the part.

        Args:
            whole: the dataset.
            episodes: at most as many as it has.
            lost: names of counters that read 0.

        Raises:
            DescriptionError: it has fewer episodes.
        """
        super().__init__(whole.path, whole.stored, whole.machine)
        if not 0 < episodes <= len(whole):
            raise DescriptionError(
                f"episodes = {episodes}: the dataset has {len(whole)}: must be 1 to that"
            )
        self.whole = whole
        self._rows = np.arange(episodes) * len(whole) // episodes
        self._lost = tuple(lost)

    def __len__(self) -> int:
        return int(self._rows.size)

    @property
    def checksum(self) -> str:
        """Sha256 over that of the whole dataset and what is taken of it."""
        text = f"{self.whole.checksum} {len(self)} {' '.join(self._lost)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def column(self, name: str) -> Any:
        """(N, ...) array of one field over the episodes of the part."""
        values = self.whole.column(name)[self._rows]
        if self._lost and name.endswith("_counters"):
            values[..., ~_kept_counters(self._lost)] = 0
        return values


class Without:
    """A surrogate on a CPU that lacks some counters."""

    def __init__(self, agent: Surrogate, lost: Collection[str]) -> None:
        self._agent, self._kept = agent, _kept_counters(lost)

    def check_env(self, env: Any) -> None:
        """Takes the environment's machine."""
        self._agent.check_env(env)

    def reset(self) -> None:
        """Begins an episode."""
        self._agent.reset()

    def plan(self, context: Context, order: Int32Array) -> None:
        """Plans from the counters that are left."""
        snapshot = context.snapshot
        assert snapshot is not None
        left = snapshot.counters_available & self._kept
        self._agent.plan(
            replace(context, snapshot=replace(snapshot, counters_available=left)), order
        )

    def act(self, observation: Any, action_mask: Any = None) -> int:
        """The planned tile."""
        return self._agent.act(observation, action_mask)


class _Reading(Without):
    """A surrogate that is shown other counters than those of the incumbent."""

    def __init__(self, agent: Surrogate) -> None:
        super().__init__(agent, ())
        self._session: Any = None

    def check_env(self, env: Any) -> None:
        """Takes the environment whose backend is asked."""
        super().check_env(env)
        self._session = getattr(env, "unwrapped", env).session


@reads_environment
class Stale(_Reading):
    """A surrogate whose counters were read before the load changed.

    The schedule that ran is the incumbent. Since then other keys became hot, or other co-tenants
    came, or both.
    """

    def __init__(self, agent: Surrogate, changed: Collection[str]) -> None:
        """Takes what has changed: some of "keys" and "co-tenants"."""
        super().__init__(agent)
        self._changed = frozenset(changed)

    def plan(self, context: Context, order: Int32Array) -> None:
        """Plans from the old counters."""
        session, now = self._session, self._session.instance
        rng = np.random.default_rng((now.workload_seed, 1))
        keys, family = int(rng.integers(_SEEDS)), session.arguments.interference
        co_tenants = draw_co_tenants(family, context.machine, rng)
        before = Instance(
            keys if "keys" in self._changed else now.workload_seed,
            co_tenants if "co-tenants" in self._changed else now.co_tenants,
        )
        assert context.incumbent is not None
        with closing(session.new_backend()) as backend:
            backend.set_instance(before)
            snapshot = backend.measure(context.incumbent, seed=0)
        super().plan(replace(context, snapshot=snapshot), order)


@reads_environment
class Fresh(_Reading):
    """A surrogate that runs its plan, reads the counters, and plans again from these alone."""

    def __init__(self, agent: Surrogate, plans: int) -> None:
        """Takes how many plans are run and read before the last one."""
        super().__init__(agent)
        self._plans = plans

    def plan(self, context: Context, order: Int32Array) -> None:
        """Plans from the counters of its own latest plan."""
        with closing(self._session.new_backend()) as backend:
            for _ in range(self._plans):
                schedule = self._planned(context)
                snapshot = backend.measure(schedule, seed=0)
                context = replace(context, incumbent=schedule, snapshot=snapshot)
        super().plan(context, order)

    def _planned(self, context: Context) -> Schedule:
        agent, machine = self._agent, context.machine
        assert context.incumbent is not None and context.snapshot is not None
        agent.use(machine)
        columns = agent.topology.column[machine.tile_of_core[context.incumbent.cores]]
        planner = agent.planner(observed_counters(context.snapshot), columns)
        return context.local_schedule(machine.workers[planner.plan()])

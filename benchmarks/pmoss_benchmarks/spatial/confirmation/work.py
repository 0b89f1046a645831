"""Measuring the schedules of one episode on the simulated server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pmoss_benchmarks.spatial.confirmation.rows import PlayedRow, PlayedTask
from pmoss_datasets.domain import domain_of_env
from pmoss_datasets.evaluation import unpack_actions
from pmoss_env.backends import Backend, make_backend
from pmoss_env.backends.simulated import SimulatedBackend
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError, UnsupportedError

#: Arguments of an environment that the simulated server knows nothing of.
_UNKNOWN = ("noise", "deviation", "backend_options")


@dataclass(frozen=True)
class ConfirmationOptions:
    """How schedules are measured.

    Attributes:
        queries: of a measurement; None: enough to fill the caches, see ``enough_queries``.
        line_sampling: one cache line in so many is simulated.
        finer: episodes of each task that are measured a second time, with twice the queries and
            twice the lines: that tells how far a measurement is off.
    """

    queries: int | None = None
    line_sampling: int = 16
    finer: int = 1


@dataclass(frozen=True)
class ConfirmationCell:
    """One episode of a task.

    Attributes:
        task: its name.
        episode: its number.
        digest: of its rows: other rows are another cell.
    """

    task: str
    episode: int
    digest: str

    @property
    def name(self) -> str:
        """E.g. "toy-btree-ycsb-a-busy-core/7/0a1b2c3d"."""
        return f"{self.task}/{self.episode}/{self.digest}"


def cells_of(tasks: Mapping[str, PlayedTask]) -> list[ConfirmationCell]:
    """All cells, task by task."""
    return [
        ConfirmationCell(name, number, task.digest(number))
        for name, task in tasks.items()
        for number in task.episodes
    ]


class ConfirmationWork:
    """Does cells in one process."""

    def __init__(self, tasks: Mapping[str, PlayedTask], options: ConfirmationOptions) -> None:
        """Takes what every cell needs.

        Args:
            tasks: by name.
            options: of the measurements.
        """
        self._tasks, self._options = tasks, options
        self._at: str | None = None
        self._env: Any = None
        self._servers: list[Backend] = []

    def __call__(self, cell: ConfirmationCell) -> dict[str, Any]:
        """By policy, what measured() says of its schedule, without ``model``.

        Raises:
            DatasetError: the model gives another throughput than a row holds.
        """
        episode = self._tasks[cell.task].episodes[cell.episode]
        found = self.measured(cell)
        for name, row in episode.rows.items():
            if (now := found[name].pop("model")) != row.model:
                raise DatasetError(
                    f"{cell.task}: episode {cell.episode}: {name}: recorded {row.model!r} Mq/s, "
                    f"the model now gives {now!r}: the rows are of other code: play them again "
                    "with `pmoss study run`"
                )
        return found

    def measured(self, cell: ConfirmationCell) -> dict[str, dict[str, float]]:
        """By policy ``model`` and ``simulated``, and in the first episodes ``finer``, Mq/s.

        Raises:
            DatasetError: actions that cannot be run.
            UnsupportedError: an environment that the simulated server cannot be like.
        """
        self._begin(cell.task)
        task = self._tasks[cell.task]
        domain = domain_of_env(task.env_id)
        episode = task.episodes[cell.episode]
        first = list(task.episodes)[: self._options.finer]
        names = ("simulated", "finer") if cell.episode in first else ("simulated",)
        found = {}
        for policy, row in episode.rows.items():
            where = f"{cell.task}: episode {cell.episode}: {policy}"
            try:
                played = domain.rerun(self._env, episode.env_seed, actions_of(row))
            except DatasetError as error:
                raise DatasetError(f"{where}: {error}") from error
            found[policy] = {"model": float(played.outcome)}
            for name, server in zip(names, self._servers, strict=False):
                # The same hot keys and the same co-tenants.
                server.set_instance(self._env.instance)
                snapshot = server.measure(self._env.schedule, seed=0)
                found[policy][name] = float(snapshot.throughput)
        return found

    def close(self) -> None:
        """Releases the environment and the servers."""
        for one in (*self._servers, *([self._env] if self._env is not None else [])):
            one.close()
        self._at, self._env, self._servers = None, None, []

    def _begin(self, task: str) -> None:
        if self._at == task:
            return
        self.close()
        told = self._tasks[task]
        self._env = domain_of_env(told.env_id).make_env(told.env, told.env_id)
        self._at = task
        usual = _server(task, self._env, self._options.queries, self._options.line_sampling)
        assert isinstance(usual, SimulatedBackend)
        recorded = usual.recorded
        finer = 2 * recorded.queries, max(1, recorded.line_sampling // 2)
        self._servers = [usual, _server(task, self._env, *finer)]


def actions_of(row: PlayedRow) -> list[int]:
    """(steps,) the actions of a row; DatasetError if they are none."""
    try:
        return unpack_actions(row.actions) if isinstance(row.actions, str) else [*row.actions]
    except ValueError as error:
        raise DatasetError(f"actions: is no base64 text: {error}") from error


def _server(
    task: str, env: SpatialSchedulingEnv, queries: int | None, line_sampling: int
) -> Backend:
    """The simulated server of an environment on the analytic model."""
    given = env.session.arguments
    for name in _UNKNOWN:
        if value := getattr(given, name):
            raise UnsupportedError(
                f"{task}: {name} = {value!r}: the simulated server has nothing like it: choose "
                "another track"
            )
    if given.backend != "analytic":
        raise UnsupportedError(
            f"{task}: backend = {given.backend!r}: rows of the analytic model are confirmed only"
        )
    return make_backend(
        "simulated",
        machine=given.machine,
        index=given.index,
        workload=given.workload,
        slices=given.slices,
        load=given.load,
        queries=queries,
        line_sampling=line_sampling,
    )

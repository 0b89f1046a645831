"""Collecting a dataset: a mixture of behaviour policies plays the environment.

Each episode is decided by (recipe seed, episode index) and nothing else, so the same recipe gives
the same bits with any number of processes.
"""

from __future__ import annotations

import inspect
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pmoss_datasets.schema import (
    ID_PATTERN,
    Episode,
    Metadata,
    machine_facts,
    snapshot_fields,
)
from pmoss_datasets.storage import Dataset, check_target, write_dataset
from pmoss_env import __version__
from pmoss_env.backends import Backend
from pmoss_env.baselines import (
    BASELINES,
    DEFAULT_BUDGET,
    make_baseline,
)
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.files import read_toml
from pmoss_env.machines import load_machine
from pmoss_env.processes import die_with_parent
from pmoss_env.types import COUNTER_NAMES, NEIGHBOUR_FAMILIES, Schedule

ENV_ID = "pmoss/SpatialScheduling-v0"
#: progress(done, total) after every episode.
Progress = Callable[[int, int], None]
#: Backends whose episodes know the throughput after every step.
STEP_MEASURING = ("analytic",)
#: The one policy that needs a backend of its own.
SEARCH = "local-search"
# Independent streams of chance under one recipe seed.
_PLAY, _REFERENCE = 0, 1


@dataclass(frozen=True)
class Behaviour:
    """A policy that fills a dataset.

    Attributes:
        policy: a baseline of ``pmoss_env.baselines``.
        weight: its share of the episodes is weight / sum of the weights.
        epsilon: probability that a slice goes to a random worker core in place of the policy's.
        budget: backend evaluations of "local-search"; None: the baseline's own.
    """

    policy: str
    weight: float = 1.0
    epsilon: float = 0.0
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.policy not in BASELINES:
            raise UnknownNameError("policy", self.policy, BASELINES)
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise DescriptionError(f"{self.policy}: weight = {self.weight}: must be above 0")
        if not 0 <= self.epsilon <= 1:
            raise DescriptionError(f"{self.policy}: epsilon = {self.epsilon}: must lie in [0, 1]")
        if self.budget is not None and self.budget < 1:
            raise DescriptionError(f"{self.policy}: budget = {self.budget}: must be at least 1")
        if self.budget is not None and self.policy != SEARCH:
            raise DescriptionError(f"{self.policy}: budget = {self.budget}: only {SEARCH} searches")

    @property
    def name(self) -> str:
        """E.g. "local-search-500+eps0.1"."""
        budget = "" if self.budget is None else f"-{self.budget}"
        noise = "" if self.epsilon == 0 else f"+eps{self.epsilon:g}"
        return f"{self.policy}{budget}{noise}"


#: Food for a Decision Transformer: bad, plain, blind and good schedules, and noise on them. Search
#: is left to "expert": it ends higher, by exchanges that no single state explains, and a learner
#: that finds itself in such an episode knows little about the next step.
MIXED: tuple[Behaviour, ...] = (
    Behaviour("random", 1.5),
    Behaviour("grouped", 0.5),
    Behaviour("spread", 0.5),
    Behaviour("mixed", 0.5),
    Behaviour("lpt", 1.5),
    Behaviour("greedy", 1.0),
    Behaviour("greedy", 0.5, epsilon=0.1),
    Behaviour("greedy-capacity", 3.0),
    Behaviour("greedy-capacity", 1.0, epsilon=0.1),
)
TIERS: Mapping[str, tuple[Behaviour, ...]] = {
    "random": (Behaviour("random"),),
    "heuristic": tuple(Behaviour(name) for name in ("grouped", "spread", "mixed", "lpt")),
    "medium": tuple(Behaviour(n, epsilon=0.3) for n in ("grouped", "spread", "mixed", "lpt")),
    "expert": (Behaviour(SEARCH, budget=DEFAULT_BUDGET),),
    "mixed": MIXED,
}


@dataclass(frozen=True)
class Recipe:
    """All that decides a dataset.

    Attributes:
        env: keyword arguments of ``pmoss/SpatialScheduling-v0``, plain JSON.
        episodes: how many.
        seed: of everything that chance decides.
        tier: last part of the id, and the mixture used if ``behaviours`` is empty.
        behaviours: the mixture of policies.
        version: of the dataset, in its id.
        reference_episodes: episodes for the reference scores of Dataset.normalised(), which are
            not those of an evaluation; 0 leaves them out.
        reference_budget: backend evaluations of the search that defines 100 on that scale.
    """

    env: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 300
    seed: int = 0
    tier: str = "mixed"
    behaviours: tuple[Behaviour, ...] = ()
    version: int = 0
    reference_episodes: int = 10
    reference_budget: int = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        if not isinstance(self.env, Mapping):
            raise DescriptionError(f"env = {self.env!r}: must be a table of the task's arguments")
        known = sorted(inspect.signature(SpatialSchedulingEnv).parameters)
        for key in self.env:
            if key not in known:
                raise DescriptionError(f"env: {key}: unknown; known are {', '.join(known)}")
        for key in ("machine", "index", "workload"):
            if not isinstance(self.kwargs[key], str):
                raise DescriptionError(f"env: {key} = {self.kwargs[key]!r}: must be a text")
        if not self.behaviours:
            if self.tier not in TIERS:
                raise UnknownNameError("tier", self.tier, TIERS)
            object.__setattr__(self, "behaviours", TIERS[self.tier])
        for name, least in (
            ("episodes", 1),
            ("seed", 0),
            ("version", 0),
            ("reference_episodes", 0),
            ("reference_budget", 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DescriptionError(f"{name} = {value!r}: must be a whole number from {least}")
        if self.reference_episodes == 1:
            raise DescriptionError("reference_episodes = 1: must be 0, or 2 and more for a spread")
        if not ID_PATTERN.fullmatch(self.id):
            raise DescriptionError(
                f"id {self.id!r}: must look like pmoss/<machine>-<index>-<workload>/<tier>-v0"
            )

    @property
    def kwargs(self) -> dict[str, Any]:
        """The environment's keyword arguments, those that name the task always among them."""
        task = {"machine": "skylake-x-8n", "index": "btree", "workload": "ycsb-a"}
        return {**task, "slices": 256, "backend": "analytic", "load": "closed", **self.env}

    @property
    def id(self) -> str:
        """``pmoss/<machine>-<index>-<workload>/<tier>-v<version>``."""
        machine, workload = (Path(self.kwargs[key]).stem for key in ("machine", "workload"))
        return f"pmoss/{machine}-{self.kwargs['index']}-{workload}/{self.tier}-v{self.version}"

    def behaviour(self, episode: int) -> int:
        """Index of the behaviour that plays an episode.

        The bit-reversed episode index fills [0, 1) evenly, so that every prefix of the dataset
        holds the mixture in nearly its proportions.
        """
        bits = f"{episode + 1:b}"[::-1]
        position = int(bits, 2) / 2 ** len(bits)
        shares = np.cumsum([behaviour.weight for behaviour in self.behaviours])
        return int(np.searchsorted(shares / shares[-1], position, side="right"))

    @classmethod
    def from_toml(cls, path: str | Path) -> Recipe:
        """Reads a recipe file; ``[[behaviours]]`` tables hold the mixture.

        Raises:
            DescriptionError: names the file and the key that is wrong.
        """
        return read_toml(path, cls.from_dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """The recipe of a recipe file's contents, or of a dataset's metadata."""
        behaviours = tuple(
            _construct(Behaviour, entry, "behaviours: ") for entry in data.get("behaviours", ())
        )
        recipe: Recipe = _construct(cls, {**data, "behaviours": behaviours}, "")
        return recipe


def _construct(kind: type[Any], data: Mapping[str, Any], where: str) -> Any:
    known = {entry.name for entry in fields(kind)}
    for key in data:
        if key not in known:
            raise DescriptionError(f"{where}{key}: unknown; known are {', '.join(sorted(known))}")
    try:
        return kind(**data)
    except TypeError as error:
        raise DescriptionError(f"{where}{error}") from error


class _Player:
    """Plays episodes of one recipe. Lives in the collecting process or in a worker process."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._env = gymnasium.make(ENV_ID, **recipe.kwargs)
        self._search_backend: Backend | None = None

    def episode(self, index: int) -> tuple[Episode, tuple[str, ...], dict[str, Any]]:
        """Plays episode ``index``; also returns off-core names and provenance."""
        recipe = self._recipe
        which = recipe.behaviour(index)
        seed, rng = _chance(recipe.seed, _PLAY, index)
        return self._play(seed, rng, recipe.behaviours[which], which)

    def reference(self, index: int) -> tuple[float, float]:
        """Final throughput of random and of search in one reference episode, Mq/s."""
        behaviours = (
            Behaviour("random"),
            Behaviour(SEARCH, budget=self._recipe.reference_budget),
        )
        seed, rng = _chance(self._recipe.seed, _REFERENCE, index)
        random, search = (self._play(seed, rng, b, 0)[0].final_throughput for b in behaviours)
        return random, search

    def _play(
        self, seed: int, rng: np.random.Generator, behaviour: Behaviour, policy: int
    ) -> tuple[Episode, tuple[str, ...], dict[str, Any]]:
        self._env.reset(seed=seed)
        env: Any = self._env.unwrapped
        machine, order = env.machine, env.order
        schedule = self._plan(env, behaviour, rng)
        actions = machine.tile_of_core[schedule.cores[order]]
        throughput = np.full(order.size, np.nan)
        for t, tile in enumerate(actions):
            _, _, _, _, info = self._env.step(int(tile))
            throughput[t] = info["throughput"]
        kwargs = self._recipe.kwargs
        if kwargs["backend"] not in STEP_MEASURING or kwargs.get("measure_every") not in (None, 1):
            throughput[:-1] = np.nan  # info holds the latest measurement, which is an older step's
        if info["illegal_actions"]:
            raise DatasetError(f"seed {seed}: {behaviour.name} chose a tile that is not allowed")
        final = env.final_snapshot()
        snapshot = env.incumbent_snapshot
        neighbours, families = env.instance.neighbours, list(NEIGHBOUR_FAMILIES)
        episode = Episode(
            seed=seed,
            workload_seed=env.instance.workload_seed,
            neighbour_family=np.array([families.index(n.family) for n in neighbours], np.int16),
            neighbour_target=np.array([n.target for n in neighbours], dtype=np.int16),
            neighbour_strength=np.array([n.strength for n in neighbours], dtype=np.float64),
            policy=policy,
            order=order.astype(np.int16),
            actions=actions.astype(np.int16),
            throughput=throughput,
            incumbent_cores=env.incumbent.cores.astype(np.int16),
            incumbent_nodes=env.incumbent.nodes.astype(np.int16),
            final_cores=env.schedule.cores.astype(np.int16),
            final_nodes=env.schedule.nodes.astype(np.int16),
            **snapshot_fields("incumbent", snapshot),
            **snapshot_fields("final", final),
        )
        return episode, snapshot.offcore_names, dict(snapshot.provenance)

    def _plan(self, env: Any, behaviour: Behaviour, rng: np.random.Generator) -> Schedule:
        """The schedule that a behaviour wants; its noise respects the constraint."""
        backend = self._backend(env) if behaviour.policy == SEARCH else None
        context = env.context(rng, backend)
        schedule = make_baseline(behaviour.policy, budget=behaviour.budget)(context)
        cores = schedule.cores.copy()
        strays = np.flatnonzero(rng.random(cores.size) < behaviour.epsilon)
        room = np.full(env.machine.cores, context.max_slices_per_core or cores.size)
        np.subtract.at(room, cores, 1)
        for slice_ in strays:
            room[cores[slice_]] += 1
            cores[slice_] = rng.choice(env.machine.workers[room[env.machine.workers] > 0])
            room[cores[slice_]] -= 1
        return env.machine.local_schedule(cores)  # type: ignore[no-any-return]

    def _backend(self, env: Any) -> Backend:
        """A backend of its own for search, so that the episode's stays as the episode left it."""
        if self._search_backend is None:
            self._search_backend = env.new_searchable_backend()
        self._search_backend.set_instance(env.instance)
        return self._search_backend

    def close(self) -> None:
        """Releases the backends."""
        self._env.close()
        if self._search_backend is not None:
            self._search_backend.close()


def _chance(seed: int, stream: int, index: int) -> tuple[int, np.random.Generator]:
    """The environment's seed and the policy's generator of one episode."""
    root = np.random.SeedSequence([seed, stream, index])
    env, policy = root.spawn(2)
    # Seeds below 2^53 survive JSON readers that know only doubles.
    return int(env.generate_state(1, np.uint64)[0] >> np.uint64(11)), np.random.default_rng(policy)


def collect(
    recipe: Recipe,
    path: str | Path,
    progress: Progress | None = None,
    processes: int = 1,
    *,
    overwrite: bool = False,
) -> Dataset:
    """Collects a dataset and writes it.

    Interrupting it leaves nothing behind: the folder appears, whole, at the very end.

    Args:
        recipe: what to collect.
        path: the folder to write.
        progress: called after every episode with (done, total).
        processes: worker processes; 1 works in this one. The bits are the same for any number.
        overwrite: replace a dataset that is there already.

    Raises:
        DatasetError: the folder exists or cannot be written, or an episode breaks the schema.
        PmossError: the recipe's environment or policy refuses.
    """
    if processes < 1:
        raise DescriptionError(f"processes = {processes}: must be at least 1")
    check_target(path, overwrite)
    episodes: list[Episode] = []
    references: list[tuple[float, float]] = []
    offcore_names: tuple[str, ...] = ()
    provenance: dict[str, Any] = {}
    total = recipe.episodes + recipe.reference_episodes
    with _runner(recipe, processes) as run:
        for done, result in enumerate(run(total), start=1):
            if done <= recipe.episodes:
                episode, offcore_names, provenance = result
                episodes.append(episode)
            else:
                references.append(result)
            if progress is not None:
                progress(done, total)
    provenance.pop("seed", None)  # differs between the episodes; each has its own field
    metadata = Metadata(
        id=recipe.id,
        env_kwargs=recipe.kwargs,
        recipe=asdict(recipe),
        seed=recipe.seed,
        code_version=__version__,
        episodes=len(episodes),
        slices=episodes[0].slices,
        counter_names=COUNTER_NAMES,
        offcore_names=offcore_names,
        policy_names=tuple(behaviour.name for behaviour in recipe.behaviours),
        machine=machine_facts(load_machine(recipe.kwargs["machine"])),
        reference_scores=_scores(references, recipe.reference_budget),
        provenance=provenance,
        checksums={},
    )
    return write_dataset(path, episodes, metadata, overwrite=overwrite)


def _scores(references: list[tuple[float, float]], budget: int) -> dict[str, dict[str, float]]:
    if not references:
        return {}
    random, search = np.array(references).T
    scores: dict[str, dict[str, float]] = {}
    for name, values in (("random", random), ("search", search)):
        scores[name] = {
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)),
            "n": values.size,
        }
    scores["search"]["budget"] = budget
    return scores


_Run = Callable[[int], Iterator[Any]]


@contextmanager
def _runner(recipe: Recipe, processes: int) -> Iterator[_Run]:
    """Gives ``run(total)``: the results of all tasks, in order."""
    if processes == 1:
        player = _Player(recipe)
        try:
            yield lambda total: (_task(player, recipe, index) for index in range(total))
        finally:
            player.close()
        return
    pool = ProcessPoolExecutor(
        processes,
        # A forked copy of a process with threads (torch, BLAS) may hang.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_worker,
        initargs=(recipe, os.getpid()),
    )
    futures: list[Future[Any]] = []

    def run(total: int) -> Iterator[Any]:
        futures.extend(pool.submit(_worker_task, index) for index in range(total))
        for future in futures:
            yield future.result()

    try:
        yield run
    finally:
        for future in futures:
            future.cancel()
        pool.shutdown(wait=True, cancel_futures=True)


def _task(player: _Player, recipe: Recipe, index: int) -> Any:
    if index < recipe.episodes:
        return player.episode(index)
    return player.reference(index - recipe.episodes)


_worker_player: _Player | None = None
_worker_recipe: Recipe | None = None


def _begin_worker(recipe: Recipe, parent: int) -> None:
    """Prepares a worker process."""
    global _worker_player, _worker_recipe
    die_with_parent(parent)
    _worker_recipe = recipe
    _worker_player = _Player(recipe)


def _worker_task(index: int) -> Any:
    assert _worker_player is not None and _worker_recipe is not None
    return _task(_worker_player, _worker_recipe, index)

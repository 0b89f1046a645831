"""Playing one episode of a recipe, and the compact record of it."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from pmoss_datasets.recipes import SEARCH, Behaviour, Recipe
from pmoss_datasets.schema import FIELDS, Array, Episode, snapshot_fields
from pmoss_env.backends import Backend, IncrementalBackend
from pmoss_env.baselines import SEARCHES, make_baseline
from pmoss_env.errors import DatasetError, DescriptionError, PmossError, UnsupportedError
from pmoss_env.policies import Policy
from pmoss_env.types import NEIGHBOUR_FAMILIES, Float32Array, Schedule

ENV_ID = "pmoss/SpatialScheduling-v0"
#: Baselines that decide by what they see alone: the chance of what they choose is known.
_DETERMINISTIC = frozenset({"grouped", "spread", "mixed", "incumbent", "lpt", "lpt-capacity"})
# Independent streams of chance under one recipe seed.
_PLAY, _REFERENCE = 0, 1
# How a behaviour chooses: (step, observation, info) -> (tile, probability of that choice).
_Choice = Callable[[int, Any, Any], tuple[int, float]]


@dataclass(frozen=True)
class Played:
    """A played episode and what the dataset's metadata must know of it.

    Attributes:
        episode: the compact record.
        offcore_names: (O,) of its off-core values.
        provenance: of the incumbent's snapshot.
    """

    episode: Episode
    offcore_names: tuple[str, ...]
    provenance: dict[str, Any]

    def to_bytes(self) -> bytes:
        """An npz archive; from_bytes() reads it. Nothing in it needs unpickling."""
        values = {f.name: getattr(self.episode, f.name) for f in FIELDS}
        arrays = {name: np.asarray(value) for name, value in values.items() if value is not None}
        about = json.dumps({"offcore_names": self.offcore_names, "provenance": self.provenance})
        arrays["about"] = np.frombuffer(about.encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Played:
        """What to_bytes() wrote."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop("about").tobytes())
        values: dict[str, Any] = {
            name: array.item() if array.ndim == 0 else array for name, array in arrays.items()
        }
        return cls(Episode(**values), tuple(about["offcore_names"]), about["provenance"])


class Player:
    """Plays the episodes of one recipe, each by itself: number and seed decide all of it."""

    def __init__(self, recipe: Recipe) -> None:
        """Makes the environment; raises what it raises.

        Args:
            recipe: what to play.

        Raises:
            UnsupportedError: counterfactuals of a backend that cannot be asked move by move.
        """
        self._recipe = recipe
        self._env = gymnasium.make(ENV_ID, **recipe.kwargs)
        self._search_backend: Backend | None = None
        self._what_if: IncrementalBackend | None = None
        self._policies: dict[Behaviour, Policy] = {}
        backend = self._env.unwrapped.backend  # type: ignore[attr-defined]
        if recipe.counterfactuals and not backend.incremental:
            raise UnsupportedError(
                f"counterfactuals: the backend {backend.name!r} cannot be asked for each core at "
                "each step; 'analytic' can"
            )

    def episode(self, number: int) -> Played:
        """Plays one episode of the dataset."""
        recipe = self._recipe
        which = recipe.behaviour(number)
        behaviour = recipe.behaviours[which]
        first, visit = recipe.visit(number)
        seed, rng = _chance(recipe.seed, _PLAY, first)
        budget = behaviour.budget_of_visit(visit) if behaviour.visits > 1 else behaviour.budget
        return self._play(seed, rng, behaviour, budget, which, number)

    def reference(self, number: int) -> tuple[float, float, float]:
        """One reference episode, Mq/s: final under random, final under search, at the start."""
        budget = self._recipe.reference_budget
        seed, rng = _chance(self._recipe.seed, _REFERENCE, number)
        random = self._play(seed, rng, Behaviour("random"), None, 0, 0).episode
        search = self._play(seed, rng, Behaviour(SEARCH, budget=budget), budget, 0, 0).episode
        return random.final_throughput, search.final_throughput, search.incumbent_throughput

    def close(self) -> None:
        """Releases the backends."""
        self._env.close()
        for backend in (self._search_backend, self._what_if):
            if backend is not None:
                backend.close()

    def replay(
        self, seed: int, actions: Array, number: int, see: Callable[[int, Any], None]
    ) -> Played:
        """Plays an episode that someone else collected.

        Args:
            seed: of the environment's reset.
            actions: (T,) its tiles.
            number: of the episode.
            see: called with (step, observation) before every step.

        Raises:
            DatasetError: other than T actions, or one that is not allowed.
        """
        slices = self._env.unwrapped.slices  # type: ignore[attr-defined]
        if actions.shape != (slices,):
            raise DatasetError(f"actions: {actions.shape}: must be {(slices,)}")

        def choose(t: int, observation: Any, info: Any) -> tuple[int, float]:
            see(t, observation)
            tile = int(actions[t])
            if not (0 <= tile < info["action_mask"].size and info["action_mask"][tile]):
                raise DatasetError(f"actions: step {t}: the mask forbids tile {tile}")
            return tile, np.nan

        return self._record(seed, choose, 0, number)

    def _play(
        self,
        seed: int,
        rng: np.random.Generator,
        behaviour: Behaviour,
        budget: int | None,
        policy: int,
        number: int,
    ) -> Played:
        choice: list[_Choice] = []

        def choose(t: int, observation: Any, info: Any) -> tuple[int, float]:
            if not choice:  # it needs the episode to have begun
                choice.append(self._choice(behaviour, budget, rng))
            return choice[0](t, observation, info)

        return self._record(seed, choose, policy, number, behaviour.name)

    def _record(
        self, seed: int, choose: _Choice, policy: int, number: int, who: str = "the policy"
    ) -> Played:
        observation, info = self._env.reset(seed=seed)
        env: Any = self._env.unwrapped
        steps = env.slices
        actions = np.zeros(steps, dtype=np.int16)
        propensity = np.zeros(steps, dtype=np.float32)
        throughput = np.full(steps, np.nan)
        for t in range(steps):
            tile, propensity[t] = choose(t, observation, info)
            observation, _, _, _, info = self._env.step(tile)
            actions[t], throughput[t] = tile, info["throughput"]
        kwargs = self._recipe.kwargs
        if not env.backend.incremental or kwargs.get("measure_every") not in (None, 1):
            throughput[:-1] = np.nan  # info holds the latest measurement, which is an older step's
        if info["illegal_actions"]:
            raise DatasetError(f"seed {seed}: {who} chose a tile that is not allowed")
        snapshot, final = env.incumbent_snapshot, env.final_snapshot()
        neighbours, families = env.instance.neighbours, list(NEIGHBOUR_FAMILIES)
        episode = Episode(
            episode=number,
            seed=seed,
            workload_seed=env.instance.workload_seed,
            neighbour_family=np.array([families.index(n.family) for n in neighbours], np.int16),
            neighbour_target=np.array([n.target for n in neighbours], dtype=np.int16),
            neighbour_strength=np.array([n.strength for n in neighbours], dtype=np.float64),
            policy=policy,
            order=env.order.astype(np.int16),
            actions=actions,
            propensity=propensity,
            throughput=throughput,
            incumbent_cores=env.incumbent.cores.astype(np.int16),
            incumbent_nodes=env.incumbent.nodes.astype(np.int16),
            final_cores=env.schedule.cores.astype(np.int16),
            final_nodes=env.schedule.nodes.astype(np.int16),
            counterfactual=self._counterfactual(env) if self._recipe.counterfactuals else None,
            **snapshot_fields("incumbent", snapshot),
            **snapshot_fields("final", final),
        )
        return Played(episode, snapshot.offcore_names, dict(snapshot.provenance))

    def _choice(
        self, behaviour: Behaviour, budget: int | None, rng: np.random.Generator
    ) -> _Choice:
        """How a behaviour plays the episode that has just begun."""
        env: Any = self._env.unwrapped
        epsilon, workers = behaviour.epsilon, env.machine.workers.size
        bound = self._recipe.kwargs.get("constraints") is not None
        if behaviour.is_imported:
            if behaviour not in self._policies:
                self._policies[behaviour] = imported_policy(behaviour)
            policy = self._policies[behaviour]
            policy.reset()
            observe: Callable[[float], None] | None = getattr(policy, "observe", None)
            before = np.nan

            def act(t: int, observation: Any, info: Any) -> tuple[int, float]:
                nonlocal before
                if observe is not None and t > 0:
                    observe(info["throughput"] - before)
                before = info["throughput"]
                tile = int(policy.act(observation, info["action_mask"]))
                if rng.random() < epsilon:
                    tile = int(rng.choice(np.flatnonzero(info["action_mask"])))
                return tile, 1 / workers if epsilon == 1 and not bound else np.nan

            return act
        planned = self._plan(env, behaviour, budget, rng)
        schedule = self._stray(env, planned, epsilon, rng)
        tiles = env.machine.tile_of_core[schedule.cores[env.order]]
        followed = schedule.cores[env.order] == planned.cores[env.order]
        if bound and (epsilon or behaviour.policy == "random"):
            chances = np.full(tiles.size, np.nan)
        elif behaviour.policy == "random" or epsilon == 1:
            chances = np.full(tiles.size, 1 / workers)
        elif behaviour.policy in _DETERMINISTIC:
            chances = epsilon / workers + (1 - epsilon) * followed
        else:
            chances = np.full(tiles.size, np.nan)
        return lambda t, _, __: (int(tiles[t]), float(chances[t]))

    def _plan(
        self, env: Any, behaviour: Behaviour, budget: int | None, rng: np.random.Generator
    ) -> Schedule:
        """The schedule that a baseline wants."""
        asks = behaviour.policy in (*SEARCHES, "exact")
        backend = self._backend(env) if asks else None
        return make_baseline(behaviour.policy, budget=budget)(env.context(rng, backend))

    def _stray(
        self, env: Any, schedule: Schedule, epsilon: float, rng: np.random.Generator
    ) -> Schedule:
        """A schedule with noise that respects the constraint."""
        cores = schedule.cores.copy()
        strays = np.flatnonzero(rng.random(cores.size) < epsilon)
        most = (self._recipe.kwargs.get("constraints") or {}).get("max_slices_per_core")
        room = np.full(env.machine.cores, most or cores.size)
        np.subtract.at(room, cores, 1)
        for slice_ in strays:
            room[cores[slice_]] += 1
            cores[slice_] = rng.choice(env.machine.workers[room[env.machine.workers] > 0])
            room[cores[slice_]] -= 1
        return env.machine.local_schedule(cores)  # type: ignore[no-any-return]

    def _counterfactual(self, env: Any) -> Float32Array:
        """(T, W) float32, Mq/s: the throughput after each step for each worker core."""
        if self._what_if is None:
            self._what_if = env.new_backend()
        backend = self._what_if
        assert backend is not None
        backend.set_instance(env.instance)
        backend.place(env.incumbent)
        workers, final = env.machine.workers, env.schedule.cores
        table = np.empty((env.slices, workers.size), dtype=np.float32)
        for t, slice_ in enumerate(env.order.tolist()):
            table[t] = backend.marginal(slice_)[workers]
            backend.move(slice_, int(final[slice_]))
        return table

    def _backend(self, env: Any) -> Backend:
        """A backend of its own for search, so that the episode's stays as the episode left it."""
        if self._search_backend is None:
            self._search_backend = env.new_searchable_backend()
        self._search_backend.set_instance(env.instance)
        return self._search_backend


class RecipeWork:
    """The tasks of one recipe by number: first its episodes, then its reference episodes."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        # Made by the first task: what it raises is then that task's error, wherever it is done.
        self._player: Player | None = None

    def __call__(self, number: int) -> bytes:
        """The record of one task: an episode as ``Played.to_bytes``, or three float64."""
        if self._player is None:
            self._player = Player(self._recipe)
        if number < self._recipe.episodes:
            return self._player.episode(number).to_bytes()
        scores = self._player.reference(number - self._recipe.episodes)
        return np.array(scores, dtype="<f8").tobytes()

    def close(self) -> None:
        """Releases the backends."""
        if self._player is not None:
            self._player.close()


def imported_policy(behaviour: Behaviour) -> Policy:
    """The policy that a behaviour's "module:function" gives.

    Raises:
        DescriptionError: it cannot be imported or called, or gives no policy.
        PmossError: what the function raises of them.
    """
    module, _, function = behaviour.policy.partition(":")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DescriptionError(f"policy {behaviour.policy!r}: cannot be imported: {error}") from (
            error
        )
    try:
        policy = make(*behaviour.arguments)
    except PmossError:
        raise
    except Exception as error:  # someone else's function may raise anything
        raise DescriptionError(
            f"policy {behaviour.policy!r}: cannot be made of its arguments (--argument) "
            f"{list(behaviour.arguments)}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(policy, Policy):
        raise DescriptionError(
            f"policy {behaviour.policy!r}: gives {policy!r}, which has no reset() and act()"
        )
    return policy


def _chance(seed: int, stream: int, number: int) -> tuple[int, np.random.Generator]:
    """The environment's seed and the policy's generator of one episode."""
    root = np.random.SeedSequence([seed, stream, number])
    env, policy = root.spawn(2)
    # Seeds below 2^53 survive JSON readers that know only doubles.
    return int(env.generate_state(1, np.uint64)[0] >> np.uint64(11)), np.random.default_rng(policy)

"""Playing one episode of a recipe, and the compact record of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from pmoss_datasets.fairness import is_ours, policy_stream
from pmoss_datasets.playing import PLAY, REFERENCE, chance, chance_of_fixed, imported_policy
from pmoss_datasets.policies import Planner, Policy, planned_actions
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_datasets.schema import INSTANCE_FIELDS, Array, Played
from pmoss_datasets.spatial.schema import snapshot_fields
from pmoss_env.backends import Backend, IncrementalBackend
from pmoss_env.backends.data_facts import misplaced
from pmoss_env.baselines import local_search, make_baseline, needs_backend, random
from pmoss_env.errors import DatasetError, UnsupportedError
from pmoss_env.types import CO_TENANT_FAMILIES, Float32Array, Int32Array, Schedule

ENV_ID = "pmoss/SpatialScheduling-v0"
#: Baselines that decide by what they see alone: the chance of what they choose is known.
DETERMINISTIC = frozenset({"grouped", "spread", "mixed", "incumbent", "lpt", "lpt-capacity"})
#: The search whose way can be stopped at, and that defines a score of 100.
SEARCH = "local-search"
#: Random schedules whose mean an instance's other throughputs are compared with.
_DRAWS = 20
# How a behaviour chooses: (step, observation, info) -> (tile, probability of that choice).
_Choice = Callable[[int, Any, Any], tuple[int, float]]


class SpatialPlayer:
    """Plays the episodes of one recipe, each by itself: number and seed decide all of it."""

    def __init__(self, recipe: Recipe) -> None:
        """Makes the environment; raises what it raises.

        Raises:
            UnsupportedError: counterfactuals of a backend that cannot be asked move by move.
        """
        self._recipe = recipe
        self._env = gymnasium.make(ENV_ID, **recipe.kwargs)
        self._search_backend: Backend | None = None
        self._what_if: IncrementalBackend | None = None
        self._policies: dict[Behaviour, Policy] = {}
        # Episodes on the way of one search have one instance: its seed, and what it lets reach.
        self._instance_range: tuple[int, tuple[float, float]] | None = None
        backend = self._env.unwrapped.backend  # type: ignore[attr-defined]
        if recipe.relative and not backend.incremental:
            raise UnsupportedError(
                f"relative: the backend {backend.name!r} cannot be searched; 'analytic' can"
            )
        if recipe.counterfactuals and recipe.kwargs.get("actions", "core") != "core":
            raise UnsupportedError(
                "counterfactuals: they tell a throughput for each core, with the data on its node: "
                "use actions='core'"
            )
        choices = int(self._env.action_space.n)  # type: ignore[attr-defined]
        if choices > np.iinfo(np.int16).max:
            raise UnsupportedError(
                f"{choices} actions: a dataset stores them in 16 bits: take a smaller machine, or "
                "actions='core'"
            )
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
        seed, rng = chance(recipe.seed, PLAY, first)
        budget = behaviour.budget_of_visit(visit) if behaviour.visits > 1 else behaviour.budget
        if behaviour.fixed:
            rng = chance_of_fixed(behaviour, recipe.fixed_schedule(number))
        return self._play(seed, rng, behaviour, budget, which, number)

    def reference(self, number: int) -> tuple[float, ...]:
        """One reference episode, Mq/s: final under random, final under search, at the start."""
        budget = self._recipe.reference_budget
        seed, rng = chance(self._recipe.seed, REFERENCE, number)
        random = self._play(seed, rng, Behaviour("random"), None, 0, 0).values
        search = self._play(seed, rng, Behaviour(SEARCH, budget=budget), budget, 0, 0).values
        return tuple(
            float(values[name])
            for values, name in (
                (random, "final_throughput"),
                (search, "final_throughput"),
                (search, "incumbent_throughput"),
            )
        )

    def close(self) -> None:
        """Releases the backends."""
        self._env.close()
        for backend in (self._search_backend, self._what_if):
            if backend is not None:
                backend.close()

    def replay(self, seed: int, actions: Array, number: int) -> Played:
        """Plays an episode whose tiles are known; see Player.replay."""
        slices = self._env.unwrapped.slices  # type: ignore[attr-defined]
        if actions.shape != (slices,):
            raise DatasetError(f"actions: {actions.shape}: must be {(slices,)}")

        def choose(t: int, observation: Any, info: Any) -> tuple[int, float]:
            tile = int(actions[t])
            if not (0 <= tile < info["action_mask"].size and info["action_mask"][tile]):
                raise DatasetError(f"actions: step {t}: the mask forbids action {tile}")
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
        choice: _Choice | None = None

        def choose(t: int, observation: Any, info: Any) -> tuple[int, float]:
            nonlocal choice
            if choice is None:  # it needs the episode to have begun
                choice = self._choice(behaviour, budget, seed, rng)
            return choice(t, observation, info)

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
        co_tenants, families = env.instance.co_tenants, list(CO_TENANT_FAMILIES)
        values = dict(
            episode=number,
            seed=seed,
            workload_seed=env.instance.workload_seed,
            neighbour_family=np.array([families.index(n.family) for n in co_tenants], np.int16),
            neighbour_target=np.array([n.target for n in co_tenants], dtype=np.int16),
            neighbour_strength=np.array([n.strength for n in co_tenants], dtype=np.float64),
            policy=policy,
            order=env.order.astype(np.int16),
            actions=actions,
            propensity=propensity,
            throughput=throughput,
            incumbent_cores=env.incumbent.cores.astype(np.int16),
            incumbent_nodes=env.incumbent.nodes.astype(np.int16),
            final_cores=env.schedule.cores.astype(np.int16),
            final_nodes=env.schedule.nodes.astype(np.int16),
            **snapshot_fields("incumbent", snapshot),
            **snapshot_fields("final", final),
        )
        if self._recipe.counterfactuals:
            values["counterfactual"] = self._counterfactual(env)
        if self._recipe.relative:
            values |= dict(zip(INSTANCE_FIELDS, self._instance(env, seed), strict=True))
        about = {
            "offcore_names": list(snapshot.offcore_names),
            "provenance": dict(snapshot.provenance),
            "misplaced": [misplaced(measured.provenance) for measured in (snapshot, final)],
        }
        return Played(values, about)

    def _choice(
        self, behaviour: Behaviour, budget: int | None, seed: int, rng: np.random.Generator
    ) -> _Choice:
        """The choices of a behaviour in the episode that has just begun."""
        env: Any = self._env.unwrapped
        epsilon, workers = behaviour.epsilon, env.machine.workers.size
        # Chances are known where neither constraints nor full nodes bind.
        bound = env.session.chooses_node or self._recipe.kwargs.get("constraints") is not None
        if behaviour.is_imported:
            if behaviour not in self._policies:
                self._policies[behaviour] = imported_policy(behaviour)
            policy = self._policies[behaviour]
            policy.reset()
            if isinstance(policy, Planner):
                # The recipe's stream leads back to its seed: a collector of others has its own.
                policy.plan(env.context(rng if is_ours(policy) else policy_stream(seed)), env.order)
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
        tiles = planned_actions(env.machine, schedule, env.order, env.session.chooses_node)
        followed = schedule.cores[env.order] == planned.cores[env.order]
        # Which data spill depends on all slices.
        drawn = behaviour.fixed or behaviour.scattered
        if (
            drawn
            or env.session.chooses_node
            or (bound and (epsilon or behaviour.policy == "random"))
        ):
            chances = np.full(tiles.size, np.nan)
        elif behaviour.policy == "random" or epsilon == 1:
            chances = np.full(tiles.size, 1 / workers)
        elif behaviour.policy in DETERMINISTIC:
            chances = epsilon / workers + (1 - epsilon) * followed
        else:
            chances = np.full(tiles.size, np.nan)
        return lambda t, _, __: (int(tiles[t]), float(chances[t]))

    def _plan(
        self, env: Any, behaviour: Behaviour, budget: int | None, rng: np.random.Generator
    ) -> Schedule:
        """The schedule that a baseline wants."""
        baseline = make_baseline(behaviour.policy, budget=budget)
        backend = self._backend(env) if needs_backend(baseline) else None
        schedule = baseline(env.context(rng, backend))
        return self._scatter(env, schedule, rng) if behaviour.scattered else schedule

    def _scatter(self, env: Any, schedule: Schedule, rng: np.random.Generator) -> Schedule:
        """A schedule with each slice on a random worker of its node that has room."""
        machine, context = env.machine, env.context(rng)
        room = np.full(machine.cores, context.max_slices_per_core or env.slices)
        cores = np.empty_like(schedule.cores)
        for slice_, node in enumerate(machine.node_of_core[schedule.cores]):
            workers = machine.workers_of_node[node]
            cores[slice_] = rng.choice(workers[room[workers] > 0])
            room[cores[slice_]] -= 1
        return context.local_schedule(cores)  # type: ignore[no-any-return]

    def _stray(
        self, env: Any, schedule: Schedule, epsilon: float, rng: np.random.Generator
    ) -> Schedule:
        """A schedule with noise that respects the constraints."""
        cores = schedule.cores.copy()
        strays = np.flatnonzero(rng.random(cores.size) < epsilon)
        limit = (self._recipe.kwargs.get("constraints") or {}).get("max_slices_per_core")
        room = np.full(env.machine.cores, limit or cores.size)
        np.subtract.at(room, cores, 1)
        for slice_ in strays:
            room[cores[slice_]] += 1
            cores[slice_] = rng.choice(env.machine.workers[room[env.machine.workers] > 0])
            room[cores[slice_]] -= 1
        if not strays.size:
            return schedule
        if env.session.chooses_node:
            return self._astray(env, schedule, cores, strays, rng)
        return env.context(rng).local_schedule(cores)  # type: ignore[no-any-return]

    def _astray(
        self,
        env: Any,
        schedule: Schedule,
        cores: Int32Array,
        strays: Array,
        rng: np.random.Generator,
    ) -> Schedule:
        """A schedule whose strays have their data on a node with room that chance picks."""
        nodes = schedule.nodes.copy()
        limit = env.session.slices_of_node
        room = np.full(env.machine.nodes, env.slices) if limit is None else limit.copy()
        np.subtract.at(room, nodes, 1)
        for slice_ in strays:
            room[nodes[slice_]] += 1
            nodes[slice_] = rng.choice(np.flatnonzero(room > 0))
            room[nodes[slice_]] -= 1
        return Schedule(cores, nodes)

    def _instance(self, env: Any, seed: int) -> tuple[float, float]:
        """Throughputs on the episode's instance, Mq/s: random schedules, and what search finds."""
        if self._instance_range is None or self._instance_range[0] != seed:
            backend = self._backend(env)
            context = env.context(np.random.default_rng((seed, 3)), backend)
            drawn = [backend.place(random(context)) for _ in range(_DRAWS)]  # type: ignore[attr-defined]
            best = local_search(context, self._recipe.reference_budget)
            self._instance_range = seed, (float(np.mean(drawn)), best.throughput)
        return self._instance_range[1]

    def _counterfactual(self, env: Any) -> Float32Array:
        """(T, W) float32, Mq/s: the throughput after each step for each worker core."""
        if self._what_if is None:
            self._what_if = env.session.new_backend()
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
            self._search_backend = env.session.new_searchable_backend()
        self._search_backend.set_instance(env.instance)
        return self._search_backend

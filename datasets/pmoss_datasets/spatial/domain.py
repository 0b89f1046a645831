"""Spatial scheduling as a domain: which core serves which slice of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from pmoss_datasets.domain import Domain
from pmoss_datasets.interfaces import Companion, Rollout
from pmoss_datasets.policies import Policy, SchedulePolicy, SharedSchedule
from pmoss_datasets.presets import read_tiers
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.schema import Array, Metadata, Played
from pmoss_datasets.spatial import card, rollouts, scoring
from pmoss_datasets.spatial.counter_columns import in_todays_columns
from pmoss_datasets.spatial.expansion import Expander
from pmoss_datasets.spatial.expansion import rewards as rewards_of_episode
from pmoss_datasets.spatial.playing import ENV_ID, SEARCH, SpatialPlayer
from pmoss_datasets.spatial.schema import (
    FIELDS,
    Episode,
    SpatialMetadata,
    machine_facts,
    machine_of,
)
from pmoss_datasets.spatial.validation import spatial_metadata_problems, spatial_problems
from pmoss_datasets.spatial.world_sets import FORMAT, WorldSet
from pmoss_env.backends import backend_class
from pmoss_env.baselines import (
    NOTHING,
    SEARCHES,
    SHARED_BASELINES,
    baseline_names,
    has_budget,
    information_of,
    make_baseline,
    needs_backend,
)
from pmoss_env.baselines.exact import MAX_SCHEDULES
from pmoss_env.checks import check_type
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import DescriptionError, PmossError, UnknownNameError, UnsupportedError
from pmoss_env.machines import Machine, load_machine
from pmoss_env.measuring import AUTO_NUMA, BALANCED, BALANCING, balancing_rows
from pmoss_env.types import COUNTER_NAMES
from pmoss_env.workloads import load_workload

#: Arguments besides machine, workload, load, ... that change what a dataset holds.
_STORED = (
    "observation",
    "actions",
    "incumbent",
    "order",
    "workload_seed",
    "counters",
    "noise",
    "deviation",
    "constraints",
    "backend_options",
    "measure_every",
)


def _in_a_name(value: Any) -> str:
    """A value as a part of a task's name; of a list that repeats, once and how often."""
    if not isinstance(value, list) or not value:
        return str(value).removesuffix(".0")  # noise 1.0 is noise 1
    size = next(n for n in range(1, len(value) + 1) if value[:n] * (len(value) // n) == value)
    times = len(value) // size
    return "-".join(map(_in_a_name, value[:size])) + (f"-x{times}" if times > 1 else "")


class SpatialDomain(Domain):
    """Datasets, policies and scores of ``pmoss/SpatialScheduling-v0``."""

    name = "spatial"
    env_id = ENV_ID
    metadata = SpatialMetadata
    rewards = ("terminal", "slice", "improvement")
    references = ("random", "search", "incumbent")
    outcome = "final_throughput"
    unit = "Mq/s"
    optional = tuple(field.name for field in FIELDS if field.optional)
    ragged = "K"
    formats: Mapping[str, Callable[[Path], WorldSet]] = MappingProxyType({FORMAT: WorldSet})
    presets = Path(__file__).parent / "presets"
    compared = (
        *("os-default", "os-interleave", "random", "grouped", "spread", "mixed"),
        *("lpt", "lpt-capacity", "best-fit", "local-search"),
    )
    simple = ("grouped", "spread", "mixed", "random", "lpt")
    #: Workers share slices there.
    unplaced = (*SHARED_BASELINES, AUTO_NUMA)
    kind = "schedule"
    offers = frozenset({"undoing", "schedules"})
    rolled_out = ("lpt", "os-default")
    host_arguments: Mapping[str, Any] = MappingProxyType({"backend": "hardware", "machine": "host"})
    usual: Mapping[str, Any] = {
        "machine": "skylake-x-8n",
        "index": "btree",
        "workload": "ycsb-a",
        "slices": 256,
        "backend": "analytic",
        "load": "closed",
        "interference": "none",
    }

    # Written elsewhere, where nothing of the domain is needed.
    player = staticmethod(SpatialPlayer)
    expander = staticmethod(Expander)
    rewards_of = staticmethod(rewards_of_episode)
    describe = staticmethod(card.describe)
    reference_text = staticmethod(card.reference_text)
    judge = staticmethod(scoring.SpatialJudge)
    rerun = staticmethod(scoring.rerun)
    companion = staticmethod(scoring.Searcher)
    row_of = staticmethod(rollouts.row_of)
    row_in_words = staticmethod(rollouts.in_words)
    restore = staticmethod(rollouts.restore)

    def check_task(self, kwargs: Mapping[str, Any]) -> None:
        """Refuses arguments that would not even make a name."""
        for key in ("machine", "index", "workload", "backend", "load", "interference"):
            check_type(f"env: {key}", str, kwargs[key])

    def task(self, kwargs: Mapping[str, Any]) -> str:
        """``<machine>-<index>-<workload>``, and where not the usual ones load, interference, ...

        The number of slices is no part of it.
        """
        machine, workload = (Path(kwargs[key]).stem for key in ("machine", "workload"))
        name = f"{machine}-{kwargs['index']}-{workload}"
        if kwargs["load"] != "closed":
            name += "-" + kwargs["load"].replace(".", "_")
        if kwargs["interference"] != "none":
            name += "-" + kwargs["interference"].replace("_", "-")
        if kwargs["backend"] != "analytic":
            name += "-" + kwargs["backend"]
        defaults = self.parameters()
        for key in _STORED:
            value = kwargs.get(key, defaults[key])
            if value != defaults[key]:
                parts = value if isinstance(value, Mapping) else {key: value}
                for part in sorted(parts):
                    text = f"-{part}-{_in_a_name(parts[part])}"
                    name += text.replace("_", "-").replace(".", "_")
        return name

    def policies(self) -> tuple[str, ...]:
        """The baselines: ours first, then those of other packages."""
        return tuple(baseline_names())

    def policy(self, name: str, *, budget: int | None = None) -> Policy:
        """A baseline as a policy, those of ``unplaced``, too."""
        if name in BALANCING:
            return SharedSchedule(BALANCED, BALANCING[name] == "1")
        if name in self.unplaced and budget is None:
            return SharedSchedule(name)
        return SchedulePolicy(make_baseline(name, budget=budget))

    def takes_budget(self, name: str) -> bool:
        """Whether a baseline has a parameter ``budget``."""
        return has_budget(BALANCED if name in BALANCING else name)

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuses unknown baselines, and budgets and visits of those that do not search."""
        for behaviour in recipe.behaviours:
            policy, budget, visits = behaviour.policy, behaviour.budget, behaviour.visits
            if not behaviour.is_imported and policy not in self.policies():
                if policy.endswith(".safetensors"):
                    raise DescriptionError(
                        f"{policy}: a checkpoint collects as pmoss_agents:load, with the argument "
                        f"{policy}"
                    )
                raise UnknownNameError("policy", policy, [*self.policies(), "module:function"])
            if behaviour.fixed and information_of(policy) != NOTHING:
                raise DescriptionError(
                    f"{policy}: fixed = {behaviour.fixed}: it reads {information_of(policy)}, so "
                    "that no schedule of it is the same in every episode; random and grouped are"
                )
            if budget is not None and (behaviour.is_imported or not has_budget(policy)):
                raise DescriptionError(
                    f"{policy}: budget = {budget}: only policies that search take one, such as "
                    f"{', '.join(SEARCHES)}"
                )
            if visits > 1 and policy != SEARCH:
                raise DescriptionError(
                    f"{policy}: visits = {visits}: must be 1, or more of {SEARCH}"
                )

    def tiers(self) -> Mapping[str, Mapping[str, Any]]:
        """The committed mixtures."""
        return read_tiers(self.presets)

    def asked(self, env: Mapping[str, Any]) -> dict[str, Any]:
        """On hardware the machine is the host, and nothing can be searched for references."""
        if "backend" not in env or not self.measures_host(env):
            return super().asked(env)
        return {"env": {"machine": "host", **env}, "reference_episodes": 0}

    def measures_host(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether the backend runs on the host."""
        return backend_class(str(kwargs.get("backend", self.usual["backend"]))).measures_host

    def facts(self, recipe: Recipe, played: Sequence[Played]) -> dict[str, Any]:
        """Slices, names of counters and off-core values, machine, provenance."""
        provenance = dict(played[-1].about["provenance"])
        provenance.pop("seed", None)  # differs between the episodes; each has its own field
        # The rest is the last episode's: what went wrong in any other would be lost.
        counts = {
            str(number): episode.about.get("misplaced", []) for number, episode in enumerate(played)
        }
        if misplaced := {number: count for number, count in counts.items() if any(count)}:
            provenance["slices_not_in_place"] = misplaced
        return {
            "slices": played[0].values["actions"].size,
            "counter_names": COUNTER_NAMES,
            "offcore_names": tuple(played[-1].about["offcore_names"]),
            "machine": machine_facts(load_machine(recipe.kwargs["machine"])),
            "provenance": provenance,
        }

    def episode(self, values: Mapping[str, Any]) -> Episode:
        """The record of one episode."""
        return Episode(**values)

    def values(self, episode: Episode) -> Mapping[str, Any]:
        """The values of an episode by field."""
        return vars(episode)

    def machine(self, metadata: Metadata, where: Path | str) -> Machine:
        """The machine whose cores and tiles schedules and actions refer to."""
        return machine_of(cast(SpatialMetadata, metadata), where)

    def metadata_problems(self, metadata: Metadata, *, stored: bool) -> Iterator[str]:
        """The problems of the domain's part of the metadata."""
        return spatial_metadata_problems(cast(SpatialMetadata, metadata), stored=stored)

    def unchecked(self, metadata: Metadata) -> Iterator[str]:
        """Without its workload nothing says what a slice takes, and no episode can be played."""
        name = metadata.env_kwargs.get("workload", self.usual["workload"])
        try:
            load_workload(str(name))
        except PmossError as error:
            yield (
                f"env_kwargs: workload = {name!r}: cannot be loaded ({error}): whether its nodes "
                "hold the data, and its episodes play again"
            )

    def current_metadata(self, stored: Metadata) -> Metadata:
        """The metadata with the counters of today's table."""
        return replace(cast(SpatialMetadata, stored), counter_names=COUNTER_NAMES)

    def current(self, field: str, array: Array, stored: Metadata) -> Array:
        """A field with the counters of today's table; see in_todays_columns()."""
        return in_todays_columns(field, array, cast(SpatialMetadata, stored).counter_names)

    def protocol(self) -> dict[str, Any]:
        """The table of counters."""
        return {"counters": list(COUNTER_NAMES)}

    def problems(
        self, arrays: Mapping[str, Array], metadata: Metadata, machine: Machine | None
    ) -> Iterator[str]:
        """The problems of the values."""
        assert machine is not None
        return spatial_problems(arrays, cast(SpatialMetadata, metadata), machine)

    def paying(self, kwargs: Mapping[str, Any], mode: str) -> dict[str, Any]:
        """Arguments of an environment that pays rewards of a mode."""
        return {**kwargs, "reward": mode}

    def task_of(self, env: Any) -> tuple[dict[str, Any], str]:
        """Arguments for a recipe of a bare environment, and the mode of its rewards.

        Datasets serve every mode, so the reward is none of it. Shares of the final throughput are
        known in hindsight only: the environment pays "slice" as "terminal".
        """
        kwargs, _ = super().task_of(env)
        mode = kwargs.pop("reward", None) or env.reward
        return kwargs, "terminal" if mode == "slice" else mode

    def reference_returns(
        self, scores: Mapping[str, Mapping[str, float]], mode: str
    ) -> tuple[float, float]:
        """Mean returns that score 0 and 100; "improvement" lacks what the incumbents gave."""
        start = scores["incumbent"]["mean"] if mode == "improvement" else 0.0
        return scores["random"]["mean"] - start, scores["search"]["mean"] - start

    def opponents(self) -> tuple[str, ...]:
        """The baselines that place slices: ours first, then those of other packages."""
        return tuple(name for name in self.policies() if name != "incumbent")

    def knows(self, name: str) -> str:
        """The information that a baseline may use, in words."""
        return information_of(BALANCED if name in BALANCING else name)

    def scale(self, budget: int, draws: int) -> str:
        """What scores 0 and 100, in words."""
        return (
            f"0 is the mean of {draws} random schedules of each episode, 100 the best that local "
            f"search with {budget} evaluations of the model finds"
        )

    def absence(self, env: SpatialSchedulingEnv, name: str, budget: int) -> str | None:
        """The reason why a baseline cannot play; empty for "exact" where it takes too long."""
        if name == "exact" and env.machine.workers.size**env.slices > MAX_SCHEDULES:
            return ""
        baseline = make_baseline(name, budget=budget if has_budget(name) else None)
        if not needs_backend(baseline):
            try:
                baseline(env.context(np.random.default_rng(0)))
            except UnsupportedError as error:
                return str(error)
        return None

    def with_settings(
        self, policies: Mapping[str, Policy], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Policy], str]:
        """Behind Linux's default: the same with automatic NUMA balancing on, on a host also off.

        A model's default is without it.
        """
        arguments = {**self.usual, **kwargs}
        options = arguments.get("backend_options") or {}
        if BALANCED not in policies or "numa_balancing" in options:
            return dict(policies), ""
        on_host = self.measures_host(arguments)
        nodes = load_machine(str(arguments["machine"])).nodes if on_host else None
        names, without = balancing_rows(str(arguments["backend"]), nodes)
        result: dict[str, Policy] = {}
        for name, policy in policies.items():
            result[name] = policy
            if name == BALANCED:
                result |= {setting: self.policy(setting) for setting in names}
        return result, without

    def play(
        self, env: Any, policy: Policy, seed: int, judge: Companion | None = None, **options: Any
    ) -> Rollout:
        """Plays one episode; a baseline plans it at its beginning."""
        return scoring.play(env, policy, seed, judge, options)

    def measures_twice(self, env: SpatialSchedulingEnv) -> bool:
        """On hardware, where the host may have changed meanwhile."""
        return env.backend.measures_host

    def watch(
        self, env: SpatialSchedulingEnv, listener: Callable[[dict[str, Any]], None] | None
    ) -> None:
        """Calls the listener with every sweeping round of the hardware backend."""
        env.session.watch(listener)

    def ends_of(self, row: Mapping[str, Any]) -> tuple[float | None, float]:
        """Throughputs of the incumbent and of the policy's schedule, Mq/s.

        The incumbent's is the mean of before and after, where it was measured twice.
        """
        before = float(row["incumbent_mq_per_s"])
        if compared := row.get("comparison"):
            before = (before + compared["again_mq_per_s"]) / 2
        return before, float(row["final_mq_per_s"])


SPATIAL = SpatialDomain()

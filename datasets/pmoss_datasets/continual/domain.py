"""Continual scheduling as a domain: an index that runs while load and co-tenants change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pmoss_datasets.continual.oracles import Delayed, Law, Now, ThoroughLaw, ThoroughNow
from pmoss_datasets.continual.planners import FittedPlanner, SeasonalPlanner
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_datasets.continual.rules import BestFit, Interleave, KernelLike, Repair, Stay, Tries
from pmoss_datasets.continual.thorough import ThoroughPlanner
from pmoss_datasets.fairness import reads_environment
from pmoss_datasets.interfaces import Judge
from pmoss_datasets.policies import Policy
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.stepwise import Rule, StepDomain
from pmoss_datasets.stepwise.policies import any_legal
from pmoss_env.envs.continual.episodes import INFO_KEYS
from pmoss_env.errors import DescriptionError, UnsupportedError

#: Every policy that decides rounds, by name.
POLICIES: Mapping[str, Callable[..., RoundPolicy]] = {
    "stay": Stay,
    "interleave": Interleave,
    "best-fit-once": lambda: BestFit(0),
    "best-fit-10": lambda: BestFit(10),
    "kernel-like": KernelLike,
    "repair": Repair,
    "tries": Tries,
    "planner": FittedPlanner,
    "seasonal-planner": SeasonalPlanner,
    "thorough-planner": ThoroughPlanner,
    "delayed-oracle": Delayed,
    "law-oracle": Law,
    "now-oracle": Now,
    "thorough-law-oracle": ThoroughLaw,
    "thorough-now-oracle": ThoroughNow,
}
# Rules read the counters of the running environment, and oracles its true machine.
for _make in POLICIES.values():
    reads_environment(type(_make()))
ORACLES = tuple(name for name in POLICIES if name.endswith("-oracle"))
_PLANNERS = ("planner", "seasonal-planner", "thorough-planner")


class ContinualDomain(StepDomain):
    """Datasets, policies and scores of ``pmoss/ContinualScheduling-v1``.

    An episode scores by the million queries that were served in it: 0 is what staying serves, 100
    what the law oracle does.
    """

    name = "continual"
    env_id = "pmoss/ContinualScheduling-v1"
    data_version = 2  # 1: tiers of 300 episodes; 0: copies at the latency of idle memories
    _noisy_version = 3  # with noise; 2: tiers of 300 episodes; 1: response times had none
    rules: ClassVar[Mapping[str, Rule]] = dict.fromkeys(POLICIES, any_legal)
    undecided = ("best-fit-once", "best-fit-10", "tries", "law-oracle", "thorough-law-oracle")
    zero = "stay"
    ends = "truncated"
    good = ("law-oracle",)
    knowledge: ClassVar[Mapping[str, str]] = {
        "stay": "nothing",
        "interleave": "nothing",
        **dict.fromkeys(_PLANNERS, "the counters, the workload and the described machine"),
        "delayed-oracle": "the machine, and what the last epoch was like",
        **dict.fromkeys(
            ("law-oracle", "thorough-law-oracle"),
            "the machine, what the last epoch was like, and the law of the drift",
        ),
        "now-oracle": "the machine, and what the next epoch will be like",
        "thorough-now-oracle": "the machine, and what the next epochs will be like",
    }
    simple = ("random", "stay", "interleave", "best-fit-once")
    infos: tuple[str, ...] = INFO_KEYS[2:]  # all but masks and what broke them
    on_machine = True
    outcome_name = "number of queries served"
    unit = "million queries"
    usual: ClassVar[Mapping[str, Any]] = {
        "machine": "skylake-x-8n",
        "drift": "jobs",
        "moves_per_epoch": 8,
    }

    def task(self, kwargs: Mapping[str, Any]) -> str:
        """``<machine>-continual-<drift>`` and the arguments that are not usual."""
        machine, drift = Path(kwargs["machine"]).stem, str(kwargs["drift"])
        others = self.unusual(kwargs, {"machine", "drift", "drift_options"})
        return "-".join([machine, self.name, drift, *self._options(kwargs), *others])

    def _options(self, kwargs: Mapping[str, Any]) -> Iterator[str]:
        for key, value in sorted((kwargs.get("drift_options") or {}).items()):
            text = "-to-".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{key}-{text}".replace("_", "-").replace(".", "_")

    def measures_host(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether the index runs on this host."""
        return kwargs.get("backend") == "hardware"

    def asked(self, env: Mapping[str, Any]) -> dict[str, Any]:
        """On hardware the machine is the host, and no oracle can say what scores 100."""
        if not self.measures_host(env):
            return super().asked(env)
        return {"env": {"machine": "host", **env}, "reference_episodes": 0}

    def version_of(self, kwargs: Mapping[str, Any]) -> int:
        """Another one where there is noise."""
        return self._noisy_version if kwargs.get("noise") else self.data_version

    def judge(self, env: Any) -> Judge:
        """Refuses a host before its index is loaded: no oracle can say what scores 100."""
        if env.unwrapped.arguments.on_host:
            raise UnsupportedError(
                "backend = 'hardware': scores need the law oracle, and the true machine of a "
                "host is unknown. `pmoss run rollout --domain continual` takes the same arguments "
                "and tells what is served"
            )
        return super().judge(env)

    def check_recipe(self, recipe: Recipe) -> None:
        """Also refuses planners and oracles on this host."""
        super().check_recipe(recipe)
        if not self.measures_host(recipe.kwargs):
            return
        for behaviour in recipe.behaviours:
            if behaviour.policy in (*_PLANNERS, *ORACLES):
                raise DescriptionError(
                    f"{behaviour.policy}: plans in a described machine, and this host is none: "
                    "choose other behaviours, such as repair, kernel-like or random"
                )

    def policy(self, name: str, *, budget: int | None = None) -> Policy:
        """A policy by name; none of them takes a budget."""
        if name in POLICIES:
            if budget is not None:
                raise UnsupportedError(f"{name!r} takes no budget: its moves are its measurements")
            policy = POLICIES[name]()
            policy.name = name
            return policy
        return super().policy(name, budget=budget)

    def outcome_of(self, info: Mapping[str, Any], total: float) -> float:
        """The sum of the rewards, added up in the order of the epochs."""
        return float(info["paid"])

    def opponents(self) -> tuple[str, ...]:
        """All policies but the oracles."""
        return tuple(name for name in self.policies() if name not in ORACLES)

    def tiers(self) -> Mapping[str, Mapping[str, Any]]:
        """Mixtures of what a real system could run: no oracle among them.

        With 800 steps an episode of the usual task takes 30 MB in memory.
        """
        good = [{"policy": name} for name in _PLANNERS]
        every = [{"policy": name} for name in self.opponents()]
        tiers = {
            "random": {"behaviours": [{"policy": "random"}], "seed": 1},
            "medium": {"behaviours": [{"policy": "repair", "epsilon": 0.3}], "seed": 3},
            "expert": {"behaviours": good, "seed": 5},
            "mixed": {"behaviours": every, "seed": 0},
        }
        return {name: {**values, "episodes": 60} for name, values in tiers.items()}


CONTINUAL = ContinualDomain()

"""The settings that determine a dataset: task, mixture of behaviour policies, seed.

Recipes are TOML files, or made of a task and a tier of the domain (its ``presets``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_datasets.checked import check
from pmoss_datasets.domain import find_domain
from pmoss_datasets.schema import (
    FIRST_DOMAIN,
    ID_PATTERN,
    INSTANCE_FIELDS,
    without_first_domain,
)
from pmoss_env.baselines import DEFAULT_BUDGET
from pmoss_env.checks import check_name, check_whole
from pmoss_env.errors import DescriptionError, unknown_key
from pmoss_env.files import read_toml

#: More than any search takes: a file that asks for more would keep its reader busy for ever.
MOST_EVALUATIONS = 1_000_000
#: More than any machine of the authors has, by far.
MOST_FIXED = 10_000
#: Fields of a recipe, and of a behaviour, that came later, with the values that are left out.
_LATER = {"relative": False, "namespace": "pmoss"}
_LATER_OF_BEHAVIOURS = {"fixed": 0, "scattered": False}


@dataclass(frozen=True)
class Behaviour:
    """A policy that fills a dataset.

    Attributes:
        policy: one of the domain's policies, or "module:function" of what is importable and gives
            a ``pmoss_datasets.policies.Policy``, such as "pmoss_agents:load".
        weight: its share of the episodes is weight / sum of the weights.
        epsilon: probability of a random legal action in place of the policy's.
        budget: backend evaluations of a policy that searches; None: the policy's own.
        visits: of a search: so many episodes in a row are the way of one search on one instance,
            from early to late; 1: each episode is the end of a search of its own.
        arguments: what the function is called with, such as an agent's checkpoint.
        fixed: so many schedules of a policy that reads no load are drawn once, and replayed in
            turn; 0: each episode has one of its own. Schedule i of a policy is the same in every
            recipe with this machine and number of slices, whatever the recipe's seed.
        scattered: each slice goes to a random worker of the node that the policy chose.
    """

    policy: str
    weight: float = 1.0
    epsilon: float = 0.0
    budget: int | None = None
    visits: int = 1
    arguments: tuple[str, ...] = ()
    fixed: int = 0
    scattered: bool = False

    def __post_init__(self) -> None:
        check(Behaviour, vars(self), "behaviours: ")
        object.__setattr__(self, "arguments", tuple(self.arguments))
        if not 0 < self.weight < math.inf:
            raise DescriptionError(f"{self.policy}: weight = {self.weight}: must be above 0")
        if not 0 <= self.epsilon <= 1:
            raise DescriptionError(f"{self.policy}: epsilon = {self.epsilon}: must lie in [0, 1]")
        if self.budget is not None and not 1 <= self.budget <= MOST_EVALUATIONS:
            raise DescriptionError(
                f"{self.policy}: budget = {self.budget}: must be from 1 to {MOST_EVALUATIONS}"
            )
        if self.visits < 1:
            raise DescriptionError(f"{self.policy}: visits = {self.visits}: must be at least 1")
        if not 0 <= self.fixed <= MOST_FIXED:
            raise DescriptionError(
                f"{self.policy}: fixed = {self.fixed}: must be from 0 to {MOST_FIXED}"
            )
        if (self.fixed or self.scattered) and (self.is_imported or self.visits > 1):
            raise DescriptionError(
                f"{self.policy}: fixed, scattered: only of a rule, not of a way or module:function"
            )
        if self.fixed and self.epsilon:
            raise DescriptionError(
                f"{self.policy}: fixed = {self.fixed}: epsilon must be 0: no action strays from a "
                "schedule that is replayed"
            )
        if self.arguments and not self.is_imported:
            raise DescriptionError(f"{self.policy}: arguments: only module:function takes them")

    @property
    def is_imported(self) -> bool:
        """Whether the policy is a function to import, not a baseline."""
        return ":" in self.policy

    @property
    def name(self) -> str:
        """E.g. "local-search-500+eps0.1"."""
        budget = "" if self.budget is None else f"-{self.budget}"
        visits = "" if self.visits == 1 else f"-way{self.visits}"
        arguments = "".join(f"({argument})" for argument in self.arguments)
        scattered = "-scattered" if self.scattered else ""
        fixed = f"-fixed{self.fixed}" if self.fixed else ""
        noise = "" if self.epsilon == 0 else f"+eps{self.epsilon:g}"
        return f"{self.policy}{arguments}{budget}{visits}{scattered}{fixed}{noise}"

    def budget_of_visit(self, visit: int) -> int:
        """Evaluations that the search had used when it was at one of its ``visits``."""
        budget = DEFAULT_BUDGET if self.budget is None else self.budget
        # Evenly spread on a logarithmic scale: a search moves most at its beginning.
        return max(1, round(math.pow(budget, (visit + 1) / self.visits)))


def _without(values: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Values without the later fields that are as they were before these were there."""
    return {key: value for key, value in values.items() if later.get(key) != value}


def slug(name: str) -> str:
    """A name as a part of a dataset's id; one that fits an id already stays as it is."""
    return re.sub(r"[^a-z0-9_-]", "-", name.lower()).lstrip("-_")


def tier_names(domain: str = FIRST_DOMAIN) -> tuple[str, ...]:
    """Names of a domain's committed tiers."""
    return tuple(sorted(find_domain(domain).tiers()))


def tier(name: str, domain: str = FIRST_DOMAIN) -> Mapping[str, Any]:
    """The keys of a recipe that a committed tier sets; UnknownNameError if there is none."""
    tiers = find_domain(domain).tiers()
    check_name("tier", name, tiers)
    return tiers[name]


@lru_cache(maxsize=1 << 16)  # visit() asks for all earlier episodes
def _place(weights: tuple[float, ...], episode: int) -> tuple[int, float]:
    """Index of the behaviour that plays an episode, and the place in its share, in [0, 1)."""
    bits = f"{episode + 1:b}"[::-1]
    position = int(bits, 2) / 2 ** len(bits)
    shares = np.cumsum(weights)
    shares = shares / shares[-1]
    which = int(np.searchsorted(shares, position, side="right"))
    low = shares[which - 1] if which else 0.0
    return which, float((position - low) / (shares[which] - low))


@dataclass(frozen=True)
class Recipe:
    """The settings that determine a dataset.

    Attributes:
        env: keyword arguments of the domain's environment, plain JSON.
        episodes: how many.
        seed: of everything that chance decides.
        tier: last part of the id, and the committed mixture used if ``behaviours`` is empty.
        behaviours: the mixture of policies.
        version: of the dataset, in its id. None: the domain's ``version_of()``.
        reference_episodes: episodes for the reference scores of Dataset.normalized_score(), which
            are not those of an evaluation; 0 leaves them out.
        reference_budget: backend evaluations of the search that defines 100 on that scale, where
            the domain has one.
        counterfactuals: also ask, at every step, what every other action would have given. Only
            domains and backends that can be asked so can tell.
        domain: name of the domain.
        relative: also keep what random actions and a search with ``reference_budget`` reach on the
            instance of each episode. Only domains that can be searched can tell.
        namespace: first part of the id; that of the suite is "pmoss".
    """

    env: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 300
    seed: int = 0
    tier: str = "mixed"
    behaviours: tuple[Behaviour, ...] = ()
    version: int | None = None
    reference_episodes: int = 10
    reference_budget: int = DEFAULT_BUDGET
    counterfactuals: bool = False
    domain: str = FIRST_DOMAIN
    relative: bool = False
    namespace: str = "pmoss"

    def __post_init__(self) -> None:
        check(Recipe, vars(self))
        domain = find_domain(self.domain)
        parameters = domain.parameters()
        for key in self.env:
            if key not in parameters:
                raise DescriptionError(unknown_key(f"env: {key}", key, parameters))
        domain.check_task(self.kwargs)
        if self.version is None:
            object.__setattr__(self, "version", domain.version_of(self.kwargs))
        behaviours = tuple(
            entry if isinstance(entry, Behaviour) else Behaviour(**entry)
            for entry in self.behaviours or tier(self.tier, self.domain)["behaviours"]
        )
        object.__setattr__(self, "behaviours", behaviours)
        for name, least in (
            ("episodes", 1),
            ("seed", 0),
            ("version", 0),
            ("reference_episodes", 0),
            ("reference_budget", 1),
        ):
            check_whole(name, getattr(self, name), least)
        if self.reference_budget > MOST_EVALUATIONS:
            raise DescriptionError(
                f"reference_budget = {self.reference_budget}: must be at most {MOST_EVALUATIONS}"
            )
        if self.reference_episodes == 1:
            raise DescriptionError("reference_episodes = 1: must be 0, or 2 and more for a spread")
        if self.relative and not set(INSTANCE_FIELDS) <= set(domain.optional):
            raise DescriptionError(
                f"relative = true: the domain {self.domain!r} has no search to compare with"
            )
        if not ID_PATTERN.fullmatch(self.id):
            raise DescriptionError(f"id {self.id!r}: must look like <namespace>/<task>/<tier>-v0")
        domain.check_recipe(self)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The environment's keyword arguments, those that name the task always among them."""
        return {**find_domain(self.domain).usual, **self.env}

    @property
    def task(self) -> str:
        """The task's name, as its domain makes it of the environment's arguments."""
        return slug(find_domain(self.domain).task(self.kwargs))

    @property
    def id(self) -> str:
        """``<namespace>/<task>/<tier>-v<version>``."""
        return f"{self.namespace}/{self.task}/{self.tier}-v{self.version}"

    def behaviour(self, episode: int) -> int:
        """Index of the behaviour that plays an episode.

        The bit-reversed episode index fills [0, 1) evenly, so that every prefix of the dataset
        holds the mixture in nearly its proportions.
        """
        return self._place(episode)[0]

    def fixed_schedule(self, episode: int) -> int:
        """Which of the ``fixed`` schedules of its behaviour an episode replays, from 0."""
        which, inside = self._place(episode)
        fixed = self.behaviours[which].fixed
        return min(int(inside * fixed), max(fixed - 1, 0))

    def _place(self, episode: int) -> tuple[int, float]:
        return _place(tuple(behaviour.weight for behaviour in self.behaviours), episode)

    def visit(self, episode: int) -> tuple[int, int]:
        """For an episode on the way of a search: the episode that the way begins with, and where.

        Any other episode begins its own way.
        """
        which = self.behaviour(episode)
        visits = self.behaviours[which].visits
        if visits == 1:
            return episode, 0
        mine = [i for i in range(episode + 1) if self.behaviour(i) == which]
        visit = (len(mine) - 1) % visits
        return mine[len(mine) - 1 - visit], visit

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON that from_dict() takes; ``domain`` and later fields only where they differ."""
        plain = _without(without_first_domain(asdict(self)), _LATER)
        plain["behaviours"] = tuple(
            _without(behaviour, _LATER_OF_BEHAVIOURS) for behaviour in plain["behaviours"]
        )
        return plain

    @classmethod
    def from_toml(cls, path: str | Path, trusted: Collection[str] = ()) -> Recipe:
        """Reads a recipe file; ``[[behaviours]]`` tables hold the mixture.

        Raises:
            DescriptionError: names the file and the key that is wrong.
        """
        return read_toml(path, partial(cls.from_dict, trusted=trusted))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], trusted: Collection[str] = ()) -> Recipe:
        """The recipe of a recipe file's contents, or of a dataset's metadata.

        Args:
            trusted: the "module:function" policies that it may name. Playing the recipe imports
                them, so that a name from a file alone is not enough.

        Raises:
            DescriptionError: names the key that is wrong, or a function that is not trusted.
        """
        check(cls, data)
        recipe = cls(**data)
        for behaviour in recipe.behaviours:
            if behaviour.is_imported and behaviour.policy not in trusted:
                raise DescriptionError(
                    f"policy {behaviour.policy!r}: is a function to import, and what a file names "
                    f"is not imported; if you trust it: --trust {behaviour.policy}"
                )
        return recipe

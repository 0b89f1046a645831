"""A ``Domain``: what datasets, evaluations, agents and benchmarks need to know of an environment.

It says how episodes are recorded, replayed and scored, and which rules play them. So code that
works for all environments asks the domain, and names no environment. A package adds a domain by an
entry point of the group ``pmoss.domains``::

    [project.entry-points."pmoss.domains"]
    corridor = "my_package.domain:CORRIDOR"

``pmoss_datasets.stepwise.StepDomain`` has good defaults for every Gymnasium environment with
discrete actions: a new domain is a name, an environment id and a few rules.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from pmoss_datasets.contest import Contest
from pmoss_datasets.interfaces import Expander, Offer, OtherData, Player
from pmoss_datasets.policies import Policy
from pmoss_datasets.schema import Array, Metadata, Played
from pmoss_env import entry_points
from pmoss_env.checks import check_name, check_type
from pmoss_env.errors import (
    DescriptionError,
    PluginError,
    PmossError,
    UnknownNameError,
    UnsupportedError,
    unknown_key,
)
from pmoss_env.machines import Machine
from pmoss_env.types import Float64Array

GROUP = "pmoss.domains"
_OWN = {
    "spatial": "pmoss_datasets.spatial.domain:SPATIAL",
    "threads": "pmoss_datasets.threads.domain:THREADS",
    "access-path": "pmoss_datasets.access_path.domain:ACCESS_PATH",
    "continual": "pmoss_datasets.continual.domain:CONTINUAL",
}


class Domain(Contest):
    """An environment and all that the layers above need to know of it; see also Contest.

    Attributes:
        name: in recipes, metadata and ``--domain``.
        env_id: of the environment without any argument.
        data_version: of new datasets, in their ids; one more where their bits have changed. See
            version_of().
        metadata: the class of its datasets' metadata.
        rewards: modes of rewards; the first is the default.
        references: names of the reference scores: what scores 0, what scores 100, and others.
        outcome: the field of an episode that says how good it was; more is better.
        unit: of the outcome.
        optional: names of the fields that not every dataset has.
        ragged: symbols of the fields' axes that may differ in length between episodes.
        presets: folder of committed ``tasks`` and ``tiers``, or None.
        formats: what opens the folders of data that are no episodes, by the metadata's "format".
        ends: how episodes end by themselves, as Gymnasium has it: "terminated" or "truncated".
    """

    ends: ClassVar[str] = "terminated"

    name: str
    env_id: str
    metadata: type[Metadata]
    rewards: tuple[str, ...]
    references: tuple[str, ...]
    outcome: str
    unit: str
    optional: tuple[str, ...] = ()
    ragged: str = ""
    presets: Path | None = None
    formats: Mapping[str, Callable[[Path], OtherData]] = MappingProxyType({})
    data_version: int = 0

    # The environment.

    @property
    def env_ids(self) -> list[str]:
        """Every registered id of this environment."""
        place = gymnasium.spec(self.env_id).entry_point
        return [name for name, spec in gymnasium.registry.items() if spec.entry_point == place]

    def parameters(self) -> dict[str, Any]:
        """The environment's arguments with their defaults."""
        return {name: parameter.default for name, parameter in self._parameters().items()}

    def _parameters(self) -> dict[str, inspect.Parameter]:
        place = gymnasium.spec(self.env_id).entry_point
        creator = load_env_creator(place) if isinstance(place, str) else place
        assert creator is not None
        return {
            name: parameter
            for name, parameter in inspect.signature(creator).parameters.items()
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        }

    def make_env(self, kwargs: Mapping[str, Any], env_id: str | None = None) -> Any:
        """The environment, with the wrappers that its registration names, and no others.

        The step limit is one of them. Our environments have none, and come bare.

        Args:
            env_id: one of ``env_ids``; None: ``env_id``.

        Raises:
            UnknownNameError: no such id.
            DescriptionError: an argument that the environment does not have, or does not take.
            PmossError: what the environment refuses.
        """
        if env_id is not None and env_id not in self.env_ids:
            raise UnknownNameError("environment", env_id, self.env_ids)
        parameters = self._parameters()
        for name, value in kwargs.items():
            if name not in parameters:
                raise DescriptionError(
                    unknown_key(f"environment argument {name!r}", name, parameters)
                )
            kind = parameters[name].annotation
            # A number without a named type may be of either kind.
            unnamed = (
                "float" if type(parameters[name].default) is int else type(parameters[name].default)
            )
            kind = unnamed if kind is inspect.Parameter.empty else kind
            check_type(f"environment argument {name}", kind, value)
        try:
            env = gymnasium.make(env_id or self.env_id, disable_env_checker=True, **kwargs)
        except PmossError:
            raise
        except Exception as error:  # someone else's environment may raise anything
            given = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
            raise DescriptionError(
                f"environment {env_id or self.env_id}: cannot be made of its arguments ({given}): "
                f"{type(error).__name__}: {error}"
            ) from error
        spec = gymnasium.spec(env_id or self.env_id)
        # Gymnasium adds a wrapper of its own, which checks at each step what the tests check.
        registered = spec.max_episode_steps is not None or spec.additional_wrappers
        return env if registered else env.unwrapped

    # Recipes.

    def version_of(self, kwargs: Mapping[str, Any]) -> int:
        """The version in the id of a new dataset, by the arguments of its environment."""
        return self.data_version

    @property
    @abstractmethod
    def usual(self) -> Mapping[str, Any]:
        """Arguments that a recipe always states, with their usual values."""

    def check_task(self, kwargs: Mapping[str, Any]) -> None:
        """Refuses arguments that would not even make a name: DescriptionError."""
        return None

    @abstractmethod
    def task(self, kwargs: Mapping[str, Any]) -> str:
        """The name of the task that an environment with these arguments poses."""

    @abstractmethod
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that it brings."""

    @abstractmethod
    def policy(self, name: str, *, budget: int | None = None) -> Policy:
        """A policy of its own by name.

        Raises:
            UnknownNameError: there is none of this name.
            UnsupportedError: it takes no budget.
        """

    def takes_budget(self, name: str) -> bool:
        """Whether one of its policies takes a budget: it searches."""
        return False

    @abstractmethod
    def check_recipe(self, recipe: Any) -> None:
        """Refuses behaviours and options that the domain does not know: DescriptionError."""

    @abstractmethod
    def tiers(self) -> Mapping[str, Mapping[str, Any]]:
        """The committed mixtures: the keys of a recipe that each sets, by name."""

    def asked(self, env: Mapping[str, Any]) -> dict[str, Any]:
        """Keys of a recipe for given arguments, ``env`` among them."""
        return {"env": dict(env)}

    def measures_host(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether the environment measures the host that it runs on."""
        return False

    # Episodes and their datasets.

    @abstractmethod
    def player(self, recipe: Any) -> Player:
        """The player of the episodes of a ``recipes.Recipe``."""

    @abstractmethod
    def facts(self, recipe: Any, played: Sequence[Played]) -> dict[str, Any]:
        """Keys of the metadata that only the domain knows, ``provenance`` among them."""

    @abstractmethod
    def episode(self, values: Mapping[str, Any]) -> Any:
        """The record of one episode, of its values by field."""

    @abstractmethod
    def values(self, episode: Any) -> Mapping[str, Any]:
        """The values of an episode by field, None where it lacks an optional one."""

    def measured(self, metadata: Metadata, episodes: Sequence[Any]) -> Metadata:
        """The metadata with what follows from the episodes, such as the most steps."""
        return metadata

    def machine(self, metadata: Metadata, where: Path | str) -> Machine | None:
        """The machine that the episodes ran on, if there is one.

        Raises:
            DatasetError: no such machine, or one that does not fit the data.
        """
        return None

    def metadata_problems(self, metadata: Metadata, *, stored: bool) -> Iterator[str]:
        """The problems of the domain's part of the metadata.

        Args:
            stored: as a file has it, which an older version may have written.
        """
        yield from ()

    def unchecked(self, metadata: Metadata) -> Iterator[str]:
        """Parts of a dataset that cannot be checked here, a line each with the reason."""
        yield from ()

    def current_metadata(self, stored: Metadata) -> Metadata:
        """The metadata of a dataset of another version as this version has it."""
        return stored

    def current(self, field: str, array: Array, stored: Metadata) -> Array:
        """A field of such a dataset as this version has it.

        Args:
            array: (N, ...) as stored.
            stored: the metadata as stored.
        """
        return array

    def protocol(self) -> dict[str, Any]:
        """What besides recipe and version decides the episodes of a collection, as plain JSON."""
        return {}

    @abstractmethod
    def problems(
        self, arrays: Mapping[str, Array], metadata: Metadata, machine: Machine | None
    ) -> Iterator[str]:
        """The problems of the values; missing or misshapen fields are not given."""

    def lengths(self, dataset: Any) -> Array:
        """(N,) int64, the steps of each episode of a dataset: all as many by default."""
        return np.full(len(dataset), dataset.steps)

    @abstractmethod
    def expander(self, dataset: Any) -> Expander:
        """The expander of a ``storage.Dataset``, which shows episodes as an agent saw them."""

    @abstractmethod
    def rewards_of(self, episode: Any, mode: str) -> Float64Array:
        """(T,) float64, the reward of each step in one of the ``rewards`` modes.

        Raises:
            UnknownNameError: another mode.
            DatasetError: the episode does not know them.
        """

    def paying(self, kwargs: Mapping[str, Any], mode: str) -> dict[str, Any]:
        """Arguments of an environment that pays rewards of a mode."""
        return dict(kwargs)

    def task_of(self, env: Any) -> tuple[dict[str, Any], str]:
        """Arguments for a recipe of a bare environment, and the mode of its rewards."""
        kwargs = dict(env.spec.kwargs)
        kwargs.pop("render_mode", None)
        return kwargs, self.rewards[0]

    @abstractmethod
    def reference_returns(
        self, scores: Mapping[str, Mapping[str, float]], mode: str
    ) -> tuple[float, float]:
        """Mean returns in a mode that score 0 and 100, of a dataset's reference scores."""

    def reference_text(self, name: str, score: Mapping[str, Any]) -> str:
        """The meaning of a reference score, in words."""
        place = {0: "score 0: ", 1: "score 100: "}.get(self.references.index(name), "")
        return f"{place}{name}"

    @abstractmethod
    def describe(self, dataset: Any) -> Mapping[str, str]:
        """The domain's parts of a card: "episodes", "measured", "outcome" and "limits"."""


def domain_names() -> list[str]:
    """Names of our own domains and those of installed packages."""
    return [*_OWN, *entry_points.entries(GROUP, own=_OWN)]


@lru_cache
def find_domain(name: str) -> Domain:
    """A domain by name.

    Raises:
        UnknownNameError: there is none.
        PluginError: a package's domain cannot be loaded, or is none.
    """
    own = {key: EntryPoint(key, value, GROUP) for key, value in _OWN.items()}
    domains = own | entry_points.entries(GROUP, own=own)
    check_name("domain", name, domains)
    domain = entry_points.load(domains[name])
    if not isinstance(domain, Domain):
        raise PluginError(f"{name!r} of {GROUP!r}: {domains[name].value!r} is no Domain")
    if domain.name != name:
        raise PluginError(f"{name!r} of {GROUP!r}: its domain calls itself {domain.name!r}")
    return domain


def domains() -> dict[str, Domain]:
    """Every domain by name."""
    return {name: find_domain(name) for name in domain_names()}


def check_offer(domain: Domain, offer: Offer, asked: str) -> None:
    """Refuses what a domain does not offer.

    Raises:
        UnsupportedError: it names the domains that do.
    """
    if offer not in domain.offers:
        able = [name for name, other in domains().items() if offer in other.offers]
        raise UnsupportedError(
            f"{asked}: the domain {domain.name!r} offers no {offer}; {', '.join(able)} does"
        )


def domain_of_env(env_id: str) -> Domain:
    """The domain of an environment's id; UnknownNameError if it is of none."""
    ids: list[str] = []
    for name in domain_names():
        domain = find_domain(name)
        if env_id in domain.env_ids:
            return domain
        ids += domain.env_ids
    raise UnknownNameError("environment", env_id, ids)

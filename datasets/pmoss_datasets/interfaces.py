"""The parts of a domain: what plays its episodes, shows them and scores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from gymnasium import spaces

from pmoss_datasets.schema import Array, Played
from pmoss_env.types import Int8Array, Schedule


@dataclass(frozen=True)
class Rollout:
    """A policy's episode.

    Attributes:
        actions: of each step.
        start: what the environment reports at the start, in the domain's unit; 0 if nothing.
        outcome: what it reports at the end.
        illegal_actions: actions on masked places.
        seconds: wall time of the policy.
        total: sum of the rewards that the environment paid.
        misplaced: slices whose data the kernel left elsewhere than the schedule wants them, at the
            start or at the end, whichever has more.
        evaluations: of the model that a declared search asked for; None where none was declared.
        measurements: before the decision; None where none were allowed.
        schedule: that the episode ended with where no actions lead to it; else None.
        balancing: the kernel's automatic NUMA balancing under it; None: as it was.
    """

    actions: tuple[int, ...]
    start: float
    outcome: float
    illegal_actions: int
    seconds: float
    total: float
    misplaced: int = 0
    evaluations: int | None = None
    measurements: int | None = None
    schedule: Schedule | None = None
    balancing: bool | None = None


#: What only some domains offer: putting back what ran before a rollout; schedules of slices, which
#: can be read, kept, measured by place, and explained.
Offer = Literal["undoing", "schedules"]


@dataclass(frozen=True)
class Restored:
    """The result of putting the incumbent back.

    Attributes:
        verified: on models, every bit of the snapshot is as it was. On hardware no
            measurement repeats. There the same workers serve, the same number of records at the
            beginning, and the throughput is the same within noise. The kernel finds as large a
            share of the pages at home as before, where it can tell.
        differs: what was not as before; empty if verified.
        mq_per_s: what the incumbent measures now.
        noisy: the host is too noisy to tell whether the throughput is as before.
        comparison: of the policy's schedule with the incumbent before and after it, as plain JSON;
            None on models.
    """

    verified: bool
    differs: tuple[str, ...]
    mq_per_s: float
    noisy: bool = False
    comparison: dict[str, Any] | None = None


class Player(Protocol):
    """Plays the episodes of one recipe, each by itself: number and seed decide all of it."""

    def episode(self, number: int) -> Played:
        """Plays one episode of the dataset."""

    def reference(self, number: int) -> Sequence[float]:
        """Outcomes of one reference episode, one for each of the domain's ``references``."""

    def replay(self, seed: int, actions: Array, number: int) -> Played:
        """Plays an episode whose actions are known.

        Args:
            actions: (T,) its actions.

        Raises:
            DatasetError: the actions do not end the episode, or one is not allowed.
        """

    def close(self) -> None:
        """Releases the environment."""


class Expander(Protocol):
    """Expands the episodes of one dataset to what an agent saw."""

    @property
    def space(self) -> spaces.Dict:
        """The space of the observations; a single array has the key "observation".

        It is the environment's own space where that is a ``Dict``.
        """

    @property
    def actions(self) -> int:
        """Number of actions, A."""

    def masks(self, episode: Any, *, last: bool = False) -> Int8Array:
        """(T, A) int8, or (T + 1, A) with ``last``: 1 = an action that may be taken."""

    def observations(
        self, episode: Any, *, last: bool = False, copies: bool = True
    ) -> dict[str, Array]:
        """What the environment showed at each step: the keys of ``space``, step axis first.

        Args:
            last: also the observation after the last step: T + 1 rows in place of T.
            copies: False may return read-only views of what never changes.
        """


class OtherData(Protocol):
    """Data of a domain's own format, without episodes: the facts that every dataset has."""

    path: Path

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def checksum(self) -> str:
        """A checksum over all of its contents."""

    def __len__(self) -> int:
        """The number of its ``pieces``."""

    @property
    def pieces(self) -> str:
        """The kind of its contents, in a word, e.g. "scans"."""

    def verify(self) -> None:
        """Reads and checks everything; raises DatasetError for the first thing that is wrong."""


class Companion(Protocol):
    """Follows the episodes of one environment and has what policies may ask for."""

    def begin(self) -> None:
        """Takes the episode that the environment has just begun."""

    def close(self) -> None:
        """Releases what it holds."""


class Judge(Companion, Protocol):
    """Scores the episodes of one environment: what 0 and 100 are in each."""

    def reference(self, seed: int, budget: int, draws: int) -> tuple[float, float]:
        """Outcomes of the episode that score 0 and 100.

        Args:
            budget: of a search, where the domain has one.
            draws: how many random episodes define 0.
        """

    def outcome(self, rollout: Rollout) -> float:
        """The outcome of the rollout that has just ended, without noise where possible."""


def score_of(final: float, low: float, high: float) -> float | None:
    """An outcome on the scale from ``low``, 0, to ``high``, 100; None if high is not above."""
    return 100 * (final - low) / (high - low) if high > low else None

"""The comparison of a domain's policies: playing episodes, and scoring them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pmoss_datasets.interfaces import Companion, Judge, Offer, Restored, Rollout
from pmoss_datasets.policies import Policy
from pmoss_env.errors import UnsupportedError


class Contest(ABC):
    """The part of a domain that evaluations, rollouts and benchmarks work through.

    Attributes:
        compared: policies that a comparison takes where none are named; all if empty.
        simple: policies without an idea, which a learned agent has to beat.
        unplaced: what can be measured beside the policies, though no actions lead to it.
        kind: what a policy makes of an episode, in a word.
        offers: what only some domains do; see check_offer().
        rolled_out: policies that a rollout takes where none are named; all if empty.
        host_arguments: arguments of the environment in which a rollout plays on this host.
        is_cost: whether an outcome is a cost with a minus before it; see shown().
    """

    compared: tuple[str, ...] = ()
    simple: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    kind: str = "policy"
    offers: frozenset[Offer] = frozenset()
    rolled_out: tuple[str, ...] = ()
    host_arguments: Mapping[str, Any] = MappingProxyType({})
    is_cost: bool = False

    def shown(self, outcome: Any) -> Any:
        """An outcome, or an array of them, as people read it: a cost without its minus."""
        return -outcome if self.is_cost else outcome

    @abstractmethod
    def judge(self, env: Any) -> Judge:
        """The judge that scores episodes of an environment of make_env()."""

    @abstractmethod
    def play(
        self, env: Any, policy: Policy, seed: int, judge: Companion | None = None, **options: Any
    ) -> Rollout:
        """Plays one episode.

        Args:
            policy: it is reset first; see Policy on what else is called.
            judge: of the same environment, or another companion, for policies that search.
        """

    @abstractmethod
    def rerun(self, env: Any, seed: int, actions: Sequence[int]) -> Rollout:
        """Plays recorded actions again.

        Raises:
            DatasetError: they do not end the episode, or cannot be run.
            UnsupportedError: episodes of this environment do not repeat.
        """

    @abstractmethod
    def scale(self, budget: int, draws: int) -> str:
        """The meaning of the scores 0 and 100, in words."""

    @abstractmethod
    def opponents(self) -> tuple[str, ...]:
        """The domain's policies that agents are compared with."""

    def knows(self, name: str) -> str:
        """The information that one of its policies may use, in words; empty if not stated."""
        return ""

    def absence(self, env: Any, name: str, budget: int) -> str | None:
        """Why a policy cannot play in an environment; None if it can.

        Returns:
            A reason, which is empty where none is worth a word.
        """
        return None

    def with_settings(
        self, policies: Mapping[str, Policy], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Policy], str]:
        """The policies, and those with other settings of the kernel that can stand beside them.

        Args:
            kwargs: arguments of the environment; usual ones are added.

        Returns:
            The policies, and why rows are missing; empty if none is.
        """
        return dict(policies), ""

    # Rollouts.

    def measures_twice(self, env: Any) -> bool:
        """Whether a rollout ends with another measurement of what ran before, by restore()."""
        return False

    def companion(self, env: Any) -> Companion | None:
        """What policies search on in rollouts of an environment; None where nothing searches."""
        return None

    def watch(self, env: Any, listener: Callable[[dict[str, Any]], None] | None) -> None:
        """Calls the listener with each round while the environment measures, if it has rounds."""
        return None

    def row_of(self, env: Any, played: Rollout) -> dict[str, Any]:
        """The row of a rollout that has just ended in the environment, as plain JSON."""
        return {
            "start": played.start,
            "final": played.outcome,
            "reward": played.total,
            "actions": list(played.actions),
            "policy_seconds": played.seconds,
            "illegal_actions": played.illegal_actions,
        }

    def ends_of(self, row: Mapping[str, Any]) -> tuple[float | None, float]:
        """Outcomes before and after a rollout, of a row of row_of(); None: nothing ran before."""
        return None, float(row["final"])

    def row_in_words(self, row: Mapping[str, Any]) -> str:
        """A row of row_of(), to be printed; ``restored`` says what undoing found.

        ``comparison`` is that of Restored, where there is one.
        """
        return f"{self.shown(row['final']):10.3f} after {len(row['actions'])} steps"

    def restore(self, env: Any) -> Restored:
        """Puts back what ran before the episode.

        Raises:
            UnsupportedError: the domain does not offer "undoing".
        """
        raise UnsupportedError("undoing: nothing ran before an episode of this environment")

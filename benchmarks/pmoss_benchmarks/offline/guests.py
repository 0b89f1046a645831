"""Policies that play in a study and learn nothing there: agents that ship, rules that measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from pmoss_agents import find_policy
from pmoss_datasets.policies import Measured, Policy, SchedulePolicy
from pmoss_env.baselines import Context, answer_after, make_baseline, measured_search
from pmoss_env.checks import check_whole
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Schedule


def search_from(rule: str, budget: int) -> Callable[[Context], Schedule]:
    """Local search by its own readings from a rule's schedule, stopped after so many."""
    start = make_baseline(rule)

    def search(context: Context) -> Schedule:
        return answer_after(measured_search(context, start(context)), budget)

    return search


@dataclass(frozen=True)
class Guest:
    """A policy that plays as it is.

    Attributes:
        agent: a word of find_policy(), such as the name of an agent that ships; empty for a rule.
        rule: a baseline from whose schedule a search begins, which measures; empty for an agent.
        measurements: schedules that it may run in each episode before it decides.
    """

    agent: str = ""
    rule: str = ""
    measurements: int = 0

    def __post_init__(self) -> None:
        check_whole("measurements", self.measurements, 0)
        if bool(self.agent) == bool(self.rule):
            raise DescriptionError("a guest has an agent or a rule, and not both")
        if self.rule:
            make_baseline(self.rule)

    @contextmanager
    def invited(self) -> Iterator[Any]:
        """The policy; what it holds is released after."""
        policy: Policy
        if self.rule:
            policy = SchedulePolicy(search_from(self.rule, self.measurements))
        else:
            policy = find_policy(self.agent)
        if not self.measurements:
            yield policy
            return
        with closing(Measured(policy, self.measurements)) as measured:
            yield measured

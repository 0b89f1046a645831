"""Rules as policies: what an environment's own policies are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pmoss_datasets.fairness import reads_environment
from pmoss_datasets.stepwise.actions import Actions
from pmoss_env.types import Int8Array

#: (environment without wrappers, observation, (A,) action mask, generator) -> action.
Rule = Callable[[Any, Any, Int8Array, np.random.Generator], Any]


def any_legal(env: Any, observation: Any, mask: Int8Array, rng: np.random.Generator) -> Any:
    """Any legal action, all equally likely."""
    actions = Actions.of(env.action_space, "random")
    return actions.action(actions.draw(mask, rng))


@reads_environment
class RulePolicy:
    """Follows a rule; episodes begin with begin(), which shows it what the rule may read.

    A rule of a domain may read the environment in that domain alone.
    """

    #: The rule may be a user's; see fairness.is_ours().
    is_own = False

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._env: Any = None
        self._rng = np.random.default_rng(0)

    def begin(self, env: Any, rng: np.random.Generator) -> None:
        """Takes the environment and the chance of an episode that has just begun."""
        self._env, self._rng = env.unwrapped, rng

    def reset(self) -> None:
        """Nothing is kept between episodes."""

    def follows_one_of(self, rules: Iterable[Rule]) -> bool:
        """Whether its rule is one of these, or any_legal()."""
        return any(self._rule is rule for rule in (any_legal, *rules))

    def act(self, observation: Any, action_mask: Int8Array) -> Any:
        """The rule's action."""
        return self._rule(self._env, observation, action_mask, self._rng)


def legal(env: Any, observation: Any, info: dict[str, Any]) -> Int8Array:
    """(A,) int8, 1 = legal: of info, of the observation, of ``action_masks()``, or all."""
    mask: Any = info.get("action_mask")
    if mask is None and isinstance(observation, dict):
        mask = observation.get("action_mask")
    if mask is None and hasattr(env.unwrapped, "action_masks"):
        mask = env.unwrapped.action_masks()
    if mask is None:
        mask = np.ones(Actions.of(env.action_space, "legal").columns)
    return np.asarray(mask, dtype=np.int8).copy()

"""Playing episodes step by step, and recording all that an agent saw, chose and was paid."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from gymnasium.error import ResetNeeded

from pmoss_datasets.fairness import EpisodeFacts, is_ours, policy_stream, reads
from pmoss_datasets.interfaces import Rollout
from pmoss_datasets.playing import PLAY, REFERENCE, chance, imported_policy
from pmoss_datasets.policies import Policy
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_datasets.schema import Array, Played
from pmoss_datasets.stepwise.actions import Actions
from pmoss_datasets.stepwise.policies import Rule, RulePolicy, legal
from pmoss_datasets.stepwise.schema import StepEpisode
from pmoss_env.errors import DatasetError, IllegalActionError, UnsupportedError
from pmoss_env.types import Int8Array


class Rules(Protocol):
    """What playing needs to know of a domain; see Domain and StepDomain."""

    name: str
    infos: tuple[str, ...]
    most_steps: int
    rules: ClassVar[Mapping[str, Rule]]

    @property
    def deterministic(self) -> frozenset[str]:
        """Policies that decide by what they see alone."""

    def make_env(self, kwargs: Mapping[str, Any], env_id: str | None = None) -> Any:
        """The environment."""

    def policy(self, name: str, *, budget: int | None = None) -> Policy:
        """A policy by name."""

    def outcome_of(self, info: Mapping[str, Any], total: float) -> float:
        """The outcome of an episode."""

    def reference_values(
        self, env: Any, seed: int, draws: int
    ) -> tuple[float, float, float, float]:
        """Outcomes of what scores 0 and 100, then their returns."""


#: (step, observation, (A,) mask) -> (number of the action, probability of that choice).
Choice = Callable[[int, Any, Int8Array], tuple[int, float]]


@dataclass
class _Record:
    """The record of an episode while it is played."""

    actions: list[int] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    masks: list[Int8Array] = field(default_factory=list)
    shown: dict[str, list[Array]] = field(default_factory=dict)
    infos: dict[str, list[float]] = field(default_factory=dict)

    def state(self, observation: Any, mask: Int8Array, info: Mapping[str, Any]) -> None:
        """Keeps what a state shows."""
        self.masks.append(mask)
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        for key, value in parts.items():
            self.shown.setdefault(key, []).append(np.array(value))
        for name, values in self.infos.items():
            values.append(float(info[name]))


class StepPlayer:
    """Plays the episodes of one recipe, each by itself: number and seed decide all of it."""

    def __init__(self, domain: Rules, recipe: Recipe) -> None:
        """Makes the environment; raises what it raises.

        Raises:
            UnsupportedError: its actions cannot be numbered.
        """
        self._domain = domain
        self._recipe = recipe
        self._env = domain.make_env(recipe.kwargs)
        self._actions = Actions.of(self._env.action_space, domain.name)
        self._policies: dict[Behaviour, Policy] = {}

    def episode(self, number: int) -> Played:
        """Plays one episode of the dataset."""
        recipe = self._recipe
        which = recipe.behaviour(number)
        behaviour = recipe.behaviours[which]
        seed, rng = chance(recipe.seed, PLAY, number)
        if behaviour not in self._policies:
            self._policies[behaviour] = (
                imported_policy(behaviour)
                if behaviour.is_imported
                else self._domain.policy(behaviour.policy)
            )
        policy = self._policies[behaviour]
        return self._record(seed, self._choice(behaviour, policy, rng), which, number, policy, rng)

    def reference(self, number: int) -> tuple[float, ...]:
        """Outcomes of what scores 0 and 100, then their returns."""
        seed, _ = chance(self._recipe.seed, REFERENCE, number)
        return self._domain.reference_values(self._env, seed, draws=1)

    def replay(self, seed: int, actions: Array, number: int) -> Played:
        """Plays an episode whose actions are known; see Player.replay."""

        def choose(t: int, observation: Any, mask: Int8Array) -> tuple[int, float]:
            if t >= actions.size:
                raise DatasetError(f"actions: {actions.size}: do not end the episode")
            action = int(actions[t])
            if not self._actions.allowed(action, mask):
                raise DatasetError(f"actions: step {t}: the mask forbids {action}")
            return action, np.nan

        played = self._record(seed, choose, 0, number)
        if played.values["steps"] != actions.size:
            raise DatasetError(
                f"actions: {actions.size}: the episode ends after {played.values['steps']}"
            )
        return played

    def close(self) -> None:
        """Releases the environment."""
        self._env.close()

    def _choice(self, behaviour: Behaviour, policy: Policy, rng: np.random.Generator) -> Choice:
        epsilon, actions = behaviour.epsilon, self._actions

        def choose(t: int, observation: Any, mask: Int8Array) -> tuple[int, float]:
            # A copy: what a policy writes into its mask must not make an action legal.
            wanted = action = actions.number(policy.act(observation, mask.copy()))
            share = actions.chance(mask)
            if epsilon and rng.random() < epsilon:
                action = actions.draw(mask, rng)
            if behaviour.policy == "random" or epsilon == 1:
                return action, share
            if behaviour.policy in self._domain.deterministic:
                return action, epsilon * share + (1 - epsilon) * (action == wanted)
            return action, np.nan

        return choose

    def _record(
        self,
        seed: int,
        choose: Choice,
        which: int,
        number: int,
        policy: Policy | None = None,
        rng: np.random.Generator | None = None,
    ) -> Played:
        env, record = self._env, _Record(infos={name: [] for name in self._domain.infos})
        observation, info = env.reset(seed=seed)
        # The recipe's stream leads back to its seed: a collector of others has its own.
        trusted = may_read(self._domain, policy) or is_ours(policy)
        start(self._domain, policy, env, rng if trusted else policy_stream(seed))
        observe = getattr(policy, "observe", None)
        mask = legal(env, observation, info)
        record.state(observation, mask, info)
        ended = False
        while not ended:
            check_length(self._domain, len(record.actions))
            action, chance_of_it = choose(len(record.actions), observation, mask)
            if not self._actions.allowed(action, mask):
                raise DatasetError(f"seed {seed}: the policy chose {action}, which is not allowed")
            observation, reward, terminated, truncated, info = env.step(
                self._actions.action(action)
            )
            mask = legal(env, observation, info)
            record.actions.append(action)
            record.propensity.append(chance_of_it)
            record.rewards.append(float(reward))
            record.state(observation, mask, info)
            if observe is not None:
                observe(float(reward))
            ended = bool(terminated or truncated)
        episode = StepEpisode(
            episode=number,
            seed=seed,
            policy=which,
            outcome=self._domain.outcome_of(info, float(np.sum(record.rewards))),
            actions=np.array(record.actions, dtype=np.int32),
            propensity=np.array(record.propensity, dtype=np.float32),
            rewards=np.array(record.rewards),
            action_mask=np.stack(record.masks),
            observations={key: np.stack(rows) for key, rows in record.shown.items()},
            infos={name: np.array(rows) for name, rows in record.infos.items()},
        )
        return Played(episode.values())


def may_read(domain: Rules, policy: Policy | None) -> bool:
    """Whether a policy is handed the environment that is played: a rule only in its own domain."""
    if isinstance(policy, RulePolicy) and not policy.follows_one_of(domain.rules.values()):
        return False
    return reads(policy)


def start(domain: Rules, policy: Policy | None, env: Any, rng: np.random.Generator | None) -> None:
    """Begins a policy's episode; it is shown the facts of the environment, see fairness."""
    if policy is None:
        return
    policy.reset()
    begin = getattr(policy, "begin", None)
    if begin is not None:
        begin(env if may_read(domain, policy) else EpisodeFacts(env), rng)


def check_length(domain: Rules, steps: int) -> None:
    """Refuses an episode without an end.

    Raises:
        UnsupportedError: it names the two ways out.
    """
    if steps >= domain.most_steps:
        raise UnsupportedError(
            f"{domain.name}: an episode did not end within {steps} steps: register the environment "
            "with max_episode_steps, or let the domain's most_steps be larger"
        )


def play(
    domain: Rules,
    env: Any,
    policy: Policy,
    seed: int,
    options: Mapping[str, Any],
    stream: int = 2,
) -> Rollout:
    """Plays one episode; see Domain.play.

    Args:
        policy: it is reset first. If it has ``observe``, that gets the reward of every step.
        stream: of the policy's chance: another one draws anew on the same episode.
    """
    observation, info = env.reset(seed=seed, options=dict(options) or None)
    began = time.perf_counter()
    own = may_read(domain, policy)
    rng = np.random.default_rng((seed, stream)) if own else policy_stream(seed, stream)
    start(domain, policy, env, rng)
    seconds = time.perf_counter() - began
    observe = getattr(policy, "observe", None)
    numbered, actions = Actions.of(env.action_space, domain.name), list[int]()
    total, illegal, ended = 0.0, 0, False
    while not ended:
        check_length(domain, len(actions))
        mask = legal(env, observation, info)
        began = time.perf_counter()
        action = numbered.number(policy.act(observation, mask.copy()))
        seconds += time.perf_counter() - began
        illegal += not numbered.allowed(action, mask)
        observation, reward, terminated, truncated, info = env.step(numbered.action(action))
        ended = bool(terminated or truncated)
        actions.append(action)
        total += float(reward)
        if observe is not None:
            began = time.perf_counter()
            observe(float(reward))
            seconds += time.perf_counter() - began
    outcome = domain.outcome_of(info, total)
    return Rollout(tuple(actions), 0.0, outcome, illegal, seconds, total)


def rerun(domain: Rules, env: Any, seed: int, actions: Sequence[int]) -> Rollout:
    """Plays recorded actions again; see Domain.rerun."""
    observation, info = env.reset(seed=seed)
    numbered = Actions.of(env.action_space, domain.name)
    total, illegal, ended = 0.0, 0, False
    try:
        for action in actions:
            illegal += not numbered.allowed(action, legal(env, observation, info))
            observation, reward, terminated, truncated, info = env.step(numbered.action(action))
            total, ended = total + float(reward), bool(terminated or truncated)
    except (IllegalActionError, IndexError, ResetNeeded) as error:
        raise DatasetError(f"the actions cannot be run again: {error}") from error
    if not ended:
        raise DatasetError(f"{len(actions)} actions do not end the episode")
    outcome = domain.outcome_of(info, total)
    return Rollout(tuple(actions), 0.0, outcome, illegal, 0.0, total)

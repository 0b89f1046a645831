"""A domain with a default for everything but its name, its environment and its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from pmoss_datasets.domain import Domain
from pmoss_datasets.interfaces import Companion, Judge, Rollout
from pmoss_datasets.policies import Policy
from pmoss_datasets.presets import read_tiers
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.schema import Array, Metadata, Played, first_wrong
from pmoss_datasets.stepwise.actions import Actions
from pmoss_datasets.stepwise.expansion import StepExpander
from pmoss_datasets.stepwise.playing import StepPlayer, play, rerun
from pmoss_datasets.stepwise.policies import Rule, RulePolicy, any_legal
from pmoss_datasets.stepwise.schema import INFO, OBSERVATION, StepEpisode, StepMetadata
from pmoss_datasets.storage import Dataset
from pmoss_env.checks import check_name, check_type
from pmoss_env.errors import (
    DatasetError,
    DescriptionError,
    PmossError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.machines import Machine, load_machine
from pmoss_env.types import Float64Array


class StepDomain(Domain):
    """Episodes of any Gymnasium environment with discrete actions, recorded step by step.

    A subclass gives at least ``name``, ``env_id`` and ``rules``. Observations are kept as they are,
    so that nothing has to be expanded; the environment must repeat an episode by its seed and its
    actions. Masks are those of ``info["action_mask"]``, of an "action_mask" in the observation, or
    of ``action_masks()``; without any all actions are legal.

    Attributes:
        rules: the policies by name; "random" is added.
        undecided: names of the rules that use the generator.
        outcome_name: what the outcome is, in words.
        zero: the policy that scores 0.
        good: those whose best episode scores 100; all but ``zero`` and "random" if empty.
        infos: entries of info that datasets keep, as numbers.
        on_machine: whether the argument ``machine`` names a machine of ``pmoss_env.machines``.
        repeatable: whether seed and actions give the same episode again.
        knowledge: what rules may use, in words, where that is not the observation.
        most_steps: after so many an episode that has not ended is refused.
    """

    rules: ClassVar[Mapping[str, Rule]]
    undecided: tuple[str, ...] = ()
    zero: str = "random"
    good: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    on_machine = False
    repeatable = True
    knowledge: ClassVar[Mapping[str, str]] = {}
    most_steps = 100_000

    metadata = StepMetadata
    rewards = ("environment",)
    outcome = "outcome"
    outcome_name = "return"
    unit = "reward"
    ragged = "TS"
    usual: ClassVar[Mapping[str, Any]] = {}

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the reference scores; see Domain."""
        return self.zero, "best", f"{self.zero} return", "best return"

    @property
    def deterministic(self) -> frozenset[str]:
        """Rules that decide by what they see alone."""
        return frozenset(set(self.rules) - {*self.undecided, "random"})

    def task(self, kwargs: Mapping[str, Any]) -> str:
        """The machine if there is one, the domain's name, and all arguments that are not usual."""
        parts = [Path(str(kwargs["machine"])).stem] if self.on_machine else []
        return "-".join([*parts, self.name, *self.unusual(kwargs, {"machine"})])

    def unusual(self, kwargs: Mapping[str, Any], but: set[str]) -> Iterator[str]:
        """``<name>-<value>`` of the arguments that are not the environment's defaults."""
        defaults = self.parameters()
        for key in sorted(set(kwargs) - but):
            if kwargs[key] != self.usual.get(key, defaults[key]):
                text = f"{key}-{kwargs[key]}".removesuffix(".0")  # noise 1.0 is noise 1
                yield text.replace("_", "-").replace(".", "_")

    def check_task(self, kwargs: Mapping[str, Any]) -> None:
        """Refuses a machine that is no string."""
        if self.on_machine:
            check_type("env: machine", str, kwargs.get("machine"))

    def policies(self) -> tuple[str, ...]:
        """The rules, and "random"."""
        return tuple(dict.fromkeys(["random", *self.rules]))

    def policy(self, name: str, *, budget: int | None = None) -> Policy:
        """A rule as a policy."""
        if budget is not None:
            raise UnsupportedError(f"{name!r} takes no budget: nothing in {self.name!r} searches")
        check_name("policy", name, self.policies())
        return RulePolicy(self.rules.get(name, any_legal))

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuses unknown rules, and what only searches can."""
        if recipe.counterfactuals:
            raise DescriptionError(f"counterfactuals: not known of {self.name!r}")
        for behaviour in recipe.behaviours:
            if not behaviour.is_imported and behaviour.policy not in self.policies():
                policies = [*self.policies(), "module:function"]
                raise UnknownNameError("policy", behaviour.policy, policies)
            for key, usual in (("budget", None), ("visits", 1)):
                if (value := getattr(behaviour, key)) != usual:
                    raise DescriptionError(
                        f"{behaviour.policy}: {key} = {value}: nothing in {self.name!r} searches"
                    )

    def tiers(self) -> Mapping[str, Mapping[str, Any]]:
        """Mixtures made of the rules, and those that are committed."""
        good = [{"policy": name} for name in self._good]
        every = [{"policy": name} for name in self.policies()]
        return {
            "random": {"behaviours": [{"policy": "random"}], "seed": 1},
            "medium": {"behaviours": [{**rule, "epsilon": 0.3} for rule in good], "seed": 3},
            "expert": {"behaviours": good, "seed": 5},
            "mixed": {"behaviours": every, "seed": 0},
            **(read_tiers(self.presets) if self.presets else {}),
        }

    @property
    def _good(self) -> tuple[str, ...]:
        others = tuple(name for name in self.rules if name not in (self.zero, "random"))
        return self.good or others or (self.zero,)

    # Episodes.

    def outcome_of(self, info: Mapping[str, Any], total: float) -> float:
        """The outcome of an episode; more is better."""
        return total

    def player(self, recipe: Recipe) -> StepPlayer:
        """What plays the episodes of a recipe."""
        return StepPlayer(self, recipe)

    def facts(self, recipe: Recipe, played: Sequence[Played]) -> dict[str, Any]:
        """Shapes of observations, actions and episodes."""
        return self.shapes(recipe.kwargs, [each.values for each in played])

    def shapes(
        self, kwargs: Mapping[str, Any], played: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Facts of recorded episodes, for those that any program has played.

        Args:
            played: the values of each by field; at least one.
        """
        first = played[0]
        return {
            "steps": max(int(values["steps"]) for values in played),
            "actions": first["action_mask"].shape[1],
            "parts": self._parts(kwargs),
            "observations": {
                name.removeprefix(OBSERVATION): {
                    "dtype": str(value.dtype),
                    "shape": list(value.shape[1:]),
                }
                for name, value in first.items()
                if name.startswith(OBSERVATION)
            },
            "infos": tuple(n.removeprefix(INFO) for n in first if n.startswith(INFO)),
            "provenance": {"environment": self.env_id},
        }

    def _parts(self, kwargs: Mapping[str, Any]) -> tuple[int, ...]:
        """Choices of each part of an action; empty where there is one."""
        env = self.make_env(kwargs)
        try:
            parts = Actions.of(env.action_space, self.name).parts
        finally:
            env.close()
        return parts if len(parts) > 1 else ()

    def episode(self, values: Mapping[str, Any]) -> StepEpisode:
        """The record of one episode."""
        return StepEpisode.of(values)

    def values(self, episode: StepEpisode) -> Mapping[str, Any]:
        """The values of an episode by field."""
        return episode.values()

    def measured(self, metadata: Metadata, episodes: Sequence[StepEpisode]) -> Metadata:
        """The metadata with the steps of the longest episode."""
        longest = max(episode.steps for episode in episodes)
        return replace(cast(StepMetadata, metadata), steps=longest)

    def machine(self, metadata: Metadata, where: Path | str) -> Machine | None:
        """The machine of the argument ``machine``, if the environment has one."""
        if not self.on_machine:
            return None
        name = str(metadata.env_kwargs.get("machine"))
        try:
            return load_machine(name)
        except PmossError as error:
            raise DatasetError(f"{where}: env_kwargs: machine = {name!r}: {error}") from error

    def problems(
        self, arrays: Mapping[str, Array], metadata: Metadata, machine: Machine | None
    ) -> Iterator[str]:
        """Lengths must fit, and the mask must allow every action."""
        if not {"steps", "actions", "action_mask", "propensity"} <= set(arrays):
            return
        steps, actions, masks = arrays["steps"], arrays["actions"], arrays["action_mask"]
        longest = metadata.sizes["T"]
        wrong = (steps < 1) | (steps > longest)
        yield from first_wrong(wrong, "steps", steps, f"must lie between 1 and {longest}")
        played = np.arange(longest) < steps[:, None]
        numbered = Actions(cast(StepMetadata, metadata).parts or (masks.shape[2],))
        if numbered.columns != masks.shape[2]:
            yield f"parts: {numbered.parts} have {numbered.columns} choices: not {masks.shape[2]}"
            return
        legal = numbered.all_allowed(actions.ravel(), masks[:, :-1].reshape(actions.size, -1))
        rule = "is not allowed by the mask"
        forbidden = played & ~legal.reshape(actions.shape)
        yield from first_wrong(forbidden, "actions", actions, rule)
        chances, rule = arrays["propensity"], "of an action that was chosen"
        yield from first_wrong(played & (chances == 0), "propensity", chances, rule)

    def lengths(self, dataset: Dataset) -> Array:
        """(N,) int64, the steps of each episode."""
        return dataset.column("steps")

    def expander(self, dataset: Dataset) -> StepExpander:
        """What shows the episodes as an agent saw them."""
        env = self.make_env(dataset.metadata.env_kwargs)
        try:
            return StepExpander(env.observation_space, cast(StepMetadata, dataset.metadata))
        finally:
            env.close()

    def rewards_of(self, episode: StepEpisode, mode: str) -> Float64Array:
        """(T,) float64, as the environment paid."""
        check_name("reward", mode, self.rewards)
        return episode.rewards

    def reference_returns(
        self, scores: Mapping[str, Mapping[str, float]], mode: str
    ) -> tuple[float, float]:
        """Mean returns that score 0 and 100."""
        low, high = self.references[2:]
        return scores[low]["mean"], scores[high]["mean"]

    def reference_text(self, name: str, score: Mapping[str, Any]) -> str:
        """The meaning of a reference score, in words."""
        return {
            self.references[0]: f"score 0: {self.zero}",
            self.references[1]: f"score 100: the best of {', '.join(self._good)}",
            self.references[2]: f"return of {self.zero}",
            self.references[3]: "return of the best",
        }[name]

    def describe(self, dataset: Dataset) -> Mapping[str, str]:
        """The domain's parts of a card."""
        steps = self.lengths(dataset)
        bits = self.repeatable and not self.measures_host(dataset.metadata.env_kwargs)
        repeats = "the same recipe gives the same bits" if bits else "it does not repeat"
        return {
            "episodes": f"of {steps.min()} to {steps.max()} steps in `{self.env_id}`, recorded "
            "step by step.",
            "measured": f"By the environment: {repeats}. Observations are kept as they were shown.",
            "outcome": f"The outcome of an episode is its {self.outcome_name}, in {self.unit}.",
            "limits": "",
        }

    # Evaluation.

    @property
    def simple(self) -> tuple[str, ...]:  # type: ignore[override]
        """The policy that scores 0, and "random"."""
        return tuple(dict.fromkeys((self.zero, "random")))

    def opponents(self) -> tuple[str, ...]:
        """All rules of the domain."""
        return self.policies()

    def knows(self, name: str) -> str:
        """The information that a rule may use, in words."""
        return "nothing" if name == "random" else self.knowledge.get(name, "the observation")

    def scale(self, budget: int, draws: int) -> str:
        """What scores 0 and 100, in words."""
        times = "" if self.zero in self.deterministic else f"the mean of {draws} times "
        return f"0 is {times}{self.zero} in each episode, 100 the best of {', '.join(self._good)}"

    def reference_values(
        self, env: Any, seed: int, draws: int
    ) -> tuple[float, float, float, float]:
        """The values of ``references`` in one episode: a mean of what scores 0, and the best.

        Args:
            env: of make_env(); it is reset.
            draws: episodes of a policy that uses chance; 1 of any other.
        """
        count = 1 if self.zero in self.deterministic else draws
        low = [
            play(self, env, self.policy(self.zero), seed, {}, stream=3 + draw)
            for draw in range(count)
        ]
        outcome = float(np.mean([each.outcome for each in low]))
        total = float(np.mean([each.total for each in low]))
        high = [play(self, env, self.policy(name), seed, {}) for name in self._good]
        best = max(high, key=lambda each: each.outcome)
        return outcome, best.outcome, total, best.total

    def judge(self, env: Any) -> Judge:
        """What scores the episodes of an environment."""
        return StepJudge(self, env)

    def play(
        self, env: Any, policy: Policy, seed: int, judge: Companion | None = None, **options: Any
    ) -> Rollout:
        """Plays one episode."""
        return play(self, env, policy, seed, options)

    def rerun(self, env: Any, seed: int, actions: Sequence[int]) -> Rollout:
        """Plays recorded actions again."""
        if not self.repeatable:
            raise UnsupportedError(f"{self.name!r}: its episodes do not repeat")
        return rerun(self, env, seed, actions)


class StepJudge:
    """Scores episodes by the domain's policies in an environment of its own.

    Raises:
        UnsupportedError: illegal actions end its episodes, which saves the costs of what is left.
    """

    def __init__(self, domain: StepDomain, env: Any) -> None:
        kwargs = domain.task_of(env)[0]
        if kwargs.get("on_illegal") == "terminate":
            raise UnsupportedError(
                "on_illegal = 'terminate': episodes that end early are not scored: take another "
                "on_illegal to compare policies"
            )
        self._domain = domain
        self._env = domain.make_env(kwargs, env.spec.id)

    def begin(self) -> None:
        """Nothing: the seed says which episode it is."""

    def reference(self, seed: int, budget: int, draws: int) -> tuple[float, float]:
        """Outcomes of the episode that score 0 and 100; see Judge."""
        return self._domain.reference_values(self._env, seed, draws)[:2]

    def outcome(self, rollout: Rollout) -> float:
        """The outcome as the environment reported it."""
        return rollout.outcome

    def close(self) -> None:
        """Releases the environment."""
        self._env.close()

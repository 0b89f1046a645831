"""Games of the comparison: who plays, how it is tuned, and in which episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pmoss_agents import find_policy, pretrained
from pmoss_benchmarks.cells import Result
from pmoss_benchmarks.policies import short_name
from pmoss_datasets.continual.domain import CONTINUAL, POLICIES
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_datasets.continual.rules import BestFit
from pmoss_datasets.continual.thorough import CALM
from pmoss_env.errors import DescriptionError, UnsupportedError

#: Seeds of the episodes in which policies are tuned; those that are compared count from 0.
TUNING_SEED = 1_000_000
# High prices are for few slices, of which each is a large part of the index. What is new goes to
# the end: a game knows a choice by its position.
_PRICES = tuple({"price": price} for price in (0.0005, 0.002, 0.006, 0.03, 0.1))
_THOROUGH = tuple(
    {"price": price, "ahead": ahead}
    for price, ahead in (*product((0.0002, 0.0005), (2, 4)), (0.006, 2), (0.03, 2))
)
#: Those of the domain; how often best-fit is asked is tuned here.
MAKERS: Mapping[str, Callable[..., RoundPolicy]] = {
    **{name: make for name, make in POLICIES.items() if name != "best-fit-10"},
    "best-fit-often": BestFit,
}
#: What is tried of each policy.
GRIDS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "stay": ({},),
    "interleave": ({},),
    "best-fit-once": ({},),
    "best-fit-often": ({"every": 4}, {"every": 10}, {"every": 25}),
    "kernel-like": ({},),
    "repair": tuple(
        {"gain": gain, "act": act, "memory": memory}
        for gain, act, memory in product((0.003, 0.01, 0.03), (0.02, 0.1), (0.4, 1.0))
    ),
    "tries": ({"margin": 0.0}, {"margin": 0.02}),
    "planner": _PRICES,
    "seasonal-planner": _PRICES,
    "thorough-planner": tuple(
        {"price": price, "calm": calm}
        for prices in ((0.0002, 0.0005), (0.006, 0.03, 0.1))
        for price, calm in product(prices, (0.0, CALM))
    ),
    "delayed-oracle": _PRICES,
    "law-oracle": _PRICES,
    "now-oracle": _PRICES,
    "thorough-law-oracle": _THOROUGH,
    "thorough-now-oracle": _THOROUGH,
}


@dataclass(frozen=True)
class Game:
    """One policy in one episode of one task.

    Attributes:
        drift: family of the task.
        policy: a key of GRIDS, or the ``key`` of an Entrant.
        choice: position in the policy's grid; 0 of an Entrant.
        seed: of the episode.
    """

    drift: str
    policy: str
    choice: int
    seed: int

    @property
    def name(self) -> str:
        """Decides the game."""
        return "/".join(str(value) for value in asdict(self).values())


@dataclass(frozen=True)
class Entrant:
    """A learned agent that plays along.

    Attributes:
        name: short, see short_name().
        word: that pmoss_agents.find_policy() knows, such as a checkpoint.
        digest: SHA-256 of the checkpoint; empty where the word is no file.
    """

    name: str
    word: str
    digest: str

    @classmethod
    def of(cls, word: str) -> Entrant:
        """The agent that a word names."""
        path = Path(word.partition("@")[2] or word)
        path = pretrained.find(word) if pretrained.is_name(word) else path
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        return cls(short_name(word), word, digest)

    @property
    def key(self) -> str:
        """Decides its games: another checkpoint of the same name plays anew."""
        return f"{self.name}@{self.digest[:16]}"


@dataclass(frozen=True)
class HeadroomOptions:
    """How the comparison is made.

    Attributes:
        env: arguments of the environment, without the drift.
        episodes: that all policies meet.
        tuning: episodes for each choice of a grid.
        tuning_epochs: their length.
    """

    env: Mapping[str, Any]
    episodes: int = 30
    tuning: int = 4
    tuning_epochs: int = 40

    def __post_init__(self) -> None:
        if "drift" in self.env:
            raise DescriptionError(
                f"-e drift={self.env['drift']}: families of drift are named by --drift here"
            )
        for name in ("episodes", "tuning", "tuning_epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DescriptionError(f"{name} = {value!r}: must be a whole number from 1")

        if self.env.get("backend") == "hardware":
            raise UnsupportedError(
                "backend = 'hardware': all are compared with the law oracle, and nobody knows the "
                "true machine of a host; `pmoss benchmark autopilot` compares an agent with "
                "staying there, `pmoss rollout --domain continual` tells what each serves"
            )

    def kwargs(self, game: Game) -> dict[str, Any]:
        """Arguments of the environment of a game."""
        kwargs = {**self.env, "drift": game.drift}
        if game.seed >= TUNING_SEED:
            kwargs["epochs"] = self.tuning_epochs
        return kwargs


class Games:
    """Plays games; environments and agents are kept."""

    def __init__(self, options: HeadroomOptions, entrants: Sequence[Entrant] = ()) -> None:
        self._options = options
        self._agents = {entrant.key: find_policy(entrant.word) for entrant in entrants}
        self._envs: dict[tuple[str, bool], Any] = {}

    def __call__(self, game: Game) -> Result:
        """The return, and an agent's actions: no rule finds them again."""
        key = (game.drift, game.seed >= TUNING_SEED)
        if key not in self._envs:
            self._envs[key] = CONTINUAL.make_env(self._options.kwargs(game))
        agent = self._agents.get(game.policy)
        policy = agent or MAKERS[game.policy](**GRIDS[game.policy][game.choice])
        played = CONTINUAL.play(self._envs[key], policy, game.seed)
        found: Result = {"outcome": played.outcome, "steps": len(played.actions)}
        return {**found, "actions": " ".join(map(str, played.actions))} if agent else found

    def close(self) -> None:
        """Releases the environments."""
        for env in self._envs.values():
            env.close()

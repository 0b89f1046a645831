"""How much is left to learn where a running index drifts: opponents against oracles.

Every policy is tuned on episodes of its own first. All then meet the same episodes. What the best
opponent leaves to the law oracle is the headroom. A learned agent may play along: it is no
opponent, and what it gains on the best of them is told as a share of the headroom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents import find_policy, pretrained
from pmoss_benchmarks.cells import Progress, Result, finish_cells
from pmoss_benchmarks.evaluation.statistics import paired_difference, ratio_of_means
from pmoss_benchmarks.policies import short_name
from pmoss_benchmarks.report import write_report
from pmoss_datasets.continual.domain import CONTINUAL, ORACLES
from pmoss_datasets.continual.oracles import Delayed, Law, Now
from pmoss_datasets.continual.planners import FittedPlanner, SeasonalPlanner
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_datasets.continual.rules import BestFit, Interleave, KernelLike, Repair, Stay, Tries
from pmoss_env.envs.continual import FAMILIES
from pmoss_env.errors import DatasetError, DescriptionError, PmossError, UnknownNameError
from pmoss_env.files import read_json

#: What a report calls itself.
FORMAT = "continual-headroom"
#: The environment of reports that do not name it.
FIRST_ENV = "pmoss/ContinualScheduling-v0"
#: Seeds of the episodes in which policies are tuned; those that are compared count from 0.
TUNING_SEED = 1_000_000
#: A task is a standard one where the best opponent leaves at least this to the law oracle.
THRESHOLD = 0.10
_PRICES = ({"price": 0.0005}, {"price": 0.002}, {"price": 0.006})
MAKERS: Mapping[str, Callable[..., RoundPolicy]] = {
    "stay": Stay,
    "interleave": Interleave,
    "best-fit-once": partial(BestFit, 0),
    "best-fit-often": BestFit,
    "kernel-like": KernelLike,
    "repair": Repair,
    "tries": Tries,
    "planner": FittedPlanner,
    "seasonal-planner": SeasonalPlanner,
    "delayed-oracle": Delayed,
    "law-oracle": Law,
    "now-oracle": Now,
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
    "delayed-oracle": _PRICES,
    "law-oracle": _PRICES,
    "now-oracle": _PRICES,
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
        for name in ("episodes", "tuning", "tuning_epochs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DescriptionError(f"{name} = {value!r}: must be a whole number from 1")

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
        """Million queries served, and an agent's actions: no rule finds them again."""
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


def compare(
    drifts: Sequence[str],
    options: HeadroomOptions,
    *,
    policies: Sequence[str] | None = None,
    agents: Sequence[str] = (),
    tuned: Path | None = None,
    out: Path | None = None,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Tunes and compares the policies in every drift.

    Args:
        drifts: families.
        options: how.
        policies: keys of GRIDS; None: all. "law-oracle" and an opponent must be among them.
        agents: words of learned agents that play along, see pmoss_agents.find_policy().
        tuned: a report of the same drifts; policies are as they were tuned for it. None: they are
            tuned here.
        out: JSON file of the report; games go to a file beside it, and the same call goes on.
        processes: worker processes; the results do not depend on them.
        progress: called with (done, total) games.

    Returns:
        One entry per drift, see summary().

    Raises:
        UnknownNameError: no such drift or policy.
        DescriptionError: options, policies or agents that allow no comparison.
    """
    names = list(policies or GRIDS)
    entrants = [Entrant.of(word) for word in agents]
    taken = [*GRIDS, *(entrant.name for entrant in entrants)]
    if twice := sorted({name for name in taken if taken.count(name) > 1}):
        raise DescriptionError(f"agents {', '.join(twice)}: the name is taken: rename the file")
    for kind, asked, known in (("drift", drifts, FAMILIES), ("policy", names, GRIDS)):
        for name in asked:
            if name not in known:
                raise UnknownNameError(kind, name, known)
    if "law-oracle" not in names or not set(names) - set(ORACLES):
        raise DescriptionError(f"policies {names}: must hold law-oracle and an opponent")
    kept = None if out is None else out.with_suffix(".partial")
    settings = asdict(options)
    play = partial(
        finish_cells,
        partial(Games, options, entrants),
        settings=settings,
        kept=kept,
        processes=processes,
    )
    told = None if tuned is None else _as_tuned(tuned, drifts, names)
    tuning = [
        Game(drift, name, choice, TUNING_SEED + number)
        for drift, name in product(drifts, names)
        for choice in range(len(GRIDS[name]))
        for number in range(options.tuning)
        if len(GRIDS[name]) > 1 and told is None
    ]
    compared = len(drifts) * (len(names) + len(entrants)) * options.episodes
    total = len(tuning) + compared
    served = play(tuning, progress=lambda done, _: progress(done, total)) if tuning else {}
    chosen = told or {
        (drift, name): _best(drift, name, options.tuning, served)
        for drift, name in product(drifts, names)
    }
    players = [*names, *(entrant.key for entrant in entrants)]
    choice = chosen | {(drift, one.key): 0 for drift, one in product(drifts, entrants)}
    games = [
        Game(drift, name, choice[drift, name], seed)
        # Players innermost: those of one episode share its recording on the simulator.
        for seed in range(options.episodes)
        for drift, name in product(drifts, players)
    ]
    results = play(games, progress=lambda done, _: progress(len(tuning) + done, total))

    def of(drift: str, name: str, what: str) -> list[Any]:
        seeds = range(options.episodes)
        return [results[Game(drift, name, choice[drift, name], seed).name][what] for seed in seeds]

    found = []
    for drift in drifts:
        parameters = {name: GRIDS[name][chosen[drift, name]] for name in names}
        task = summary(drift, parameters, {name: of(drift, name, "outcome") for name in names})
        for one in entrants:
            played = of(drift, one.key, "outcome"), of(drift, one.key, "actions")
            task["agents"][one.name] = summary_of_agent(task, one, *played)
        found.append(task)
    if out is not None and kept is not None:
        env_id = CONTINUAL.env_id
        write_report(out, [__name__], format=FORMAT, env_id=env_id, settings=settings, tasks=found)
        kept.unlink(missing_ok=True)
    return found


def _as_tuned(
    path: Path, drifts: Sequence[str], names: Sequence[str]
) -> dict[tuple[str, str], int]:
    """The positions in their grids of what a stored report chose.

    Raises:
        DatasetError: the file is no such report, or lacks a drift or a policy.
    """
    try:
        tasks = {task["drift"]: task["policies"] for task in read_json(path)["tasks"]}
        return {
            (drift, name): [dict(one) for one in GRIDS[name]].index(
                tasks[drift][name]["parameters"]
            )
            for drift, name in product(drifts, names)
        }
    except (KeyError, OSError, TypeError, ValueError) as error:
        if isinstance(error, PmossError):
            raise
        raise DatasetError(
            f"{path}: does not tell how {', '.join(names)} are tuned for {', '.join(drifts)}: "
            f"{error!r}; name a report of `pmoss benchmark continual` that holds them"
        ) from error


def _best(drift: str, name: str, episodes: int, tuned: Mapping[str, Result]) -> int:
    """The choice that served most in the tuning episodes; the first of equals."""
    count = len(GRIDS[name])
    if count == 1:
        return 0
    served = [
        sum(
            tuned[Game(drift, name, choice, TUNING_SEED + number).name]["outcome"]
            for number in range(episodes)
        )
        for choice in range(count)
    ]
    return int(np.argmax(served))


def summary(
    drift: str, chosen: Mapping[str, Mapping[str, Any]], outcomes: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """What a drift's games have come to, as plain JSON.

    Args:
        drift: the family.
        chosen: the tuned parameters of each policy.
        outcomes: million queries of each policy in each episode.

    Returns:
        ``policies`` with their means, their shares of the law oracle and paired differences to the
        best opponent. ``agents``: none yet. ``best``: that opponent. ``headroom``: what the law
        oracle serves beyond it, as a share, with its 95 % interval. ``standard``: whether that is
        THRESHOLD or more.
    """
    values = {name: np.array(found) for name, found in outcomes.items()}
    law = values["law-oracle"]
    opponents = [name for name in values if name not in ORACLES]
    best = max(opponents, key=lambda name: float(values[name].mean()))
    ahead = paired_difference((law / values[best] - 1.0)[None])
    policies = {}
    for name, served in values.items():
        share = paired_difference((served / law)[None])
        difference = paired_difference((served - values[best])[None])
        policies[name] = {
            "parameters": dict(chosen[name]),
            "outcomes": served.tolist(),
            "mean": float(served.mean()),
            "share_of_law": asdict(share),
            "beyond_best": asdict(difference),
        }
    return {
        "drift": drift,
        "best": best,
        "headroom": asdict(ahead),
        "standard": ahead.value >= THRESHOLD,
        "policies": policies,
        "agents": {},
    }


def summary_of_agent(
    task: Mapping[str, Any], entrant: Entrant, outcomes: Sequence[float], actions: Sequence[str]
) -> dict[str, Any]:
    """What an agent's games have come to, as plain JSON.

    Args:
        task: of summary().
        entrant: the agent.
        outcomes: million queries in each episode.
        actions: of each episode, with spaces between.

    Returns:
        As of a policy, and ``gap_closed``: what it gains on the best opponent, as a share of what
        the law oracle gains on it.
    """
    served = np.array(outcomes)
    law, best = (
        np.array(task["policies"][name]["outcomes"]) for name in ("law-oracle", task["best"])
    )
    return {
        "checkpoint_sha256": entrant.digest,
        "outcomes": list(outcomes),
        "mean": float(served.mean()),
        "share_of_law": asdict(paired_difference((served / law)[None])),
        "beyond_best": asdict(paired_difference((served - best)[None])),
        "gap_closed": asdict(ratio_of_means(served - best, law - best)),
        "actions": list(actions),
    }

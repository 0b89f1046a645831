"""Episodes that policies played: kept in few bytes, read again, and played again."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.spatial.episodes import best_episodes
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import EpisodeResult
from pmoss_datasets.interfaces import Rollout, score_of
from pmoss_datasets.storage import Dataset
from pmoss_datasets.suite import load_task
from pmoss_env.errors import DatasetError

#: Seeds of the evaluation and of the choice of the best checkpoint begin here: episodes that
#: neither a dataset nor the other of both has.
EVALUATION_SEED, VALIDATION_SEED = 101, 1001
#: Throughputs of one schedule differ by no more than this share.
_SAME = 1e-9
#: The fields of an episode that are kept as lists, one value each.
_COLUMNS = (
    *("env_seed", "incumbent_throughput", "throughput", "score"),
    *("random_throughput", "search_throughput"),
)


def opponents_of(domain: Domain) -> list[str]:
    """The policies of a domain that do not learn, those whose workers share slices too."""
    return list(dict.fromkeys((*domain.opponents(), *domain.unplaced)))


def is_opponent(name: str, task: str) -> bool:
    """Whether a policy is one of its task's domain, and not a learned agent."""
    return name in opponents_of(find_domain(load_task(task).domain))


def world_of(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the environment that a cell is played in."""
    env = load_track(cell["track"]).evaluation_env(load_task(cell["task"]))
    assert env is not None
    return env


def pack(rows: Sequence[EpisodeResult], *, actions: bool = True) -> dict[str, Any]:
    """The episodes of one policy, a list for each field.

    Args:
        rows: of one policy and seed, in the order of episodes.
        actions: whether to keep them. What a rule of the project does is found again by its code.
    """
    packed: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in _COLUMNS}
    packed["seconds_per_decision"] = float(np.mean([row.seconds_per_decision for row in rows]))
    packed["illegal_actions"] = sum(row.illegal_actions for row in rows)
    if any(row.evaluations is not None for row in rows):
        packed["evaluations"] = [row.evaluations for row in rows]
    if actions:
        packed["actions"] = pack_episodes([row.actions for row in rows])
    return packed


def pack_episodes(episodes: Iterable[Sequence[int]]) -> dict[str, Any]:
    """The actions of some episodes in few bytes."""
    parts = [np.asarray(actions, dtype=np.int64) for actions in episodes]
    every = np.concatenate([*parts, np.zeros(0, dtype=np.int64)])
    kind = "<u1" if every.max(initial=0) < 256 else "<u4"
    content = zlib.compress(every.astype(kind).tobytes(), 9)
    return {
        "kind": kind,
        "steps": [part.size for part in parts],
        "zlib": base64.b64encode(content).decode(),
    }


def actions_of(packed: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The actions of each episode of pack(); empty where none are kept."""
    return unpack_episodes(packed["actions"]) if "actions" in packed else []


def unpack_episodes(kept: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """What pack_episodes() packed."""
    content = zlib.decompress(base64.b64decode(kept["zlib"], validate=True))
    ends = np.cumsum(kept["steps"])
    parts = np.split(np.frombuffer(content, kept["kind"]), ends[:-1])
    return [tuple(part.tolist()) for part in parts]


def episodes_of(row: Mapping[str, Any]) -> list[EpisodeResult]:
    """The episodes of a row, those of the best checkpoint too; without actions."""
    seed = EVALUATION_SEED + row["seed"]
    episodes = []
    for name, packed in row.get("played", {}).items():
        kept = row["played"][row["policy"]] if packed == "last" else packed
        evaluations = kept.get("evaluations")
        episodes += [
            EpisodeResult(
                policy=name,
                seed=seed,
                episode=number,
                **{column: kept[column][number] for column in _COLUMNS},
                # The sum stands in the first one.
                illegal_actions=0 if number else kept["illegal_actions"],
                actions=(),
                seconds_per_decision=kept["seconds_per_decision"],
                evaluations=evaluations[number] if evaluations else None,
            )
            for number in range(len(kept["env_seed"]))
        ]
    return episodes


def mean_score(rows: Sequence[EpisodeResult]) -> float:
    """The mean score of episodes, of those that have one; 0 if none has."""
    # Where search finds nothing above random all schedules are alike.
    values = [row.score for row in rows if row.score is not None]
    return sum(values) / len(values) if values else 0.0


def logged_scores(
    dataset: Dataset, share: float, env: Mapping[str, Any], budget: int, draws: int
) -> list[list[float | None]]:
    """Outcome and score of the logged episodes with the highest returns, each in its own instance.

    Args:
        dataset: of the spatial environment.
        share: of its episodes, in (0, 1].
        env: arguments of its environment.
        budget: evaluations of the search that scores 100.
        draws: random schedules, whose mean scores 0.
    """
    domain = dataset.domain
    scored: list[list[float | None]] = []
    with closing(domain.make_env(env)) as made, closing(domain.judge(made)) as judge:
        for number in best_episodes(dataset, share).tolist():
            episode = dataset[number]
            made.reset(seed=episode.seed)
            judge.begin()
            outcome = episode.final_throughput
            scored.append(
                [outcome, score_of(outcome, *judge.reference(episode.seed, budget, draws))]
            )
    return scored


@dataclass(frozen=True)
class Again:
    """An episode that was played again; the environment stands at its end.

    Attributes:
        policy: its name.
        number: of the episode.
        env: that played it.
        rollout: what came of it.
        score: by the stored ends of the scale.
        stored: the columns of pack().
    """

    policy: str
    number: int
    env: Any
    rollout: Rollout
    score: float | None
    stored: Mapping[str, Any]

    def check(self, path: Path, throughput: float) -> None:
        """Refuses a throughput, Mq/s, that is not the stored one: DatasetError."""
        then = self.stored["throughput"][self.number]
        if not np.isclose(throughput, then, rtol=_SAME, atol=0):
            raise DatasetError(
                f"{path}: {self.policy}, episode {self.number}: stored {then!r} Mq/s, now "
                f"{throughput!r}"
            )


def play_again(
    row: Mapping[str, Any], search_budget: int, numbers: Iterable[int] | None = None
) -> Iterator[Again]:
    """Plays the episodes of a row again: rules decide anew, agents' actions are run again.

    Args:
        numbers: only these episodes; None: all.
    """
    numbers = None if numbers is None else tuple(numbers)
    domain = find_domain(load_task(row["task"]).domain)
    env = domain.make_env(world_of(row))
    judge = domain.judge(env)
    try:
        for name, packed in row.get("played", {}).items():
            if packed == "last":
                continue
            actions = actions_of(packed)
            budget = search_budget if not actions and domain.takes_budget(name) else None
            policy = None if actions else domain.policy(name, budget=budget)
            chosen = range(len(packed["env_seed"])) if numbers is None else numbers
            for number in chosen:
                env_seed = packed["env_seed"][number]
                low, high = (packed[f"{end}_throughput"][number] for end in ("random", "search"))
                env.reset(seed=env_seed)
                judge.begin()
                if policy is None:
                    rollout = domain.rerun(env, env_seed, actions[number])
                    judge.begin()
                else:
                    rollout = domain.play(env, policy, env_seed, judge)
                score = score_of(judge.outcome(rollout), low, high)
                yield Again(name, number, env, rollout, score, packed)
    finally:
        env.close()
        judge.close()

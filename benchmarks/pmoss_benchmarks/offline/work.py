"""Doing one cell: train an agent, choose its best checkpoint, let it play what nobody played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pmoss_agents
from pmoss_agents.registry import agent_class
from pmoss_benchmarks.offline.opponents import is_opponent
from pmoss_benchmarks.offline.pairs import BEST
from pmoss_benchmarks.offline.plan import (
    EVALUATION_SEED,
    VALIDATION_SEED,
    OfflineCell,
    Plan,
    config_of,
)
from pmoss_benchmarks.offline.tracks import Track, has_references, load_track
from pmoss_benchmarks.offline.training import trained
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import EpisodeResult, episode_seed, evaluate
from pmoss_datasets.interfaces import score_of
from pmoss_datasets.suite import load_task
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError


def best_name(agent: str) -> str:
    """The policy's name in the tables for an agent's best checkpoint."""
    return agent + BEST


class OfflineWork:
    """Does the cells of a plan in one process."""

    def __init__(
        self,
        plan: Plan,
        datasets: dict[tuple[str, str], Path],
        agents: Path,
        references: Mapping[str, Mapping[int, tuple[float, float]]] = MappingProxyType({}),
    ) -> None:
        """Takes what every cell needs.

        Args:
            plan: how much of everything.
            datasets: by track and task.
            agents: folder that trained agents are kept in.
            references: by task, throughputs of score 0 and 100 by the episode's seed.
        """
        self._plan = plan
        self._datasets = datasets
        self._agents = agents
        self._given = references
        # Throughputs of score 0 and 100 by the environment, then by the episode's seed.
        self._references: dict[str, dict[int, tuple[float, float]]] = {}

    def __call__(self, cell: OfflineCell) -> dict[str, Any]:
        """The result of a cell as plain JSON.

        ``rows`` holds the rows of the evaluation. An opponent to which no actions lead has
        ``shared`` instead, outcomes and scores. One that cannot play has ``absent``, by its name
        the reason. An agent has ``training`` and ``curve``, updates and validation score of each
        checkpoint; one that learns nothing has rows alone. One that refuses the task or its data
        has ``refused`` alone.
        """
        domain = find_domain(load_task(cell.task).domain)
        if cell.agent in domain.unplaced:
            return {"rows": [], "shared": {cell.agent: self._shared(cell, domain)}}
        if is_opponent(cell.agent, cell.task):
            return self._opponent(cell, domain)
        try:
            return self._learned(cell)
        except (CheckpointError, DatasetError, UnsupportedError) as error:
            # Results are shared: where the data lie here is nobody's business.
            path = self._datasets.get((cell.track, cell.task))
            return {"refused": str(error).replace(f"{path}: ", ""), "rows": []}

    def close(self) -> None:
        """Nothing is held."""

    def _opponent(self, cell: OfflineCell, domain: Domain) -> dict[str, Any]:
        """The rows of an opponent; none, and why, if it cannot play."""
        budget = self._plan.search_budget
        env = domain.make_env(self._env(cell))
        try:
            env.reset(seed=0)
            absence = domain.absence(env, cell.agent, budget)
        finally:
            env.close()
        if absence is not None:
            return {"rows": [], **({"absent": {cell.agent: absence}} if absence else {})}
        searches = domain.takes_budget(cell.agent)
        policy = domain.policy(cell.agent, budget=budget if searches else None)
        return {"rows": self._rows(cell, {cell.agent: policy}, EVALUATION_SEED)}

    def _shared(self, cell: OfflineCell, domain: Domain) -> list[list[float | None]]:
        """Outcome and score of what can be measured only, per episode."""
        plan = self._plan
        known = self._known(cell)
        found: list[list[float | None]] = []
        env = domain.make_env(self._env(cell))
        judge = domain.judge(env)
        for episode in range(plan.episodes):
            env_seed = episode_seed(EVALUATION_SEED + cell.seed, episode)
            env.reset(seed=env_seed)
            judge.begin()
            if env_seed not in known:
                known[env_seed] = judge.reference(
                    env_seed, plan.search_budget, plan.random_schedules
                )
            outcome = domain.measure_unplaced(env, judge, cell.agent, env_seed)
            found.append([outcome, score_of(outcome, *known[env_seed])])
        judge.close()
        env.close()
        return found

    def _known(self, cell: OfflineCell) -> dict[int, tuple[float, float]]:
        """Scores 0 and 100 of the world of a cell, as far as they are known, by seed."""
        key = f"{cell.track}/{cell.task}"
        if key not in self._references:
            own = has_references(cell.track, cell.task)
            self._references[key] = dict(self._given.get(cell.task, {})) if own else {}
        return self._references[key]

    def _env(self, cell: OfflineCell) -> dict[str, Any]:
        env = load_track(cell.track).evaluation_env(load_task(cell.task))
        assert env is not None
        return env

    def _learned(self, cell: OfflineCell) -> dict[str, Any]:
        plan, track = self._plan, load_track(cell.track)
        config = config_of(plan, cell.agent, cell.task)
        of = agent_class(cell.agent)
        # Where chance has no part in learning, runs differ in their episodes alone.
        seeded = any(field.name == "seed" for field in fields(of.Config))
        own = {**config, "seed": cell.seed} if seeded else config
        if of.learns == "nothing":
            policies: dict[str, Any] = {cell.agent: pmoss_agents.make(cell.agent, **own)}
            return {"rows": self._rows(cell, self._on(track, policies), EVALUATION_SEED)}
        run = trained(
            self._agents / track.of_agents / cell.task / f"{cell.agent}-{cell.seed}-{cell.config}",
            cell.agent,
            own,
            dataset=self._datasets.get((cell.track, cell.task)),
            env=track.training_env(load_task(cell.task).env),
            checkpoints=plan.checkpoints,
        )
        numbers = range(len(run.updates))
        scores = self._validation(cell, {str(i): run.load(i) for i in numbers})
        # Of equal ones the later.
        best = max(numbers, key=lambda i: (scores[i], i))
        policies = {cell.agent: run.load(numbers[-1])}
        if best != numbers[-1]:
            policies[best_name(cell.agent)] = run.load(best)
        rows = self._rows(cell, self._on(track, policies), EVALUATION_SEED)
        if best == numbers[-1]:
            rows += [{**row, "policy": best_name(cell.agent)} for row in rows]
        return {
            "training": {
                "seconds": run.seconds,
                "updates": run.updates[-1],
                "metrics": dict(run.metrics),
                "source": dict(run.source),
                "config": config,
                **({"played": list(run.played)} if run.played else {}),
            },
            "curve": [[run.updates[i], scores[i]] for i in numbers],
            "best": run.updates[best],
            "rows": rows,
        }

    def _on(self, track: Track, agents: dict[str, Any]) -> dict[str, Any]:
        """Agents as they meet the worlds of a track."""
        if track.machines is None:
            return agents
        return {name: agent.padded() for name, agent in agents.items()}

    def _validation(self, cell: OfflineCell, policies: dict[str, Any]) -> list[float]:
        """Mean score of each checkpoint on episodes that are not those of the evaluation.

        They are of the world that the agent was trained for: the other one is not known to it.
        """
        same = replace(cell, track=load_track(cell.track).of_agents)
        rows = self._rows(same, policies, VALIDATION_SEED, self._plan.validation_episodes)
        return [_mean([r["score"] for r in rows if r["policy"] == name]) for name in policies]

    def _rows(
        self, cell: OfflineCell, policies: dict[str, Any], seed: int, episodes: int | None = None
    ) -> list[dict[str, Any]]:
        plan = self._plan
        common = plan.common and seed == EVALUATION_SEED
        found = evaluate(
            self._env(cell),
            policies,
            [seed if common else seed + cell.seed],
            episodes_per_seed=episodes or plan.episodes,
            search_budget=plan.search_budget,
            random_schedules=plan.random_schedules,
            references=self._known(cell),
            env_id=find_domain(load_task(cell.task).domain).env_id,
        )
        return [{**asdict(row), "seed": seed + cell.seed} for row in found.rows]


def to_rows(result: dict[str, Any]) -> list[EpisodeResult]:
    """The rows of a cell's result."""
    return [EpisodeResult(**{**row, "actions": tuple(row["actions"])}) for row in result["rows"]]


def _mean(scores: list[float | None]) -> float:
    # Where search finds nothing above random all schedules are alike.
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else 0.0

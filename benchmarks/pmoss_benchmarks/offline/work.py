"""Doing one cell: train an agent, choose its best checkpoint, let it place what nobody placed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.spatial.padded import PaddedAgent
from pmoss_benchmarks.evaluation import EpisodeResult, episode_seed, evaluate
from pmoss_benchmarks.offline.opponents import is_opponent
from pmoss_benchmarks.offline.plan import (
    EVALUATION_SEED,
    VALIDATION_SEED,
    OfflineCell,
    Plan,
    config_of,
)
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_benchmarks.offline.training import trained
from pmoss_datasets.interfaces import score_of
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.spatial.scoring import SpatialJudge
from pmoss_datasets.suite import load_task
from pmoss_env.baselines import SHARED_BASELINES, asks, has_budget, make_baseline
from pmoss_env.baselines.exact import MOST_SCHEDULES
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError


def best_name(agent: str) -> str:
    """The policy's name in the tables for an agent's best checkpoint."""
    return f"{agent} (best)"


class OfflineWork:
    """Does the cells of a plan in one process."""

    def __init__(self, plan: Plan, datasets: dict[tuple[str, str], Path], agents: Path) -> None:
        """Takes what every cell needs.

        Args:
            plan: how much of everything.
            datasets: by track and task.
            agents: folder that trained agents are kept in.
        """
        self._plan = plan
        self._datasets = datasets
        self._agents = agents
        # Throughputs of score 0 and 100 by the environment, then by the episode's seed.
        self._references: dict[str, dict[int, tuple[float, float]]] = {}

    def __call__(self, cell: OfflineCell) -> dict[str, Any]:
        """The result of a cell as plain JSON.

        ``rows`` holds the rows of the evaluation. An opponent whose workers share slices has
        ``shared`` instead, throughputs and scores: no actions lead to its schedules. One that
        cannot play has ``absent``, by its name the reason. An agent has ``training`` and ``curve``,
        updates and validation score of each checkpoint; one that refuses the task or its data has
        ``refused`` alone.
        """
        if cell.agent in SHARED_BASELINES:
            return {"rows": [], "shared": {cell.agent: self._shared(cell)}}
        if is_opponent(cell.agent):
            return self._opponent(cell)
        try:
            return self._learned(cell)
        except (CheckpointError, DatasetError, UnsupportedError) as error:
            # Results are shared: where the data lie here is nobody's business.
            reason = str(error).replace(f"{self._datasets[cell.track, cell.task]}: ", "")
            return {"refused": reason, "rows": []}

    def close(self) -> None:
        """Nothing is held."""

    def _opponent(self, cell: OfflineCell) -> dict[str, Any]:
        """The rows of an opponent; none, and why, if it cannot play."""
        searches = has_budget(cell.agent)
        baseline = make_baseline(cell.agent, budget=self._plan.search_budget if searches else None)
        env = SpatialSchedulingEnv(**self._env(cell))
        try:
            env.reset(seed=0)
            if cell.agent == "exact" and env.machine.workers.size**env.slices > MOST_SCHEDULES:
                return {"rows": []}
            if not asks(baseline):
                baseline(env.context(np.random.default_rng(0)))
        except UnsupportedError as error:
            return {"rows": [], "absent": {cell.agent: str(error)}}
        finally:
            env.close()
        policies = {cell.agent: SchedulePolicy(baseline)}
        return {"rows": self._rows(cell, policies, EVALUATION_SEED)}

    def _shared(self, cell: OfflineCell) -> list[list[float | None]]:
        """Throughput (Mq/s) and score of a schedule that can be measured only, per episode."""
        plan = self._plan
        known = self._known(cell)
        found: list[list[float | None]] = []
        env = SpatialSchedulingEnv(**self._env(cell))
        judge = SpatialJudge(env)
        for episode in range(plan.episodes):
            env_seed = episode_seed(EVALUATION_SEED + cell.seed, episode)
            env.reset(seed=env_seed)
            judge.begin()
            if env_seed not in known:
                known[env_seed] = judge.reference(
                    env_seed, plan.search_budget, plan.random_schedules
                )
            backend = env.session.new_backend()
            context = env.context(np.random.default_rng((env_seed, 2)))
            schedule = make_baseline(cell.agent, shared=True)(context)
            throughput = backend.measure(schedule, seed=0).throughput
            found.append([throughput, score_of(throughput, *known[env_seed])])
            backend.close()
        judge.close()
        env.close()
        return found

    def _known(self, cell: OfflineCell) -> dict[int, tuple[float, float]]:
        """Scores 0 and 100 of the world of a cell, as far as they are known, by seed."""
        return self._references.setdefault(f"{cell.track}/{cell.task}", {})

    def _env(self, cell: OfflineCell) -> dict[str, Any]:
        env = load_track(cell.track).evaluation_env(load_task(cell.task).env)
        assert env is not None
        return env

    def _learned(self, cell: OfflineCell) -> dict[str, Any]:
        plan, track = self._plan, load_track(cell.track)
        task = load_task(cell.task).env
        # Tracks that differ in the evaluation alone share their agents.
        of = cell.track if track.training else "same-task"
        run = trained(
            self._agents / of / cell.task / f"{cell.agent}-{cell.seed}-{cell.config}",
            cell.agent,
            {**config_of(plan, cell.agent, cell.task), "seed": cell.seed},
            dataset=self._datasets[cell.track, cell.task],
            env=track.training_env(task),
            checkpoints=plan.checkpoints,
        )
        numbers = range(len(run.updates))
        scores = self._validation(cell, {str(i): run.load(i) for i in numbers})
        # Of equal ones the later.
        best = max(numbers, key=lambda i: (scores[i], i))
        policies: dict[str, Any] = {cell.agent: run.load(numbers[-1])}
        if best != numbers[-1]:
            policies[best_name(cell.agent)] = run.load(best)
        if track.machines is not None:
            policies = {
                name: agent if agent.any_machine else PaddedAgent(agent)
                for name, agent in policies.items()
            }
        rows = self._rows(cell, policies, EVALUATION_SEED)
        if best == numbers[-1]:
            rows += [{**row, "policy": best_name(cell.agent)} for row in rows]
        return {
            "training": {
                "seconds": run.seconds,
                "updates": run.updates[-1],
                "metrics": dict(run.metrics),
                "source": dict(run.source),
                "config": config_of(plan, cell.agent, cell.task),
            },
            "curve": [[run.updates[i], scores[i]] for i in numbers],
            "best": run.updates[best],
            "rows": rows,
        }

    def _validation(self, cell: OfflineCell, policies: dict[str, Any]) -> list[float]:
        """Mean score of each checkpoint on episodes that are not those of the evaluation.

        They are of the world that the agent was trained for: the other one is not known to it.
        """
        same = replace(cell, track=cell.track if load_track(cell.track).training else "same-task")
        rows = self._rows(same, policies, VALIDATION_SEED, self._plan.validation_episodes)
        return [_mean([r["score"] for r in rows if r["policy"] == name]) for name in policies]

    def _rows(
        self, cell: OfflineCell, policies: dict[str, Any], seed: int, episodes: int | None = None
    ) -> list[dict[str, Any]]:
        plan = self._plan
        found = evaluate(
            self._env(cell),
            policies,
            [seed + cell.seed],
            episodes_per_seed=episodes or plan.episodes,
            search_budget=plan.search_budget,
            random_schedules=plan.random_schedules,
            references=self._known(cell),
        )
        return [asdict(row) for row in found.rows]


def to_rows(result: dict[str, Any]) -> list[EpisodeResult]:
    """The rows of a cell's result."""
    return [EpisodeResult(**{**row, "actions": tuple(row["actions"])}) for row in result["rows"]]


def _mean(scores: list[float | None]) -> float:
    # Where search finds nothing above random all schedules are alike.
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else 0.0

"""Doing one cell: train an agent, choose its best checkpoint, let it place what nobody placed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.spatial.padded import PaddedAgent
from pmoss_benchmarks.evaluation import EpisodeResult, episode_seed, evaluate
from pmoss_benchmarks.offline.plan import (
    EVALUATION_SEED,
    OPPONENTS,
    VALIDATION_SEED,
    OfflineCell,
    Plan,
    config_of,
)
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_benchmarks.offline.training import trained
from pmoss_datasets.suite import load_task
from pmoss_env.baselines import SEARCHES, SHARED_BASELINES, make_baseline
from pmoss_env.baselines.exact import MOST_SCHEDULES
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError
from pmoss_env.policies import SchedulePolicy


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

        ``rows`` holds the rows of the evaluation. The opponents have ``shared``, throughputs and
        scores of schedules whose workers share slices: no actions lead to them; and ``absent``,
        who could not play and why. An agent has ``training`` and ``curve``, updates and validation
        score of each checkpoint; one that refuses the task or its data has ``refused`` alone.
        """
        if cell.agent == OPPONENTS:
            policies, absent = self._opponents(cell)
            rows = self._rows(cell, policies, EVALUATION_SEED)
            return {"rows": rows, "shared": self._shared(cell), "absent": absent}
        try:
            return self._learned(cell)
        except (CheckpointError, DatasetError, UnsupportedError) as error:
            # Results are shared: where the data lie here is nobody's business.
            reason = str(error).replace(f"{self._datasets[cell.track, cell.task]}: ", "")
            return {"refused": reason, "rows": []}

    def close(self) -> None:
        """Nothing is held."""

    def _opponents(self, cell: OfflineCell) -> tuple[dict[str, Any], dict[str, str]]:
        """The opponents that can play, and of the others why they cannot."""
        budget = self._plan.search_budget
        env = SpatialSchedulingEnv(**self._env(cell))
        env.reset(seed=0)
        context = env.context(np.random.default_rng(0))
        small = env.machine.workers.size**env.slices <= MOST_SCHEDULES
        env.close()
        policies: dict[str, Any] = {}
        absent: dict[str, str] = {}
        for name in self._plan.opponents:
            searches = name in SEARCHES
            if name == "exact" and not small:
                continue
            baseline = make_baseline(name, budget=budget if searches else None)
            try:
                if not searches and name != "exact":
                    baseline(context)
            except UnsupportedError as error:
                absent[name] = str(error)
            else:
                policies[name] = SchedulePolicy(baseline)
        return policies, absent

    def _shared(self, cell: OfflineCell) -> dict[str, list[list[float | None]]]:
        """Throughput (Mq/s) and score of the schedules that can be measured only, per episode."""
        seed = EVALUATION_SEED + cell.seed
        known = self._references[f"{cell.track}/{cell.task}"]
        found: dict[str, list[list[float | None]]] = {name: [] for name in SHARED_BASELINES}
        env = SpatialSchedulingEnv(**self._env(cell))
        for episode in range(self._plan.episodes):
            env_seed = episode_seed(seed, episode)
            env.reset(seed=env_seed)
            backend = env.session.new_backend()
            context = env.context(np.random.default_rng((env_seed, 2)))
            low, high = known[env_seed]
            for name in SHARED_BASELINES:
                schedule = make_baseline(name, shared=True)(context)
                throughput = backend.measure(schedule, seed=0).throughput
                score = 100 * (throughput - low) / (high - low) if high > low else None
                found[name].append([throughput, score])
            backend.close()
        env.close()
        return found

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
            policies = {name: PaddedAgent(agent) for name, agent in policies.items()}
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
            references=self._references.setdefault(f"{cell.track}/{cell.task}", {}),
        )
        return [asdict(row) for row in found.rows]


def to_rows(result: dict[str, Any]) -> list[EpisodeResult]:
    """The rows of a cell's result."""
    return [EpisodeResult(**{**row, "actions": tuple(row["actions"])}) for row in result["rows"]]


def _mean(scores: list[float | None]) -> float:
    # Where search finds nothing above random all schedules are alike.
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else 0.0

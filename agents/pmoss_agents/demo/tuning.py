"""The demo's second part: the agent that ships goes on learning from what the server logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pmoss_agents import OfflineAgent
from pmoss_agents import load as load_agent
from pmoss_agents.checkpoints import SUFFIX
from pmoss_agents.demo.plan import Plan, Progress
from pmoss_datasets import Recipe, collect
from pmoss_datasets.collection import partial_path
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import UnsupportedError

#: Below the demo's folder: the logged episodes, and the agent that learned from them.
FOLDER = "tuning"
DATA, CHECKPOINT = "data", "agent" + SUFFIX


def log_episodes(plan: Plan, folder: Path, progress: Progress) -> Dataset:
    """Episodes of the server as an operator has them: bad, plain and good schedules by rules."""
    path = folder / FOLDER / DATA
    # An earlier demo that was stopped may have planned otherwise.
    partial_path(path).unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(
        env=plan.env_kwargs,
        episodes=plan.logged_episodes,
        seed=plan.logged_seed,
        reference_episodes=0,
    )
    return collect(
        recipe,
        path,
        lambda done, total: progress("log schedules", done, total),
        overwrite=path.exists(),
    )


def fine_tune(plan: Plan, dataset: Dataset, folder: Path, progress: Progress) -> OfflineAgent[Any]:
    """The agent of the plan after some more updates on these data; its checkpoint is kept.

    Raises:
        UnsupportedError: the plan's agent learns from no data.
    """
    shipped = load_agent(plan.agent)
    if not isinstance(shipped, OfflineAgent):
        raise UnsupportedError(f"{plan.agent}: learns from no data")
    tuned = shipped.renewed(updates=plan.updates, learning_rate=plan.learning_rate)

    def updated(done: int, total: int, metrics: object) -> None:
        progress("fine-tune the agent", done, total)

    tuned.fit(dataset, progress=updated)
    tuned.save(folder / FOLDER / CHECKPOINT)
    return tuned

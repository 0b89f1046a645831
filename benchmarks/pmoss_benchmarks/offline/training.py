"""Training one agent of the benchmark, and keeping what it became on the way."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents import Agent, OfflineAgent, OnlineAgent
from pmoss_datasets import open_dataset
from pmoss_datasets.folder import whole_folder
from pmoss_env.files import read_json

_FACTS = "training.json"


@dataclass(frozen=True)
class Trained:
    """An agent's checkpoints and how it got there.

    Attributes:
        folder: holds them.
        agent: its name, or ``module:Class``.
        updates: of each checkpoint, ascending; the last one is the end of training.
        seconds: CPU time of training, without what saving took.
        metrics: of the last update.
        source: the data: their id and checksum, or the environment and its steps or updates.
    """

    folder: Path
    agent: str
    updates: tuple[int, ...]
    seconds: float
    metrics: Mapping[str, float]
    source: Mapping[str, Any]

    def load(self, number: int) -> Agent:
        """The agent as it was at a checkpoint, by its place in ``updates``."""
        path = self.folder / f"{number}.safetensors"
        # What an earlier version trained was kept in .npz files.
        return pmoss_agents.load(path if path.exists() else path.with_suffix(".npz"), self.agent)


def trained(
    folder: Path,
    agent: str,
    config: Mapping[str, Any],
    *,
    dataset: Path | None,
    env: Mapping[str, Any],
    checkpoints: int,
) -> Trained:
    """The agent as it lies in ``folder``, or trained and kept there: whole or not at all.

    Args:
        folder: of this agent, config and data alone.
        agent: its name, or ``module:Class``.
        config: all of it, the seed too.
        dataset: of an agent that learns offline; else None.
        env: arguments of the environment, for an agent that learns online.
        checkpoints: how many to keep, evenly spaced.

    Raises:
        PmossError: the agent refuses the data or the environment.
    """
    if not (folder / _FACTS).exists():
        with whole_folder(folder) as temporary:
            _train(temporary, agent, config, dataset, env, checkpoints)
    facts = read_json(folder / _FACTS)
    return Trained(folder, agent, tuple(facts.pop("updates")), **facts)


def _train(
    folder: Path,
    name: str,
    config: Mapping[str, Any],
    dataset: Path | None,
    env: Mapping[str, Any],
    checkpoints: int,
) -> None:
    agent = pmoss_agents.make(name, **config)
    updates: list[int] = []
    saving = 0.0

    def keep(done: int, total: int, metrics: Mapping[str, float]) -> None:
        nonlocal saving
        if done < total and done >= math.ceil(total * (len(updates) + 1) / checkpoints):
            began = time.process_time()
            agent.save(folder / f"{len(updates)}.safetensors")
            updates.append(done)
            saving += time.process_time() - began
        last[0] = done

    last = [0]
    began = time.process_time()
    if isinstance(agent, OnlineAgent):
        metrics = agent.fit(env, progress=keep)
        # Some count what they played, all count what they learned.
        counted = {"steps": int(metrics["steps"])} if "steps" in metrics else {}
        source: dict[str, Any] = {"env": dict(env), **(counted or {"updates": agent.updates})}
    else:
        assert isinstance(agent, OfflineAgent) and dataset is not None
        data = open_dataset(dataset)
        metrics = agent.fit(data, progress=keep)
        source = {"id": data.metadata.id, "checksum": data.checksum, "episodes": len(data)}
    seconds = time.process_time() - began - saving
    agent.save(folder / f"{len(updates)}.safetensors")
    updates.append(last[0])
    facts = {"updates": updates, "seconds": seconds, "metrics": metrics, "source": source}
    (folder / _FACTS).write_text(json.dumps(facts))

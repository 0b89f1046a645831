"""Training agents of studies, once, and keeping what they became.

trained() keeps the end of a training, by what it learned from. kept_training() keeps
checkpoints on the way, too. Agents that learn by playing may take hours: a training that was
interrupted goes on with what it left in a folder beside the one it fills.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents import Agent, OfflineAgent, OnlineAgent
from pmoss_agents.checkpoints import SUFFIX
from pmoss_agents.conditions import conditions_of
from pmoss_agents.registry import agent_class
from pmoss_agents.training_log import TrainingLog, means_of_windows, read_log
from pmoss_datasets import Dataset, open_dataset
from pmoss_datasets.folder import whole_folder
from pmoss_datasets.several import Several
from pmoss_env.files import read_json

_FACTS = "training.json"
#: Points of the stored curve of an agent that learns by playing, at most.
_POINTS = 100


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
        played: of an agent that learns by playing: means of the metrics over up to ``_POINTS``
            windows of updates, with the CPU seconds so far.
        conditions: of an agent that learns from data: what decides the bits of its training.
    """

    folder: Path
    agent: str
    updates: tuple[int, ...]
    seconds: float
    metrics: Mapping[str, float]
    source: Mapping[str, Any]
    played: Sequence[Mapping[str, float]] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def load(self, number: int) -> Agent:
        """The agent as it was at a checkpoint, by its place in ``updates``."""
        return pmoss_agents.load(self.folder / f"{number}.safetensors", self.agent)


def folder_name(agent: str, config: Mapping[str, Any]) -> str:
    """A folder's name that the agent, its whole config and its code decide."""
    facts = repr([sorted(config.items()), _code_of(agent)])
    return f"{agent.replace(':', '-')}-{zlib.crc32(facts.encode()):08x}"


def _code_of(agent: str) -> dict[str, str]:
    """Digests of the code that trains an agent, by folder."""
    digests: dict[str, str] = conditions_of(agent_class(agent).__module__)["code"]["digests"]
    return digests


def kept_training(
    folder: Path,
    agent: str,
    config: Mapping[str, Any],
    *,
    dataset: Path | None,
    env: Mapping[str, Any],
    checkpoints: int,
    start: str = "",
) -> Trained:
    """The agent as it lies in ``folder``, or trained and kept there: whole or not at all.

    Args:
        folder: of this agent, config and data alone.
        agent: its name, or ``module:Class``.
        config: all of it, the seed too.
        dataset: of an agent that learns offline; else None.
        env: arguments of the environment, for an agent that learns online.
        checkpoints: how many to keep, evenly spaced.
        start: an agent that ships, with whose weights an agent that learns offline begins.

    Raises:
        PmossError: the agent refuses the data or the environment.
    """
    begun = folder.with_name(f"{folder.name}.begun")
    if not (folder / _FACTS).exists():
        with whole_folder(folder) as temporary:
            if agent_class(agent).learns == "online":
                facts = _play(temporary, begun, agent, config, env, checkpoints)
            else:
                assert dataset is not None
                facts = _learn(temporary, agent, config, dataset, checkpoints, start)
            (temporary / _FACTS).write_text(json.dumps(facts))
    # An earlier call may have been killed before it came to this.
    shutil.rmtree(begun, ignore_errors=True)
    facts = read_json(folder / _FACTS)
    return Trained(folder, agent, tuple(facts.pop("updates")), **facts)


def _due(done: int, total: int, checkpoints: int) -> bool:
    """Whether an update that is not the last one is kept."""
    return done < total and done * checkpoints // total > (done - 1) * checkpoints // total


def _learn(
    folder: Path, name: str, config: Mapping[str, Any], dataset: Path, checkpoints: int, start: str
) -> dict[str, Any]:
    """Learns from data; returns the facts."""
    agent = pmoss_agents.load(start, name) if start else pmoss_agents.make(name, **config)
    assert isinstance(agent, OfflineAgent)
    if start:
        agent = agent.renewed(**config)
    updates: list[int] = []
    last, saving = 0, 0.0

    def keep(done: int, total: int, metrics: Mapping[str, float]) -> None:
        nonlocal last, saving
        if _due(done, total, checkpoints):
            began = time.process_time()
            agent.save(folder / f"{len(updates)}.safetensors")
            updates.append(done)
            saving += time.process_time() - began
        last = done

    began = time.process_time()
    data = open_dataset(dataset)
    metrics = agent.fit(data, progress=keep)
    seconds = time.process_time() - began - saving
    agent.save(folder / f"{len(updates)}.safetensors")
    source = {"id": data.metadata.id, "checksum": data.checksum, "episodes": len(data)}
    return {
        "updates": [*updates, last],
        "seconds": seconds,
        "metrics": metrics,
        "source": source,
        # The report names the code.
        "conditions": {key: fact for key, fact in agent.training.items() if key != "code"},
    }


def _play(
    folder: Path,
    begun: Path,
    name: str,
    config: Mapping[str, Any],
    env: Mapping[str, Any],
    checkpoints: int,
) -> dict[str, Any]:
    """Learns by playing, from where an earlier call was interrupted; returns the facts."""
    checkpoint, log_path = begun / "last.safetensors", begun / "log.jsonl"
    if checkpoint.exists():
        agent = pmoss_agents.load(checkpoint, name)
    else:
        begun.mkdir(parents=True, exist_ok=True)
        agent = pmoss_agents.make(name, **config)
    assert isinstance(agent, OnlineAgent)
    log = TrainingLog(log_path, agent.updates)

    def keep(done: int, total: int, metrics: Mapping[str, float]) -> None:
        log(done, total, metrics)
        if _due(done, total, checkpoints):
            agent.save(begun / f"{done}.safetensors")

    metrics = agent.fit(env, progress=keep, checkpoint=checkpoint)
    kept = sorted(int(path.stem) for path in begun.glob("*.safetensors") if path != checkpoint)
    for number, update in enumerate(kept):
        shutil.copy(begun / f"{update}.safetensors", folder / f"{number}.safetensors")
    agent.save(folder / f"{len(kept)}.safetensors")
    # Some count what they played, all count what they learned.
    counted = {"steps": int(metrics["steps"])} if "steps" in metrics else {}
    return {
        "updates": [*kept, agent.updates],
        "seconds": log.cpu_seconds,
        "metrics": metrics,
        "source": {"env": dict(env), **(counted or {"updates": agent.updates})},
        "played": means_of_windows(read_log(log_path), _POINTS),
    }


def trained(
    name: str,
    config: Mapping[str, Any],
    data: Sequence[Dataset],
    folder: str | Path,
    begun: Path | None = None,
) -> Path:
    """The checkpoint of an agent that learned from data; trained where it is not there yet.

    Another configuration, other data or other code make another file. Read the agent from it in any
    case: what was trained now and before then acts alike. ``begun`` is the checkpoint of another
    training, whose weights it begins with.
    """
    facts = [name, dict(config), [part.checksum for part in data], _code_of(name)]
    facts += [begun.name] if begun is not None else []
    text = json.dumps(facts, sort_keys=True)
    path = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{SUFFIX}"
    if not path.exists():
        agent = pmoss_agents.make(name, **config)
        if begun is not None:
            before: Any = pmoss_agents.load(begun, name)
            agent = before.renewed(**config)
        assert isinstance(agent, OfflineAgent)
        agent.fit(data[0] if len(data) == 1 else Several(data))
        path.parent.mkdir(parents=True, exist_ok=True)
        agent.save(path)
    return path

"""Agents trained for a benchmark: kept by what they learned from, and found again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pmoss_agents
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.checkpoints import SUFFIX
from pmoss_datasets import Dataset
from pmoss_datasets.several import Several


def trained(
    name: str, config: Mapping[str, Any], data: Sequence[Dataset], folder: str | Path
) -> Path:
    """The checkpoint of an agent that learned from data; trained where it is not there yet.

    Another configuration or other data make another file. Read the agent from it in any case: what
    was trained now and before then acts alike.

    Args:
        name: of the agent.
        config: all its settings.
        data: datasets to learn from.
        folder: of the checkpoints.
    """
    text = json.dumps([name, dict(config), [part.checksum for part in data]], sort_keys=True)
    path = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{SUFFIX}"
    if not path.exists():
        agent = pmoss_agents.make(name, **config)
        assert isinstance(agent, OfflineAgent)
        agent.fit(data[0] if len(data) == 1 else Several(data))
        path.parent.mkdir(parents=True, exist_ok=True)
        agent.save(path)
    return path

"""Making what ships of a trained agent: its weights, and a card from the results that it earned.

What ships learned from made-up worlds, as the generalist does. The score is that of stored results,
and only of these very weights: their checksum stands in the rows.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import asdict
from pathlib import Path

import numpy as np

import pmoss_agents
from pmoss_agents import Agent, OfflineAgent, checkpoints, pretrained
from pmoss_agents.configs import has_config, task_name
from pmoss_benchmarks.study.store import StoredStudy, read_stored
from pmoss_datasets.catalog import open_data
from pmoss_datasets.evaluation.statistics import paired_difference
from pmoss_datasets.spatial.world_sets import WorldSet
from pmoss_env.errors import DatasetError

LICENCE = "Apache-2.0"


def publish(
    checkpoint: Path, dataset: Path, results: Path, out: Path, name: str
) -> pretrained.Card:
    """Writes the weights of a trained agent and its card.

    Args:
        checkpoint: of an agent that learned offline.
        dataset: folder of the worlds that it learned from.
        results: rows of a study of ``trainings`` that name the weights as they ship.
        out: folder for ``name.safetensors`` and ``name.json``.
        name: without "pmoss/".

    Raises:
        DatasetError: the data or the results are not those of this agent.
        CheckpointError: the checkpoint is damaged, or too large.
    """
    agent, (_, data) = pmoss_agents.load(checkpoint), open_data(dataset)
    if not isinstance(data, WorldSet):
        raise DatasetError(f"{dataset}: holds no made-up worlds: what ships learns from these")
    if not isinstance(agent, OfflineAgent) or agent.dataset.get("checksum") != data.checksum:
        raise DatasetError(f"{checkpoint}: did not learn from {dataset}: its checksum is another")
    path = out / (name + checkpoints.SUFFIX)
    aside = path.with_suffix(f".part{checkpoints.SUFFIX}")
    header, _ = checkpoints.read(checkpoint)
    stored = read_stored(results)
    try:
        pretrained.slim(checkpoint, aside)
        content = aside.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        score = _score(sha256, stored)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    card = pretrained.Card(
        name=pretrained.PREFIX + name,
        agent=agent.name,
        domain=agent.domain,
        env={},
        dataset={"id": data.id, "checksum": data.checksum, "worlds": len(data)},
        seed=int(agent.config.seed),
        updates=agent.updates,
        score=score,
        commands=(
            f"pmoss data worlds {dataset} --split {data.recipe.split} --count {len(data)}",
            _training_command(agent, data, dataset, checkpoint),
            f"pmoss study run {stored.study}",
            shlex.join(
                [
                    *("pmoss", "dev", "pretrained", str(checkpoint), str(dataset)),
                    *(str(results), "--name", name, "--out", str(out)),
                ]
            ),
        ),
        licence=LICENCE,
        code_version=str(header["code_version"]),
        size=len(content),
        sha256=sha256,
    )
    pretrained.write_card(path.with_suffix(pretrained.CARD), card)
    return card


def _score(sha256: str, stored: StoredStudy) -> pretrained.Score:
    """The mean score in the named worlds of a study, with its interval."""
    rows = [row for row in stored.rows if row.get("checkpoint") == sha256 and "/" in row["world"]]
    if not rows:
        raise DatasetError(f"{stored.path}: has no rows of the weights {sha256[:12]}")
    scores = np.array([next(iter(row["policies"].values()))["scores"] for row in rows])
    budget = stored.settings["budget"]
    unit = f"of 100, what searches of {budget:,} evaluations or more reach, in {len(rows)} worlds"
    mean = paired_difference(scores.mean(1)[None])
    assert mean.low is not None and mean.high is not None
    where = stored.path.as_posix()
    return pretrained.Score(mean.value, mean.low, mean.high, unit, scores.size, where)


def _training_command(agent: Agent, data: WorldSet, folder: Path, out: Path) -> str:
    """What trains the agent, with every field that its committed config does not say."""
    config_file = agent.name if has_config(agent.name) else None
    usual = asdict(
        pmoss_agents.make(agent.name, config_file=config_file, task=task_name(data.id)).config
    )
    words = ["pmoss", "train", agent.name, str(folder), str(out)]
    for key, value in asdict(agent.config).items():
        if value != usual[key]:
            words += ["--set", f"{key}={value}"]
    return shlex.join(words)

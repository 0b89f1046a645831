"""Making what ships of a trained agent: its weights, and a card from the results that it earned.

The score is that of stored results, and only of the very agent: it must play some of their episodes
again, action by action. Of the study continual the checkpoint's checksum says as much.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import pmoss_agents
from pmoss_agents import Agent, OfflineAgent, checkpoints, pretrained
from pmoss_agents.configs import has_config, task_name
from pmoss_benchmarks.functions.continual import summarise
from pmoss_benchmarks.offline.episodes import actions_of, world_of
from pmoss_benchmarks.study.store import StoredStudy, read_stored
from pmoss_datasets import Dataset
from pmoss_datasets.catalog import open_data
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation.statistics import paired_difference
from pmoss_datasets.fairness import check_policy
from pmoss_datasets.spatial.world_sets import WorldSet
from pmoss_datasets.suite import suite_ids
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array

LICENCE = "Apache-2.0"
#: Of the stored episodes so many are played again.
_PLAYED = 3
_TRACK = "same-task"


def publish(
    checkpoint: Path, dataset: Path, results: Path, out: Path, name: str
) -> pretrained.Card:
    """Writes the weights of a trained agent and its card.

    Args:
        checkpoint: of an agent that learned offline.
        dataset: folder of the data that it learned from.
        results: rows of a study in which policies play, or of the study continual.
        out: folder for ``name.safetensors`` and ``name.json``.
        name: without "pmoss/".

    Raises:
        DatasetError: the data or the results are not those of this agent.
        CheckpointError: the checkpoint is damaged, or too large.
    """
    agent, (_, data) = pmoss_agents.load(checkpoint), open_data(dataset)
    if not isinstance(agent, OfflineAgent) or agent.dataset.get("checksum") != data.checksum:
        raise DatasetError(f"{checkpoint}: did not learn from {dataset}: its checksum is another")
    path = out / (name + checkpoints.SUFFIX)
    if isinstance(data, WorldSet):  # its rows name the weights as they ship
        pretrained.slim(checkpoint, path)
        score, command = _of_worlds(path, results)
        env, size = {}, {"worlds": len(data)}
    else:
        env, size = dict(data.metadata.env_kwargs), {"episodes": len(data)}
        score, command = (
            _of_continual(checkpoint, results)
            if agent.domain == "continual"
            else _of_offline(agent, data, results)
        )
        pretrained.slim(checkpoint, path)
    header, _ = checkpoints.read(checkpoint)
    content = path.read_bytes()
    card = pretrained.Card(
        name=pretrained.PREFIX + name,
        agent=agent.name,
        domain=agent.domain,
        env=env,
        dataset={"id": data.id, "checksum": data.checksum, **size},
        seed=int(agent.config.seed),
        updates=agent.updates,
        score=score,
        commands=(
            *_data_commands(data, dataset),
            _training_command(agent, data, dataset, checkpoint),
            command,
            shlex.join(
                [
                    *("pmoss", "dev", "pretrained", str(checkpoint), _word(data, dataset)),
                    *(str(results), "--name", name, "--out", str(out)),
                ]
            ),
        ),
        licence=LICENCE,
        code_version=str(header["code_version"]),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    pretrained.write_card(path.with_suffix(pretrained.CARD), card)
    return card


def _of_offline(agent: Agent, data: Dataset, path: Path) -> tuple[pretrained.Score, str]:
    """The agent's score in a study in which policies play, and the command that plays it."""
    stored = read_stored(path)
    for row in stored.rows:
        training = row.get("training") or {}
        source = training.get("source", {})
        facts = row.get("track"), row["policy"], row.get("seed"), source.get("checksum")
        if facts == (_TRACK, agent.name, agent.config.seed, data.checksum):
            break
    else:
        raise DatasetError(f"{path}: has no row of {agent.name} with this seed and these data")
    made = pmoss_agents.make(agent.name, **{**training["config"], "seed": row["seed"]})
    if asdict(made.config) != asdict(agent.config):
        raise DatasetError(f"{path}: its {agent.name} had another config: {training['config']}")
    played = row["played"][agent.name]
    _play_again(agent, row, path)
    scores = np.array([score for score in played["score"] if score is not None])
    budget = stored.settings.get("long_search") or stored.settings["search_budget"]
    unit = f"of 100, what a search of {budget:,} evaluations reaches; random schedules: 0"
    return _score(scores, unit, len(scores), stored)


def _score(
    values: Float64Array, unit: str, episodes: int, stored: StoredStudy
) -> tuple[pretrained.Score, str]:
    """The mean of (n,) values with its interval, and the command that plays for it."""
    mean = paired_difference(values[None])
    assert mean.low is not None and mean.high is not None
    where = stored.path.as_posix()
    score = pretrained.Score(mean.value, mean.low, mean.high, unit, episodes, where)
    return score, f"pmoss study run {stored.study}"


def _play_again(agent: Agent, row: Mapping[str, Any], path: Path) -> None:
    """Refuses rows that are not of this agent: DatasetError."""
    domain = find_domain(agent.domain)
    played = row["played"][agent.name]
    stored = list(zip(played["env_seed"], actions_of(played), strict=True))
    env = domain.make_env(world_of(row))
    judge = domain.judge(env)
    try:
        check_policy(agent, env)
        for number in range(0, len(stored), max(1, len(stored) // _PLAYED)):
            env_seed, actions = stored[number]
            env.reset(seed=env_seed)
            judge.begin()
            if domain.play(env, agent, env_seed, judge).actions != actions:
                raise DatasetError(f"{path}: episode {number}: this agent acts otherwise")
    finally:
        env.close()
        judge.close()


def _of_continual(checkpoint: Path, path: Path) -> tuple[pretrained.Score, str]:
    """The agent's share of the best law oracle in a study, and the command that plays it."""
    stored = read_stored(path)
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    own = next((row for row in stored.rows if row.get("checkpoint") == digest), None)
    if own is None:
        raise DatasetError(f"{path}: has no agent of the checkpoint {checkpoint}")
    task = summarise(stored.settings, stored.rows)
    # Only the thorough one is a bound for an agent that searches thoroughly.
    law = "thorough-law-oracle" if "thorough-law-oracle" in task["policies"] else "law-oracle"
    shares = 100.0 * np.array(own["outcomes"]) / task["outcomes"][law]
    unit = f"% of what the {law.replace('-', ' ')} serves on {task['drift']}"
    return _score(shares, unit, len(shares), stored)


def _of_worlds(weights: Path, path: Path) -> tuple[pretrained.Score, str]:
    """The mean score in the named worlds of a study, and the command that plays in them."""
    stored = read_stored(path)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    own = [row for row in stored.rows if row.get("checkpoint") == digest and "/" in row["world"]]
    if not own:
        raise DatasetError(f"{path}: has no rows of the weights of {weights}")
    scores = np.array([next(iter(row["policies"].values()))["scores"] for row in own])
    budget = stored.settings["budget"]
    unit = f"of 100, what a search of {budget:,} evaluations reaches, in {len(own)} worlds"
    return _score(scores.mean(1), unit, scores.size, stored)


def _data_commands(data: Dataset | WorldSet, folder: Path) -> tuple[str, ...]:
    """What makes the data."""
    if isinstance(data, WorldSet):
        return (f"pmoss data worlds {folder} --split {data.recipe.split} --count {len(data)}",)
    if data.id in suite_ids():
        return (f"pmoss data build {data.id}",)
    recipe = data.metadata.recipe
    words = ["pmoss", "data", "collect", str(folder), "--domain", str(data.metadata.domain)]
    behaviours = recipe.get("behaviours") or []
    if len(behaviours) == 1:
        words.insert(4, str(behaviours[0]["policy"]))
    for key, value in data.metadata.env_kwargs.items():
        words += ["-e", f"{key}={value}"]
    return (shlex.join([*words, "--episodes", str(len(data)), "--seed", str(data.metadata.seed)]),)


def _training_command(agent: Agent, data: Dataset | WorldSet, folder: Path, out: Path) -> str:
    """What trains the agent, with every field that its committed config does not say."""
    config_file = agent.name if has_config(agent.name) else None
    usual = asdict(
        pmoss_agents.make(agent.name, config_file=config_file, task=task_name(data.id)).config
    )
    words = ["pmoss", "train", agent.name, _word(data, folder), str(out)]
    for key, value in asdict(agent.config).items():
        if value != usual[key]:
            words += ["--set", f"{key}={value}"]
    return shlex.join(words)


def _word(data: Dataset | WorldSet, folder: Path) -> str:
    """How commands name the data."""
    return data.id if data.id in suite_ids() else str(folder)

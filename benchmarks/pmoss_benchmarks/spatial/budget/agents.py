"""Agents of the benchmark of budgets: trained as the offline benchmark trains them, or loaded."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from pmoss_agents import find_policy
from pmoss_agents.registry import agent_class
from pmoss_benchmarks.offline.plan import Plan, config_of, digest, recipe_of
from pmoss_benchmarks.offline.training import trained
from pmoss_datasets.policies import Policy
from pmoss_datasets.suite import load_task, obtain
from pmoss_env.errors import DescriptionError


@dataclass(frozen=True)
class Agents:
    """Gives the agent of a task and training seed; it can be sent to other processes.

    Attributes:
        plan: of the offline benchmark: tier of the data and configs.
        data: folder that datasets are kept in.
        folder: that trained agents are kept in.
        files: by name, a checkpoint's path in which ``{task}`` and ``{seed}`` are replaced; agents
            of other names are trained.
    """

    plan: Plan
    data: Path
    folder: Path
    files: Mapping[str, str]

    def __call__(self, name: str, task: str, seed: int) -> Policy:
        """The agent, trained now if it was not before."""
        if name in self.files:
            return find_policy(self._file(name, task, seed))
        track = "same-task"
        config = config_of(self.plan, name, task)
        seeded = any(field.name == "seed" for field in fields(agent_class(name).Config))
        recipe = recipe_of(self.plan, track, task)
        offline = agent_class(name).learns == "offline"
        run = trained(
            self.folder / track / task / f"{name}-{seed}-{digest(self.plan, track, name, task)}",
            name,
            {**config, "seed": seed} if seeded else config,
            dataset=obtain(recipe, self.data / recipe.id).path if offline else None,
            env=load_task(task).env,
            checkpoints=self.plan.checkpoints,
        )
        return run.load(len(run.updates) - 1)

    def identity(self, name: str, task: str, seed: int) -> str:
        """What decides the agent: its config and data, the bytes of its checkpoint, or its name."""
        if name in self.files:
            word = self._file(name, task, seed)
            path = Path(word.rpartition("@")[2])
            return f"{zlib.crc32(path.read_bytes()):08x}" if path.is_file() else word
        return digest(self.plan, "same-task", name, task)

    def _file(self, name: str, task: str, seed: int) -> str:
        return self.files[name].replace("{task}", task).replace("{seed}", str(seed))


def parse_agents(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Names, and the files of those that were given as NAME=FILE.

    Raises:
        DescriptionError: a name that cannot stand in a row's name, or one that is given twice.
    """
    names, files = [], {}
    for word in words:
        name, _, file = word.partition("=")
        if "/" in name or not name or name in names:
            raise DescriptionError(
                f"agent {word!r}: must be a name from `pmoss agents list`, or NAME=FILE, each name "
                "once"
            )
        names.append(name)
        if file:
            files[name] = file
        else:
            agent_class(name)
    return names, files

"""The schedules that learned policies give where a statement of P-MOSS asks for one.

Four kinds, each beside the fixed files that the authors' data replay:

- ``files``: the logged schedules themselves, with what was logged of each.
- ``network``: the full-size network of the study ``authors``, where one plays.
- ``surrogate``: learned from the files of the same server.
- ``generalist``: shipped, and shown the counters of one schedule of a server that it never met.

The study ``declared`` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import pmoss_agents
from pmoss_agents.checkpoints import SUFFIX
from pmoss_benchmarks.functions import authors
from pmoss_benchmarks.functions.declared import KINDS, SETTING, pairs
from pmoss_benchmarks.offline.episodes import actions_of, pack_episodes, unpack_episodes
from pmoss_benchmarks.spatial.author_networks import (
    USUAL,
    data_of,
    files_of,
    kept_network,
    stem_of,
    usual_answers,
)
from pmoss_benchmarks.study.function import Cell, Count, Progress, Row, Run, settings_of, silent
from pmoss_benchmarks.study.store import StoredStudy, read_stored
from pmoss_benchmarks.study.store import file_of as results_of
from pmoss_benchmarks.validation.laboratory import Laboratory
from pmoss_datasets.domain import find_domain
from pmoss_datasets.several import Several
from pmoss_env.machines import load_machine
from pmoss_env.workloads import load_workload

#: Where the pages say why a kind gave no schedule.
UNSEEN = "no files of this server"
NOT_TRAINED = "no network of this server"
NOT_KEPT = "the weights of its network were not kept"


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        pairs: servers and workloads, "SERVER WORKLOAD"; none: all that a statement asks about.
        servers: that have files. The others are those that the paper never trained on.
        authors: the study whose files and networks are taken.
        changes: of its settings.
        generalist: name of the shipped agent.
        surrogate: fields that override the surrogate's usual config.
        episodes: that the surrogate and the generalist play of each pair.
    """

    AXES: ClassVar = ("pairs",)

    pairs: tuple[str, ...] = ()
    servers: tuple[str, ...] = (
        *("skylake-x-8n", "milan-nps4", "milan-nps1", "sandy-bridge", "grace-hopper"),
    )
    authors: str = "authors"
    changes: dict[str, Any] = field(default_factory=dict)
    generalist: str = "pmoss/generalist-v1"
    surrogate: dict[str, Any] = field(default_factory=dict)
    episodes: Count = 4


def cells(settings: Settings) -> list[Cell]:
    """Every pair."""
    chosen = settings.pairs or [" ".join(pair) for pair in pairs()]
    return [dict(zip(("machine", "workload"), pair.split(" "), strict=True)) for pair in chosen]


def prepare(run: Run, progress: Progress) -> None:
    """Makes the files and trains the surrogates, as far as that was not done."""
    for machine in dict.fromkeys(cell["machine"] for cell in cells(run.settings)):
        if machine in run.settings.servers:
            _surrogate(run, machine, progress)


def measure(run: Run, cell: Cell) -> Row:
    """The schedules of a pair.

    Returns:
        ``schedules``: by kind the packed tiles of each. ``served``: by kind what each serves in the
        declared setting, Mq/s. ``logged``: of each file the mean that was logged. ``log``: the
        workload of that log; the first one where this one is in no data. ``missing``: by kind why
        it has no schedules.
    """
    settings, machine, workload = run.settings, cell["machine"], cell["workload"]
    tiles: dict[str, Any] = {}
    row: dict[str, Any] = {"missing": {}, "logged": [], "log": ""}
    if machine in settings.servers:
        _, theirs = _study(run)
        row["log"], cores, row["logged"] = files_of(theirs, machine, SETTING["load"], workload)
        tiles["files"] = load_machine(machine).tile_of_core[cores]
        tiles["surrogate"] = _plans(settings, cell, _surrogate(run, machine))
    else:
        row["missing"] = dict.fromkeys(("files", "surrogate"), UNSEEN)
    tiles["generalist"] = _plans(settings, cell, pmoss_agents.load(settings.generalist))
    answer = _network_answers(run, machine, workload)
    if isinstance(answer, str):
        row["missing"]["network"] = answer
    else:
        tiles["network"] = answer
    schedules = {kind: pack_episodes(tiles[kind]) for kind in KINDS if kind in tiles}
    return {**row, "schedules": schedules, "served": _served(cell, schedules)}


def again(run: Run, row: Row) -> Row:
    """Measures the stored schedules again."""
    return {"served": _served(row, row["schedules"])}


def _served(cell: Mapping[str, Any], schedules: Mapping[str, Any]) -> dict[str, list[float]]:
    """By kind what each schedule serves in the declared setting, Mq/s."""
    machine, served = load_machine(cell["machine"]), {}
    with closing(Laboratory(**SETTING)) as laboratory:
        place = ("analytic", cell["machine"], cell["workload"], laboratory.load)
        backend = laboratory.backend(*place)
        for kind, packed in schedules.items():
            cores = [machine.core_of_tile[list(tiles)] for tiles in unpack_episodes(packed)]
            measured = [backend.measure(machine.local_schedule(c), seed=0) for c in cores]
            served[kind] = [snapshot.throughput for snapshot in measured]
    return served


def _study(run: Run) -> tuple[StoredStudy, Run]:
    """The stored rows of the study that has the networks, and a run of it."""
    stored = read_stored(results_of(run.results, run.settings.authors))
    values = {**stored.settings, "machines": (), **run.settings.changes}
    return stored, replace(run, settings=settings_of(authors, values))


def _surrogate(run: Run, machine: str, progress: Progress = silent) -> Any:
    """The surrogate of a machine, trained where it is not kept."""
    _, theirs = _study(run)
    path = run.keep / "answers" / f"surrogate-{stem_of(theirs, machine, 0).name}{SUFFIX}"
    if path.exists():
        agent: Any = pmoss_agents.load(path, "surrogate")
    else:
        agent = pmoss_agents.make("surrogate", **run.settings.surrogate)
    if agent.updates >= agent.config.updates:
        return agent
    path.parent.mkdir(parents=True, exist_ok=True)
    agent.fit(
        Several(data_of(theirs, machine, progress)),
        progress=lambda done, total, metrics: progress(f"surrogate {machine}", done, total),
        checkpoint=path,
    )
    return agent


def _plans(settings: Settings, cell: Mapping[str, Any], agent: Any) -> Any:
    """(episodes, slices) tiles that an agent chooses in the declared setting."""
    domain, workload = find_domain("spatial"), load_workload(cell["workload"])
    options = {"overhead_cycles": SETTING["overhead_cycles"], **SETTING["switches"]}
    env_kwargs = {
        **{"machine": cell["machine"], "workload": workload.name, "index": workload.index},
        **{"load": SETTING["load"], "slices": 256, "workload_seed": SETTING["seed"]},
        **{"noise": 1.0, "backend_options": options},
    }
    with closing(domain.make_env(env_kwargs)) as env:
        return np.array([domain.play(env, agent, s).actions for s in range(settings.episodes)])


def _network_answers(run: Run, machine: str, workload: str) -> Any:
    """(answers, slices) tiles of the network of a machine, or why there are none."""
    stored, theirs = _study(run)
    mine = [row for row in stored.rows if row["machine"] == machine]
    for row in mine:
        if (row["load"], row["workload"]) == (SETTING["load"], workload) and row["networks"]:
            plays = row["networks"][0]["plays"]
            return [tiles for play in plays if _is_usual(play) for tiles in actions_of(play)]
    if not mine:
        return NOT_TRAINED
    config = next(training["config"] for row in mine for training in row["trainings"])
    agent = kept_network(theirs, machine, config)
    if agent is None:
        return NOT_KEPT
    # It plays on the CPU, whatever it learned on.
    agent.config = replace(agent.config, device="cpu", precision="float32")
    return usual_answers(theirs.settings, agent, machine, workload)


def _is_usual(play: Mapping[str, Any]) -> bool:
    """Whether a play answers the usual question, drawn within the paper's limit."""
    asked = (play["keys"], play["wanted"], play["sampled"]) == ("logged", USUAL, True)
    return asked and play["limit"] > 0

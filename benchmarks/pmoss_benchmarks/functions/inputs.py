"""What an agent of made-up worlds reads, and where its model of throughput is wrong.

Attribution says on which inputs the gain rests that the model foresees of its plan. Ablation takes
one input away, plans again and scores the plan. And schedules run, so that the times that the model
foresees stand beside those that were measured, by the load of each node's memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

import pmoss_agents
from pmoss_agents import pretrained
from pmoss_agents.explaining import Run as Ran
from pmoss_agents.explaining import compare
from pmoss_agents.explaining.inputs import attribute, inputs_of, without
from pmoss_agents.pytorch import torch
from pmoss_agents.spatial.generalist import Generalist
from pmoss_agents.spatial.planning.mixing import MixingModel
from pmoss_agents.spatial.planning.model import ELAPSED, QUERIES
from pmoss_agents.weights import torch_threads
from pmoss_benchmarks.functions.references import SEED
from pmoss_benchmarks.study.function import Cell, Count, Figure, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, interval
from pmoss_datasets.evaluation import episode_seed, paired_difference
from pmoss_datasets.spatial.scoring import SpatialJudge
from pmoss_datasets.spatial.worlds import cache_mib_of
from pmoss_env.baselines import make_baseline
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.observation import observed_counters
from pmoss_env.machines import Machine, load_machine
from pmoss_env.pictures import new_figure
from pmoss_env.types import Float64Array, Instance, Schedule

#: Slices of every world.
SLICES = 256
#: The agent's plan; and what ablation compares with, where nothing is taken away.
PLAN, WHOLE = "agent", "nothing"
#: A node's memory is near its bandwidth from this share on, of the index and co-tenants together.
FULL = 0.9
#: A schedule asks more of a memory than the incumbent if the share grows by this much.
MORE = 0.02
#: Nodes that spend a smaller share of the time are left out: their times say little.
_LEAST_SHARE = 0.02
#: Attribution is a sum of float32 products, which processors round in different orders.
TOLERANCES = {"attribution": 1e-3}


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        worlds: machine, workload and family of co-tenants of each. All together give the usual size
            of caches, which takes the place of the machine's.
        agent: that ships.
        rules: whose schedules run beside the agent's plan.
        episodes: in each world.
        changes: fields that override the agent's config for all plans that ablation compares, so
            that many can be made.
        steps: of the attribution.
        budget: evaluations of the search that scores 100.
    """

    worlds: tuple[tuple[str, str, str], ...]
    agent: str = "pmoss/generalist-v1"
    rules: tuple[str, ...] = ("best-fit", "greedy-marginal", "lpt", "two-level", "grouped")
    episodes: Count = 2
    changes: dict[str, Any] = field(default_factory=dict)
    steps: Count = 16
    budget: Count = 2000


def cells(settings: Settings) -> list[Cell]:
    """The worlds."""
    keys = ("machine", "workload", "interference")
    return [dict(zip(keys, world, strict=True)) for world in settings.worlds]


class Work:
    """Explains in one world after the other; the agent is read once."""

    def __init__(self, run: Run) -> None:
        self._settings = run.settings
        self._agent = cast(Generalist, pmoss_agents.load(run.settings.agent, "generalist"))
        self._models = [cast(MixingModel, model) for model in self._agent.network or ()]
        machines = {world[0] for world in run.settings.worlds}
        mib = [cache_mib_of(load_machine(name)) for name in sorted(machines)]
        self._capacity = torch.tensor(np.array(mib)).float().log().mean(0)

    def __call__(self, cell: Cell) -> Row:
        """What the agent makes of its inputs in a world.

        Returns:
            ``checkpoint``, its SHA-256; ``scores``, of the agent's PLAN, of rules and by what
            ablation takes away, a list over the episodes; ``attribution``, see attribute(), the
            mean over episodes and members; ``errors``, by schedule a list over the episodes,
            predicted less true logarithm of the throughput; ``nodes``, a list of [schedule,
            episode, node, load under the incumbent, load, error, share]; and ``fullest``, a list of
            [schedule, episode, slices under the incumbent, load under the incumbent, load, error]
            of the core that bounds the throughput. A load is the share of a memory's bandwidth that
            the index and co-tenants take; errors are of the logarithms of times, and the share is
            that of the whole time which slices on the node take.
        """
        settings = self._settings
        row: Row = {"checkpoint": pretrained.card(settings.agent).sha256, "scores": {}}
        attributions: list[Mapping[str, Mapping[str, float]]] = []
        row |= {"errors": {}, "nodes": [], "fullest": []}
        world = {key: cell[key] for key in ("machine", "workload", "interference")}
        with (
            torch_threads(self._agent.config.threads),
            closing(SpatialSchedulingEnv(**world, slices=SLICES, observation="complete")) as env,
            closing(SpatialJudge(env)) as judge,
        ):
            for episode in range(settings.episodes):
                seed = episode_seed(SEED, episode)
                env.reset(seed=seed)
                judge.begin()
                attributions += self._play(env, judge, episode, seed, row)
        row["attribution"] = {
            level: {
                name: float(np.mean([each[level][name] for each in attributions]))
                for name in features
            }
            for level, features in attributions[0].items()
        }
        return row

    def _play(
        self, env: SpatialSchedulingEnv, judge: SpatialJudge, episode: int, seed: int, row: Row
    ) -> list[Mapping[str, Mapping[str, float]]]:
        """Adds an episode to a row; returns the attribution of each member."""
        settings, agent, machine = self._settings, self._agent, env.machine
        agent.use(machine)
        topology = agent.topology
        context = env.context(np.random.default_rng((seed, 2)), judge.searchable)
        assert context.incumbent is not None and context.snapshot is not None
        before = Ran("incumbent", context.incumbent, context.snapshot)
        low, high = judge.reference(seed, settings.budget, 10)
        counters = observed_counters(context.snapshot)[:, : len(agent.task["counters"])]
        columns = topology.column[machine.tile_of_core[context.incumbent.cores]]

        def planned(changes: Mapping[str, Any]) -> Schedule:
            whole, agent.config = agent.config, replace(agent.config, **changes)
            plan = agent.planner(counters, columns).plan()
            agent.config = whole
            return context.local_schedule(machine.workers[plan])

        def score(name: str, schedule: Schedule) -> None:
            scored = 100 * (judge.throughput(schedule) - low) / (high - low)
            row["scores"].setdefault(name, []).append(scored)

        schedules = {PLAN: planned({})}
        schedules |= {name: make_baseline(name)(context) for name in settings.rules}
        for name, schedule in schedules.items():
            score(name, schedule)
        ran = {
            name: Ran(name, schedule, judge.searchable.measure(schedule, seed=0))
            for name, schedule in schedules.items()
        }
        self._compare(machine, env.instance, before, ran, episode, row)
        score(WHOLE, planned(settings.changes))
        for name in inputs_of(self._models[0]):
            with without(self._models, topology, name, self._capacity):
                score(name, planned(settings.changes))
        plan = topology.column[machine.tile_of_core[schedules[PLAN].cores]]
        given = [torch.from_numpy(np.asarray(each)) for each in (counters, columns, plan)]
        rows = given[0].float(), given[1].long(), given[2].long()
        return [
            attribute(model, topology, *rows, self._capacity, settings.steps)
            for model in self._models
        ]

    def _compare(
        self,
        machine: Machine,
        instance: Instance,
        before: Ran,
        ran: Mapping[str, Ran],
        episode: int,
        row: Row,
    ) -> None:
        """Adds errors and nodes of an episode to a row."""
        topology, taken = self._agent.topology, taken_of(machine, instance)
        counters = observed_counters(before.snapshot)[:, : len(self._agent.task["counters"])]
        tiles = [machine.tile_of_core[each.schedule.cores] for each in (before, *ran.values())]
        read, *others = [torch.from_numpy(topology.column[each]).long() for each in tiles]
        with torch.inference_mode():
            rows = torch.from_numpy(counters).float().unsqueeze(0), read.unsqueeze(0)
            asked = torch.stack(others).unsqueeze(0)
            foreseen = [
                model.predict(topology, model.read(topology, *rows), asked)
                for model in self._models
            ]
        times = np.mean([each.times[0].double().numpy() for each in foreseen], axis=0)
        totals = np.mean([each.total[0].double().numpy() for each in foreseen], axis=0)
        busy = np.mean([each.busy[0].double().numpy() for each in foreseen], axis=0)
        for number, (name, one) in enumerate(ran.items()):
            off = float(totals[number] - np.log(one.snapshot.throughput))
            row["errors"].setdefault(name, []).append(off)
            after = observed_counters(one.snapshot).astype(np.float64)
            elapsed, queries = after[:, ELAPSED], after[:, QUERIES]
            served = (elapsed > 0) & (queries > 0)
            truth = np.log(elapsed[served] / queries[served])
            weights = elapsed[served] / elapsed.sum()
            nodes = machine.node_of_core[one.schedule.cores][served]
            loads = compare(machine, before, one).tables["node"].column("use")
            first, second = (load + taken for load in loads)
            of_cores = np.bincount(others[number], elapsed, topology.workers) / queries.sum()
            core = int(of_cores.argmax())
            node = machine.node_of_core[machine.workers[core]]
            error = float(np.log(busy[number][core] / of_cores[core]))
            facts = [round(float(x), 4) for x in (first[node], second[node], error)]
            row["fullest"].append([name, episode, int((read == core).sum()), *facts])
            for node in np.unique(nodes):
                own = nodes == node
                share = weights[own].sum()
                error = float((weights * (times[number][served] - truth))[own].sum() / share)
                facts = [round(float(x), 4) for x in (first[node], second[node], error, share)]
                row["nodes"].append([name, episode, int(node), *facts])


def taken_of(machine: Machine, instance: Instance) -> Float64Array:
    """(N,) the share of each memory's bandwidth that co-tenants take."""
    taken = np.zeros(machine.nodes)
    for one in instance.co_tenants:
        if one.family == "memory_stream":
            taken[one.target] += one.strength
        if one.family == "cache_thrash":
            taken[machine.node_of_core[machine.llc_of_core == one.target][0]] += one.strength
    return taken


def _points(rows: Rows) -> Float64Array:
    """(n, 4) load under the incumbent, load, error and share, of nodes that matter."""
    every = np.array([point[3:] for row in rows for point in row["nodes"]], dtype=np.float64)
    return every[every[:, 3] >= _LEAST_SHARE]


def _kinds(points: Float64Array) -> dict[str, Any]:
    """Masks of (n, 4) points by what a schedule asks of a memory."""
    full, grown = points[:, 1] >= FULL, points[:, 1] - points[:, 0] > MORE
    return {
        "room left": ~full,
        "full, more than under the incumbent": full & grown,
        "full, not more than under the incumbent": full & ~grown,
    }


def _rule(row: Mapping[str, Any]) -> str:
    rules: list[str] = [name for name in row["errors"] if name != PLAN]
    return max(rules, key=lambda name: float(np.mean(row["scores"][name])))


def _cause(full: Sequence[Any]) -> str:
    """What is new to the network about the core that bounds a schedule's throughput."""
    slices, before, after = full[2:5]
    if slices == 0:
        return "nothing ran on it under the incumbent"
    grown = after >= FULL and after - before > MORE
    return "its memory is full, and fuller than under the incumbent" if grown else "neither"


def _worlds(rows: Rows) -> TableOfRows:
    """World by world the score, how far the model is off, and what bounds the plan."""
    lines = []
    for row in rows:
        rule, scores = _rule(row), row["scores"]
        causes = Counter(_cause(full) for full in row["fullest"] if full[0] == PLAN)
        line = [row["machine"], row["workload"], row["interference"]]
        line += [f"{np.mean(scores[PLAN]):.1f}", f"{rule} {np.mean(scores[rule]):.1f}"]
        line += [f"{np.mean(row['errors'][name]):+.2f}" for name in (PLAN, rule)]
        lines.append([*line, "; ".join(causes)])
    heads = ["machine", "workload", "co-tenants", ">score", "best rule", ">error, its plan"]
    return TableOfRows([*heads, ">error, best rule's", "its plan's fullest core"], lines)


def shares_of(rows: Rows) -> dict[str, float]:
    """By input the share of all attribution, the mean over worlds; levels and counters apart."""
    shares: dict[str, list[float]] = {}
    for row in rows:
        total = sum(sum(features.values()) for features in row["attribution"].values())
        own: dict[str, float] = {}
        for level, features in row["attribution"].items():
            own[level] = sum(features.values()) / total
            for name, value in features.items():
                if name != level:
                    own[name] = own.get(name, 0.0) + value / total
        for name, value in own.items():
            shares.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in shares.items()}


def _lost(rows: Rows, name: str) -> Any:
    """The score lost without an input, over all worlds and episodes."""
    scores = [[row["scores"][one] for row in rows] for one in (WHOLE, name)]
    return paired_difference((np.array(scores[0]) - np.array(scores[1])).reshape(1, -1))


def _levels(rows: Rows) -> TableOfRows:
    return _lines(rows, list(rows[0]["attribution"]))


def _counters(rows: Rows) -> TableOfRows:
    wide = rows[0]["attribution"]
    return _lines(rows, [name for name in shares_of(rows) if name not in wide])


def _lines(rows: Rows, names: Sequence[str]) -> TableOfRows:
    shares = shares_of(rows)
    lines = [
        [f"`{name}`", f"{shares[name]:.1%}".replace("%", " %"), interval(_lost(rows, name))]
        for name in sorted(names, key=lambda name: -shares[name])
    ]
    return TableOfRows(["input", ">share of attribution", ">score lost without it"], lines)


def summarise(settings: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """What the worlds come to.

    Returns:
        ``score`` and ``rule``, mean scores of the agent and of each world's best rule; and
        ``kinds``, by what a schedule asks of a memory: how many ``cases``, by which share service
        is overrated there as ``error``, and by which it errs either way as ``size``.
        ``causes`` says likewise of cores that bound a throughput what was new about them.
    """
    points, causes = _points(rows), dict[str, list[float]]()
    for full in (full for row in rows for full in row["fullest"]):
        causes.setdefault(_cause(full), []).append(full[5])
    kinds = {name: points[mask, 2].tolist() for name, mask in _kinds(points).items()}
    return {
        "score": float(np.mean([row["scores"][PLAN] for row in rows])),
        "rule": float(np.mean([row["scores"][_rule(row)] for row in rows])),
        "kinds": {name: _errors(own) for name, own in kinds.items() if own},
        "causes": {name: _errors(own) for name, own in causes.items()},
    }


def _errors(errors: Sequence[float]) -> dict[str, Any]:
    mean, size = -np.mean(errors), np.mean(np.abs(errors))
    return {"cases": len(errors), "error": float(np.exp(mean) - 1), "size": float(np.exp(size) - 1)}


def _draw_service(rows: Rows) -> Figure:
    """Predicted over true service against the load of a node's memory."""
    points = _points(rows)
    figure = new_figure(8, 4)
    axis = figure.subplots()
    colours = ("tab:gray", "tab:red", "tab:blue")
    for colour, (name, mask) in zip(colours, _kinds(points).items(), strict=True):
        size = 8 + 60 * points[mask, 3]
        ratio = np.exp(-points[mask, 2])
        axis.scatter(points[mask, 1], ratio, size, colour, alpha=0.6, linewidths=0, label=name)
    axis.axhline(1, color="black", linewidth=0.5)
    axis.set_yscale("log")
    axis.set_yticks([0.5, 0.7, 1, 1.4, 2], ["0.5", "0.7", "1", "1.4", "2"])
    axis.minorticks_off()
    axis.set_xlabel("load of the node's memory, of its bandwidth: the index and co-tenants")
    axis.set_ylabel("predicted over true service")
    axis.legend(fontsize=8)
    return figure


def _draw_inputs(rows: Rows) -> Figure:
    """Attribution beside ablation, of levels and of counters."""
    shares, wide = shares_of(rows), list(rows[0]["attribution"])
    figure = new_figure(9, 6)
    panels = figure.subplots(1, 2)
    groups = wide, [name for name in shares if name not in wide]
    for axis, names in zip(panels, groups, strict=True):
        names = sorted(names, key=shares.__getitem__)
        places = np.arange(len(names))
        lost = [_lost(rows, name).value for name in names]
        axis.barh(places + 0.2, [100 * shares[name] for name in names], 0.4, label="attribution, %")
        axis.barh(places - 0.2, lost, 0.4, label="score lost without it")
        axis.set_yticks(places, names, fontsize=8)
        axis.axvline(0, color="black", linewidth=0.5)
    panels[0].legend(fontsize=8, loc="lower right")
    return figure


TABLES = {"default": _worlds, "levels": _levels, "counters": _counters}
PLOTS = {"service": _draw_service, "inputs": _draw_inputs}

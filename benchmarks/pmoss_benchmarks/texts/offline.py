"""Blocks about the offline benchmark: scores, tasks, tracks, and the paper's servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_agents.registry import agent_names
from pmoss_benchmarks.texts.stored import PLACED, SHARED, Stored, interval, made, table
from pmoss_datasets.domain import Domain
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_datasets.suite import task_names

#: The agent whose losses on other tracks are shown.
_OURS = "surrogate"
#: What learned for the paper's servers: this project's agent, and the paper's method.
LEARNED = (_OURS, "decision-transformer")
#: Results with this project's agent beside all opponents.
_PLAYED = tuple(f"offline/{suite}/summary.json" for suite in ("core", "standard", "machines"))
#: Episodes of a task that long searches were made for.
_LONG = 40
_MACHINES = ("sandy-bridge", "skylake-x-8n", "milan-nps4", "milan-nps1", "grace-hopper")


def _score(figures: Mapping[str, Any] | None) -> str:
    return interval(*(figures[key] for key in ("value", "low", "high"))) if figures else ""


def standard(stored: Stored) -> str:
    """Every task that this project's agent played, with the schedules of the paper."""
    rows, ahead = [], {"above": 0, "level with": 0, "below": 0}
    for task, figures in played(stored):
        policies = figures["policies"]
        mine, rule = policies[_OURS], policies[figures["rule"]]
        ahead[side(mine["over_rule"])] += 1
        rows.append(
            [
                task,
                str(figures["episodes"]),
                _score(mine["score"]),
                f"{figures['rule']} {rule['score']['value']:.1f}",
                _score(mine["over_rule"]),
                _score(mine["over_search"]),
                *(f"{policies[name]['score']['value']:.1f}" for name in (*PLACED, "lpt")),
            ]
        )
    long = all(figures["episodes"] >= _LONG for _, figures in played(stored))
    sources = _PLAYED[:-1] if long else _PLAYED
    columns = ["task", "episodes", _OURS, "best rule", "points ahead of it", "ahead of search"]
    sides = ", ".join(f"{where} the best rule on {count}" for where, count in ahead.items())
    return "\n".join(
        [
            table([*columns, *PLACED.values(), "LPT"], rows),
            "",
            f"Played are {len(rows)} of {len(task_names()) - 1} tasks. `{_OURS}` is {sides}. "
            "Level: the interval of the paired difference holds 0.",
            "Score 100 is the best of several long searches on tasks with 40 episodes or more. "
            + ("" if long else "On the others it is a search with 2,000 evaluations."),
            *_learners(played(stored)),
            *(
                made(stored[name], f"benchmarks/results/{name.split('/')[1]}.jsonl")
                for name in sources
            ),
        ]
    )


def _learners(found: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The mean scores of all learners on tasks that at least two of them played."""
    sides: dict[str, list[str]] = {
        agent: [
            side(figures["policies"][agent]["over_rule"])
            for _, figures in found
            if agent in figures["policies"]
        ]
        for agent in agent_names(SPATIAL.name)
    }
    names = sorted((name for name in sides if sides[name]), key=lambda name: -len(sides[name]))
    rows = [
        [task, *(_score(figures["policies"].get(name, {}).get("score")) for name in names)]
        for task, figures in found
        if sum(name in figures["policies"] for name in names) > 1
    ]
    above = [f"{sides[name].count('above')} of {len(sides[name])}" for name in names]
    rows.append(["above the best rule, of all tasks", *above])
    return ["", table(["task", *names], rows), ""]


def played(stored: Stored) -> list[tuple[str, Mapping[str, Any]]]:
    """Every task that this project's agent played, with what all policies did there.

    Of a task that two suites have, the one with long searches counts: it stands first.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for name in _PLAYED:
        for task, figures in stored[name]["tracks"]["same-task"]["paired"].items():
            if _OURS in figures["policies"]:  # else a benchmark that still runs
                found.setdefault(task, figures)
    return list(found.items())


def side(difference: Mapping[str, Any]) -> str:
    """On which side of 0 a paired difference lies, with its interval."""
    if difference["low"] > 0:
        return "above"
    return "below" if difference["high"] < 0 else "level with"


def servers(stored: Stored) -> str:
    """On the paper's servers: what learned, over every schedule of the paper."""
    summary = stored["offline/machines/summary.json"]
    lines = [
        "Throughput of the policies that learned, and its ratio over that of each schedule "
        "(one training seed).",
        "The four shared are OS:D, OS:I, SE:N and SN:N. The column of their mean holds the mean of "
        "four ratios. The best is the best of all the schedules before it, LPT among them.",
    ]
    for track, load in (("same-task", "Closed load"), ("saturated", "Unbounded backlog")):
        of_agents = {agent: ratios_of(summary, track, agent) for agent in LEARNED}
        rows = [
            [machine, agent, f"{of['Mq/s']:.1f}", *(f"{v:.2f}" for v in list(of.values())[1:])]
            for machine in _MACHINES
            for agent, of in ((agent, ratios[machine]) for agent, ratios in of_agents.items())
        ]
        columns = list(of_agents[_OURS][_MACHINES[0]])
        lines += ["", f"{load}.", "", table(["server", "policy", *columns], rows), ""]
        ours = of_agents[_OURS]
        over = [ours[machine]["over the best"] for machine in _MACHINES]
        lines += [
            _random(ours, load),
            *_paper(ours),
            f"Over the best of all these schedules `{_OURS}` is {min(over):.2f} to "
            f"{max(over):.2f}.",
        ]
    lines += ["", made(summary, "benchmarks/results/machines.jsonl")]
    return "\n".join(lines)


def shared_means(
    domain: Domain, cells: Iterable[Mapping[str, Any]], tasks: Sequence[str]
) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean throughput and score, by task, of the paper's schedules whose workers share slices."""
    opponents = [cell for cell in cells if "shared" in cell]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for task in tasks:
        for name in domain.unplaced:
            episodes = [
                e for c in opponents if c["task"] == task for e in c["shared"].get(name, ())
            ]
            scores = [score for _, score in episodes if score is not None]
            if scores:
                mean = float(np.mean([throughput for throughput, _ in episodes]))
                found.setdefault(task, {})[name] = mean, float(np.mean(scores))
    return found


def ratios_of(summary: Mapping[str, Any], track: str, agent: str) -> dict[str, dict[str, float]]:
    """Ratios of an agent's throughput over that of each schedule, by server."""
    found = summary["tracks"][track]["tasks"]
    cells = [cell for cell in summary["cells"].values() if cell["track"] == track]
    shared = shared_means(SPATIAL, cells, list(found))
    ratios: dict[str, dict[str, float]] = {}
    for machine in _MACHINES:
        task = f"{machine}-btree-ycsb-a"
        mine = float(found[task][agent]["throughput"])
        others = {label: shared[task][name][0] for name, label in SHARED.items()}
        others |= {label: float(found[task][name]["throughput"]) for name, label in PLACED.items()}
        others["LPT"] = float(found[task]["lpt"]["throughput"])
        of_four = float(np.mean([mine / others[label] for label in SHARED.values()]))
        ratios[machine] = {
            "Mq/s": mine,
            **{f"over {name}": mine / value for name, value in others.items()},
            "mean over the four shared": of_four,
            "over the best": mine / max(others.values()),
            "search over the best": float(found[task]["local-search"]["throughput"])
            / max(others.values()),
        }
    return ratios


def _random(ratios: Mapping[str, Mapping[str, float]], load: str) -> str:
    above = [machine for machine in ratios if ratios[machine]["over Random"] < 1]
    where = f" ({', '.join(above)})" if above else ""
    count = f"{len(above)} of {len(ratios)}"
    return f"{load}: Random serves more than `{_OURS}` on {count} servers{where}."


def _paper(ratios: Mapping[str, Mapping[str, float]]) -> list[str]:
    over = {machine: ratios[machine]["over SE:N"] for machine in ratios}
    inside = [machine for machine, ratio in over.items() if 1.5 <= ratio <= 2.5]
    return [
        "The paper has 1.5 to 2.5 times SE:N on the Intel and AMD servers; inside that range lie "
        f"{len(inside)} of ours{' (' + ', '.join(inside) + ')' if inside else ''}."
    ]


BLOCKS = {
    "standard-tasks": standard,
    "servers": servers,
}

"""Blocks about the offline benchmark: scores, tasks, tracks, and the paper's servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pmoss_agents.registry import agent_names
from pmoss_benchmarks.texts.stored import PLACED, SHARED, Stored, interval, made, table
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_datasets.suite import task_names

#: The agent whose losses on other tracks are told.
_OURS = "surrogate"
#: What learned for the paper's servers: this project's agent, and the paper's method.
LEARNED = (_OURS, "decision-transformer")
#: Results with this project's agent beside all opponents.
_PLAYED = tuple(f"offline/{suite}/summary.json" for suite in ("core", "standard", "machines"))
#: Episodes of a task that long searches were made for.
_LONG = 40
_COLUMNS = ["task", "best learned", "best rule", "points ahead of it", "ahead of search"]
_COLUMNS += ["best simple", "throughput over it"]
_MACHINES = ("sandy-bridge", "skylake-x-8n", "milan-nps4", "milan-nps1", "grace-hopper")


def scores(stored: Stored) -> str:
    """Mean scores on each task of the core, over the episodes that all policies met."""
    return _means(stored, "core")


def heuristic(stored: Stored) -> str:
    """The same where the data hold no rule that reads how fast a core is."""
    return _means(stored, "core-heuristic")


def _means(stored: Stored, folder: str) -> str:
    """Means over the common episodes of each task, then over the tasks."""
    name = f"offline/{folder}/summary.json"
    summary = stored[name]
    tasks = summary["tracks"]["same-task"]["paired"]
    found: dict[str, dict[str, Any]] = {}
    for task, told in tasks.items():
        for policy, of in told["policies"].items():
            if not policy.endswith("(best)"):
                found.setdefault(policy, {})[task] = of["score"]
    means = {
        policy: float(np.mean([of["value"] for of in of_tasks.values()]))
        for policy, of_tasks in found.items()
    }
    # Those that lack a task stand below: their means are of other tasks.
    ordered = sorted(found, key=lambda policy: (-len(found[policy]), -means[policy]))
    rows = []
    for policy in ordered:
        whole = len(found[policy]) == len(tasks)
        cells = [_score(found[policy].get(task)) for task in tasks]
        rows.append([policy, *cells, f"{means[policy]:.1f}" if whole else ""])
    counts = {told["episodes"] for told in tasks.values()}
    return "\n".join(
        [
            table(["policy", *tasks, "mean"], rows),
            "",
            f"Means over {' or '.join(map(str, sorted(counts)))} common episodes of each task. "
            f"The data are of the tier `{summary['settings']['tier']}`.",
            f"Training seeds of an agent: {_seeds_of_agents(summary)}.",
            "The rows were collected over several calls. The command is the last of them; the "
            "others named other agents, tasks or tracks.",
            made(summary, f"benchmarks/results/{folder}.jsonl"),
        ]
    )


def _score(told: Mapping[str, Any] | None) -> str:
    return interval(*(told[key] for key in ("value", "low", "high"))) if told else ""


def verdicts(stored: Stored) -> str:
    """Each task of the core: the best learned agent beside simple schedules, rule and search."""
    summary = stored["offline/core/summary.json"]
    return "\n".join(
        [table(_COLUMNS, _verdicts(summary)), "", made(summary, "benchmarks/results/core.jsonl")]
    )


def _verdicts(summary: Mapping[str, Any]) -> list[list[str]]:
    """A row for each task that has all opponents and an agent."""
    found = summary["tracks"]["same-task"]
    agents = _agents(summary)
    rows = []
    for task, told in found["paired"].items():
        policies = told["policies"]
        mine_of_task = [name for name in agents if name in policies]
        if not mine_of_task or told["rule"] is None:
            continue
        best = max(mine_of_task, key=lambda name: float(policies[name]["score"]["value"]))
        mine, simple = policies[best], _best(found["tasks"][task], SPATIAL.simple)
        rows.append(
            [
                task,
                f"{best} {mine['score']['value']:.1f}",
                f"{told['rule']} {policies[told['rule']]['score']['value']:.1f}",
                _score(mine["over_rule"]),
                _score(mine.get("over_search")),
                f"{simple['policy']} {simple['score']:.1f}",
                f"{mine['throughput'] / simple['throughput']:.2f}",
            ]
        )
    return rows


def _seeds_of_agents(summary: Mapping[str, Any]) -> str:
    """How many trainings the agents had, e.g. "3 (surrogate), 1 (bc, cql)"."""
    seeds: dict[str, set[int]] = {}
    for cell in summary["cells"].values():
        if "training" in cell:
            seeds.setdefault(cell["agent"], set()).add(cell["seed"])
    counts = sorted({len(of_agent) for of_agent in seeds.values()}, reverse=True)
    if len(counts) == 1:
        return str(counts[0])
    return ", ".join(
        f"{n} ({', '.join(sorted(a for a, of_agent in seeds.items() if len(of_agent) == n))})"
        for n in counts
    )


def _seeds(summary: Mapping[str, Any], track: str) -> int:
    """Training seeds of every agent of a track."""
    seeds: dict[str, set[int]] = {}
    for cell in summary["cells"].values():
        if cell["track"] == track and "training" in cell:
            seeds.setdefault(cell["agent"], set()).add(cell["seed"])
    return min(len(of_agent) for of_agent in seeds.values())


def _agents(summary: Mapping[str, Any]) -> list[str]:
    return list(
        dict.fromkeys(cell["agent"] for cell in summary["cells"].values() if "training" in cell)
    )


def _best(found: Mapping[str, Any], names: Any) -> Mapping[str, Any]:
    known = [found[name] for name in names if name in found]
    best: Mapping[str, Any] = max(known, key=lambda policy: float(policy["score"]))
    return best


def standard(stored: Stored) -> str:
    """Every task that this project's agent played, with the schedules of the paper."""
    rows, ahead = [], {"above": 0, "level with": 0, "below": 0}
    for task, told in played(stored):
        policies = told["policies"]
        mine, rule = policies[_OURS], policies[told["rule"]]
        ahead[side(mine["over_rule"])] += 1
        rows.append(
            [
                task,
                str(told["episodes"]),
                _score(mine["score"]),
                f"{told['rule']} {rule['score']['value']:.1f}",
                _score(mine["over_rule"]),
                _score(mine["over_search"]),
                *(f"{policies[name]['score']['value']:.1f}" for name in (*PLACED, "lpt")),
            ]
        )
    long = all(told["episodes"] >= _LONG for _, told in played(stored))
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
            side(told["policies"][agent]["over_rule"])
            for _, told in found
            if agent in told["policies"]
        ]
        for agent in agent_names(SPATIAL.name)
    }
    names = sorted((name for name in sides if sides[name]), key=lambda name: -len(sides[name]))
    rows = [
        [task, *(_score(told["policies"].get(name, {}).get("score")) for name in names)]
        for task, told in found
        if sum(name in told["policies"] for name in names) > 1
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
        for task, told in stored[name]["tracks"]["same-task"]["paired"].items():
            if _OURS in told["policies"]:  # else a benchmark that still runs
                found.setdefault(task, told)
    return list(found.items())


def side(difference: Mapping[str, Any]) -> str:
    """On which side of 0 a paired difference lies, with its interval."""
    if difference["low"] > 0:
        return "above"
    return "below" if difference["high"] < 0 else "level with"


def tracks(stored: Stored) -> str:
    """What agents keep on other workloads and machines."""
    summary = stored["offline/core/summary.json"]
    found = summary["tracks"]
    means = {
        name: told["iqm"]["value"]
        for of_track in reversed(found.values())
        for name, told in of_track["overall"].items()
        if not name.endswith("(best)")
    }
    names = sorted(means, key=lambda name: -means[name])
    rows = [[track, *(_iqm(told, name) for name in names)] for track, told in found.items()]
    kept = [
        f"{track} {told['overall'][_OURS]['iqm']['value'] / _same(found):.0%}"
        for track, told in found.items()
        if track != "same-task" and _OURS in told["overall"]
    ]
    lines = [table(["track", *names], rows), ""]
    lines.append(
        "A run is the mean over the episodes of a task and a training seed. The table holds "
        "interquartile means: the lowest and the highest quarter of all runs are left out. So "
        "they differ from the means above. An empty place was not played."
    )
    lines.append(
        "Training seeds: " + ", ".join(f"{track} {_seeds(summary, track)}" for track in found) + "."
    )
    if kept:
        lines.append(f"Share of its score that `{_OURS}` keeps: {'; '.join(kept)}.")
    return "\n".join([*lines, made(summary, "benchmarks/results/core.jsonl")])


def _iqm(told: Mapping[str, Any], name: str) -> str:
    return _score(told["overall"][name]["iqm"]) if name in told["overall"] else ""


def sisters(stored: Stored) -> str:
    """The other environments: every policy on their task, the best first."""
    summary = stored["offline/sisters/summary.json"]
    rows = []
    for name, track in summary["tracks"].items():
        domain = find_domain(name)
        for task, found in track["tasks"].items():
            for told in sorted(found.values(), key=lambda told: -float(told["score"])):
                if told["policy"].endswith("(best)"):
                    continue
                keys = ("score", "score_low", "score_high")
                outcome = f"{domain.shown(told['throughput']):.1f} {domain.unit}"
                rows.append([task, told["policy"], interval(*(told[k] for k in keys)), outcome])
    settings = summary["settings"]
    return "\n".join(
        [
            table(["task", "policy", "score [95 %]", "outcome"], rows),
            "",
            f"Means over training seeds, {settings['episodes']} episodes of each.",
            made(summary, "benchmarks/results/sisters.jsonl"),
        ]
    )


def _same(found: Mapping[str, Any]) -> float:
    return float(found["same-task"]["overall"][_OURS]["iqm"]["value"])


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
        others = {told: shared[task][name][0] for name, told in SHARED.items()}
        others |= {told: float(found[task][name]["throughput"]) for name, told in PLACED.items()}
        others["LPT"] = float(found[task]["lpt"]["throughput"])
        of_four = float(np.mean([mine / others[told] for told in SHARED.values()]))
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
    "core-scores": scores,
    "core-heuristic": heuristic,
    "core-verdicts": verdicts,
    "standard-tasks": standard,
    "tracks": tracks,
    "servers": servers,
    "sisters": sisters,
}

"""Blocks about the offline benchmark: scores, tasks, tracks, and the paper's servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_benchmarks.offline.report import shared_means
from pmoss_benchmarks.texts.stored import PLACED, SHARED, Stored, interval, made, table
from pmoss_datasets.domain import find_domain
from pmoss_datasets.spatial.domain import SPATIAL

#: Policies of the table of tracks, and learned ones of the table of tasks.
_BESIDE = ("decision-transformer", "percentile-bc", "best-fit", "lpt", "random")
_LEARNED = ("decision-transformer", "percentile-bc")
_MACHINES = ("sandy-bridge", "skylake-x-8n", "milan-nps4", "milan-nps1", "grace-hopper")


def scores(stored: Stored) -> str:
    """The interquartile means of the core."""
    summary = stored["offline/core/summary.json"]
    overall = summary["tracks"]["same-task"]["overall"]
    iqms = {name: found["iqm"] for name, found in overall.items() if not name.endswith("(best)")}
    ordered = sorted(iqms, key=lambda name: -float(iqms[name]["value"]))
    rows = [
        (name, interval(*(iqms[name][key] for key in ("value", "low", "high")))) for name in ordered
    ]
    return "\n".join(
        [
            table(["policy", "score, IQM [95 %]"], rows),
            "",
            f"{len(summary['tracks']['same-task']['tasks'])} tasks and "
            f"{_seeds(summary, 'same-task')} training seeds, collected over several calls; the "
            "command is the last of them.",
            made(summary, "../benchmarks/results/offline/core/summary.json"),
        ]
    )


def verdicts(stored: Stored) -> str:
    """Each task of the core: the best learned agent beside simple schedules, rule and search."""
    summary = stored["offline/core/summary.json"]
    tasks = summary["tracks"]["same-task"]["tasks"]
    agents = _agents(summary)
    rows = []
    for task, found in tasks.items():
        best = _best(found, agents)
        simple = _best(found, SPATIAL.simple)
        rows.append(
            (
                task,
                f"{best['policy']} {best['score']:.1f}",
                f"{found['best-fit']['score']:.1f}",
                f"{simple['policy']} {simple['score']:.1f}",
                f"{best['throughput'] / simple['throughput']:.2f}",
                f"{found['local-search']['score']:.1f}",
            )
        )
    columns = ["task", "best learned", "best-fit", "best simple", "throughput over it", "search"]
    return "\n".join([table(columns, rows), "", made(summary, "offline/core/summary.json")])


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
    """Every task of the standard suite, with all schedules of the paper that can be placed."""
    summary = stored["offline/standard/summary.json"]
    tasks = summary["tracks"]["same-task"]["tasks"]
    names = (*_LEARNED, "best-fit", *PLACED, "lpt")
    rows, above, alone, gains = [], [0, 0], [0, 0], []
    for task, found in tasks.items():
        learned, simple = _best(found, _LEARNED), _best(found, SPATIAL.simple)
        ratio = learned["throughput"] / simple["throughput"]
        beside = task.endswith(("-all", "-busy-core", "-cache-thrash", "-memory-stream"))
        count = above if beside else alone
        count[0] += learned["score"] > simple["score"]
        count[1] += 1
        gains += [ratio] if beside else []
        cells = [f"{found[name]['score']:.1f}" for name in names]
        rows.append([task, *cells, simple["policy"], f"{ratio:.2f}"])
    columns = ["task", *(PLACED.get(name, name) for name in names)]
    settings = summary["settings"]
    return "\n".join(
        [
            table([*columns, "best simple", "throughput over it"], rows),
            "",
            f"Scores of one training seed over {settings['episodes']} episodes a task.",
            "Best simple is of LPT, Grouped, Spread, Mixed and Random; the ratio is of the better "
            "of both agents.",
            f"Beside co-tenants that agent is above it on {above[0]} of {above[1]} tasks, with "
            f"{min(gains):.2f} to {max(gains):.2f} times its throughput.",
            f"Without co-tenants it is above it on {alone[0]} of {alone[1]} tasks.",
            made(summary, "../benchmarks/results/offline/standard/summary.json"),
        ]
    )


def tracks(stored: Stored) -> str:
    """What agents keep on other workloads and machines."""
    summary = stored["offline/core/summary.json"]
    found = summary["tracks"]
    rows = []
    for track, told in found.items():
        iqms = [told["overall"][name]["iqm"] for name in _BESIDE]
        rows.append([track, *(interval(*(i[k] for k in ("value", "low", "high"))) for i in iqms)])
    kept = [
        f"{track} {told['overall'][_LEARNED[0]]['iqm']['value'] / _same(found):.0%}"
        for track, told in found.items()
        if track != "same-task"
    ]
    return "\n".join(
        [
            table(["track", *_BESIDE], rows),
            "",
            "Training seeds: "
            + ", ".join(f"{track} {_seeds(summary, track)}" for track in found)
            + ".",
            f"Share of its score that the Decision Transformer keeps: {'; '.join(kept)}.",
            made(summary, "offline/core/summary.json"),
        ]
    )


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
            made(summary, "../benchmarks/results/offline/sisters/summary.json"),
        ]
    )


def _same(found: Mapping[str, Any]) -> float:
    return float(found["same-task"]["overall"][_LEARNED[0]]["iqm"]["value"])


def servers(stored: Stored) -> str:
    """On the paper's servers: the Decision Transformer over every schedule of the paper."""
    summary = stored["offline/machines/summary.json"]
    lines = [
        "Throughput of the Decision Transformer, and its ratio over that of each schedule "
        "(one training seed)."
    ]
    for track, load in (("same-task", "Closed load"), ("saturated", "Unbounded backlog")):
        ratios, best = _ratios(summary, track)
        rows = [
            [machine, *(f"{ratios[machine][name]:.2f}" for name in ratios[machine])]
            for machine in _MACHINES
        ]
        for row, machine in zip(rows, _MACHINES, strict=True):
            row[1] = f"{ratios[machine]['Mq/s']:.1f}"
        lines += ["", f"{load}.", "", table(["server", *ratios[_MACHINES[0]]], rows), ""]
        lines += [_random(ratios, load), *_paper(ratios), *best]
    lines += ["", made(summary, "../benchmarks/results/offline/machines/summary.json")]
    return "\n".join(lines)


def _ratios(
    summary: Mapping[str, Any], track: str
) -> tuple[dict[str, dict[str, float]], list[str]]:
    found = summary["tracks"][track]["tasks"]
    cells = [cell for cell in summary["cells"].values() if cell["track"] == track]
    shared = shared_means(SPATIAL, cells, list(found))
    ratios: dict[str, dict[str, float]] = {}
    over = []
    for machine in _MACHINES:
        task = f"{machine}-btree-ycsb-a"
        mine = float(found[task]["decision-transformer"]["throughput"])
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
        over.append(mine / max(others.values()))
    words = f"Over the best of all these schedules it is {min(over):.2f} to {max(over):.2f}."
    return ratios, [words]


def _random(ratios: Mapping[str, Mapping[str, float]], load: str) -> str:
    above = [machine for machine in ratios if ratios[machine]["over Random"] < 1]
    where = f" ({', '.join(above)})" if above else ""
    return f"{load}: Random serves more than it on {len(above)} of {len(ratios)} servers{where}."


def _paper(ratios: Mapping[str, Mapping[str, float]]) -> list[str]:
    over = {machine: ratios[machine]["over SE:N"] for machine in ratios}
    inside = [machine for machine, ratio in over.items() if 1.5 <= ratio <= 2.5]
    return [
        "The paper has 1.5 to 2.5 times SE:N on the Intel and AMD servers; inside that range lie "
        f"{len(inside)} of ours{' (' + ', '.join(inside) + ')' if inside else ''}."
    ]


BLOCKS = {
    "core-scores": scores,
    "core-verdicts": verdicts,
    "standard-tasks": standard,
    "tracks": tracks,
    "servers": servers,
    "sisters": sisters,
}

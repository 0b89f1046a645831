"""What learned, on the papers' pages: its throughput over that of each schedule, with intervals.

Two suites of the offline benchmark hold it: ``machines``, with larger agents on one workload, and
``paper``, with small ones on every pair of server and workload that P-MOSS reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.functions.backlog import both
from pmoss_benchmarks.functions.play import PAPER_MACHINES, worlds_of
from pmoss_benchmarks.functions.served import means_of
from pmoss_benchmarks.offline.episodes import episodes_of
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_benchmarks.study.store import Results
from pmoss_benchmarks.texts.drawing import Bar, draw_bars
from pmoss_benchmarks.texts.offline import LEARNED
from pmoss_benchmarks.texts.stored import PLACED, SHARED, Stored, counted, made, table
from pmoss_datasets.evaluation import Difference, of_means
from pmoss_datasets.suite import load_task
from pmoss_env.types import Float64Array

_RESULTS = "benchmarks/results/"
#: The suite of one workload, and that of all pairs, below the results.
MACHINES, PAPER = "offline/machines", "offline/paper"
_LOADS = ("closed load", "unbounded backlog")
_SERVED = "backlog-learned.json"
#: Whose schedules are shown, and how they are called.
_BESIDE = {
    "surrogate": "`surrogate`",
    "decision-transformer": "Decision Transformer",
    "random": "Random",
    "grouped": "Grouped",
    "lpt": "`lpt`",
    "local-search": "search",
}
#: What search serves is shown beside what learned.
_SEARCH = "local-search"
_NAMES = {**SHARED, **PLACED, "lpt": "LPT"}
#: Bars of a picture, by kind: whose, and how they are called.
_DRAWN = {
    "shared slices": SHARED,
    "a core for each slice": PLACED,
    "a rule that reads loads": {"lpt": "LPT"},
    "learned": {"decision-transformer": "Decision Transformer", "surrogate": "surrogate"},
    "search in the model": {_SEARCH: "local search"},
}
#: Columns over several schedules: of which, and what of them.
_OVER: Mapping[str, tuple[Sequence[str], Callable[..., Any]]] = {
    "mean over the four shared": (tuple(SHARED), partial(np.mean, axis=0)),
    "mean over all eight": ((*SHARED, *PLACED), partial(np.mean, axis=0)),
    "over the best shared": (tuple(SHARED), partial(np.min, axis=0)),
    "over the better of OS:D and OS:I": (("os-default", "os-interleave"), partial(np.min, axis=0)),
    "over the best SN:T": (tuple(PLACED), partial(np.min, axis=0)),
    "over the best": ((*SHARED, *PLACED, "lpt"), partial(np.min, axis=0)),
}


def throughputs(stored: Stored, suite: str, track: str, task: str) -> dict[str, Float64Array]:
    """Throughput of each policy in each episode of a track and task, the mean over trainings.

    Empty if the suite holds nothing of them.
    """
    rows = [
        row
        for row in Results(stored.root)[Path(suite).name].rows
        if (row["track"], row["task"]) == (track, task)
    ]
    played: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        for one in episodes_of(row, {}):
            played.setdefault(one.policy, {}).setdefault(one.episode, []).append(one.throughput)
    found = {
        policy: np.array([np.mean(of[episode]) for episode in sorted(of)])
        for policy, of in played.items()
    }
    for row in rows:
        if "shared" in row:
            found[row["policy"]] = np.array(row["shared"])[:, 0]
    return found


def ratios(of: Mapping[str, Float64Array], policy: str) -> dict[str, Difference]:
    """Ratios of a policy's mean throughput, by column; those whose schedules did not play lack.

    Args:
        of: see throughputs().
        policy: which one.
    """
    columns: dict[str, tuple[Sequence[str], Callable[..., Any]]] = {
        **{f"over {label}": ((name,), partial(np.min, axis=0)) for name, label in _NAMES.items()},
        **_OVER,
    }
    found = {}
    for column, (others, choose) in columns.items():
        if all(name in of for name in others):
            values = np.stack([of[policy], *(of[name] for name in others)])
            found[column] = of_means(values, partial(_ratio, choose))
    return found


def _ratio(choose: Callable[..., Any], means: Float64Array) -> Float64Array:
    """What of the first mean over each of the others."""
    return np.asarray(choose(means[0] / means[1:]))


def servers(columns: Sequence[str], names: Sequence[str], shown: str, stored: Stored) -> str:
    """YCSB-A on some servers, by the agents of the suite ``machines``.

    Args:
        columns: of ratios().
        names: of the servers.
        shown: the picture, in Markdown.
        stored: the results.
    """
    plays = [f"same-task/{name}-btree-ycsb-a" for name in names]
    return "\n\n".join(
        [
            "## The learned policy",
            "Throughput of what learned, as a ratio. The Decision Transformer is the paper's "
            "method, `surrogate` an agent of this project.",
            shown,
            _table(MACHINES, columns, plays, stored)[0],
            _told(MACHINES, stored),
            *_served(names, stored),
        ]
    )


def pairs(columns: Sequence[str], plays: Sequence[str], shown: str, stored: Stored) -> str:
    """Pairs of server and workload, by the small agents of the suite ``paper``.

    Args:
        columns: of ratios().
        plays: "track/task", the closed load's track.
        shown: the picture, in Markdown.
        stored: the results.
    """
    ratios_of_all, missing = _table(PAPER, columns, plays, stored)
    parts = [
        "## The learned policy, small agents",
        "Throughput of what learned, as a ratio. The Decision Transformer is the paper's method at "
        "a small size, with raw counters; `surrogate` is an agent of this project. Both learned "
        "from few episodes. The search looks at the model and learned nothing.",
        shown,
        ratios_of_all,
    ]
    if missing:
        parts.append(f"Not played yet: {', '.join(missing)}.")
    return "\n\n".join([*parts, _told(PAPER, stored)])


def picture(suite: str, plays: Sequence[str], stored: Stored) -> str:
    """Mean throughputs of schedules, of what learned and of a search, as SVG text; or "".

    Args:
        suite: MACHINES or PAPER.
        plays: "track/task", the closed load's track.
        stored: the results.
    """
    panels = {}
    for play in plays:
        track, task = play.split("/")
        for load in _LOADS:
            of = throughputs(stored, suite, _under(track, load), task)
            bars = [
                Bar(label, kind, found.value, found.low, found.high)
                for kind, names in _DRAWN.items()
                for policy, label in names.items()
                if policy in of
                for found in (of_means(of[policy][None], partial(np.take, indices=0, axis=0)),)
            ]
            if bars:
                here, _, learned_on = _where(track, task).partition("; ")
                panels[f"{here}, {load}\n{learned_on}".strip()] = bars
    return draw_bars(panels, "Mq/s") if panels else ""


def standing(stored: Stored) -> str:
    """How much of the suite ``paper`` was played, and what was not."""
    cells = stored[f"{PAPER}/summary.json"]["cells"].values()
    worlds = worlds_of(Results(stored.root).study("paper").settings)
    lines = []
    for agent in LEARNED:
        played = {(cell["track"], cell["task"]) for cell in cells if cell["agent"] == agent}
        left: dict[str, list[str]] = {}
        for track, task in worlds:
            if (track, task) not in played:
                left.setdefault(track, []).append(f"`{task}`")
        count = len(worlds) - sum(map(len, left.values()))
        lines.append(f"- `{agent}` played {count} of {len(worlds)} of them.")
        lines += [f"  Not on the track {name}: {', '.join(of)}." for name, of in left.items()]
    return "\n\n".join(
        [
            "### What the learned policies were played on",
            "The suite `paper` holds every pair of server and workload that the paper reports, "
            "closed and under a backlog. Its figures stand on the pages D9 to D16. What larger "
            "agents do about YCSB-A stands on the pages D2 to D6.",
            "\n".join(lines),
        ]
    )


def _table(
    suite: str, columns: Sequence[str], plays: Sequence[str], stored: Stored
) -> tuple[str, list[str]]:
    """The table, and what of it was not played."""
    cells, missing = [], []
    for load in _LOADS:
        values: dict[str, list[list[float]]] = {}
        for play in plays:
            track, task = play.split("/")
            name = _under(track, load)
            of = throughputs(stored, suite, name, task)
            who = [policy for policy in (*LEARNED, _SEARCH) if policy in of]
            if not set(LEARNED) & set(who):
                missing.append(f"`{name}/{task}`")
                continue
            for policy in who:
                found = [ratios(of, policy)[column] for column in columns]
                values.setdefault(policy, []).append([one.value for one in found])
                cells.append([_where(track, task), load, policy, *map(_shown, found)])
        # The paper's means are of its five servers.
        for policy, rows in values.items():
            if len(rows) == len(plays) == len(PAPER_MACHINES):
                means = [f"{value:.2f}" for value in np.mean(rows, axis=0)]
                cells.append([f"mean of the {len(rows)} servers", load, policy, *means])
    return table(["server and workload", "load", "policy", *columns], cells), missing


def _under(track: str, load: str) -> str:
    """The track of a load."""
    if load == _LOADS[0]:
        return track
    return "saturated" if track == "same-task" else f"{track}-saturated"


def _where(track: str, task: str) -> str:
    """Server and workload that agents met, and for what they learned if that is another."""
    known = load_task(task)
    env = load_track(track).evaluation_env(known)
    assert env is not None
    here = f"{env['machine']}, {env['workload']}"
    learned = f"{known.env['machine']}, {known.env['workload']}"
    return here if here == learned else f"{here}; learned on {learned}"


def _shown(found: Difference) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:.2f}"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _told(suite: str, stored: Stored) -> str:
    summary = stored[f"{suite}/summary.json"]
    trained = max(cell["seed"] for cell in summary["cells"].values()) + 1
    episodes = counted(summary["settings"]["episodes"], "episode")
    return (
        f"Ratios of means over {episodes} of {counted(trained, 'training seed')}. Brackets hold "
        "95 % by a bootstrap over episodes; what another training would differ is not in them.\n\n"
        + made(summary, f"{_RESULTS}{Path(suite).name}.jsonl")
    )


def _served(names: Sequence[str], stored: Stored) -> list[str]:
    """What the learned schedules serve under a backlog: all queries, and the mix."""
    report = stored[_SERVED]
    of = {one["machine"]: means_of(one) for one in report["cells"]}
    cells = [[server, *(both(of[server][name]) for name in _BESIDE)] for server in names]
    return [
        "Under the backlog. Each cell holds all queries served / the mix served, in Mq/s. Then "
        "comes the share of slices that are starved.",
        table(["server", *_BESIDE.values()], cells),
        "The search looks at all queries served. [A table](../benchmarks/results.md"
        "#a-backlog-that-can-be-gamed) says what the mix is.",
        made(report, f"{_RESULTS}served.jsonl"),
    ]

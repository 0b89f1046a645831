"""Tables and pictures of the study ``authors``: what a gain over named schedules is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.author_networks import USUAL, WANTED
from pmoss_benchmarks.study.function import Figure, Rows
from pmoss_benchmarks.study.tables import TableOfRows, grouped, means, percent, table_of
from pmoss_env.pictures import new_figure

#: The paper's named schedules without shared slices, which a gain is over.
NAMED = ("grouped", "mixed", "spread")
#: The training accuracy that the paper reports (section 7.1), after 18 CPU hours.
ACCURATE = 0.95


def _served(row: Mapping[str, Any], **asked: Any) -> Any:
    """(trainings, tries, episodes) Mq/s of a row's plays of a question."""
    return np.array([[play["served"] for play in plays] for plays in _plays_of(row, asked)])


def _agree(row: Mapping[str, Any], asked: Mapping[str, Any]) -> list[float]:
    """The share of slices as in the closest logged schedule, of a row's plays of a question."""
    return [play["agree"] for plays in _plays_of(row, asked) for play in plays]


def _plays_of(row: Mapping[str, Any], asked: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """A row's plays of a question, by training."""
    return [
        [play for play in network["plays"] if asked.items() <= play.items()]
        for network in row["networks"]
    ]


def _limits(row: Mapping[str, Any]) -> tuple[int, ...]:
    """The limits of slices on a core that a row's plays had, 0 first."""
    return tuple(sorted({play["limit"] for play in row["networks"][0]["plays"]}))


def factors(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a gain over Grouped, Mixed and Spread is made of, on the logged keys.

    The network is asked for USUAL and its actions are drawn, within the paper's limit.

    Returns:
        ``retrieval``, ``learning`` and ``selection``, see the module's docstring; ``gain``, their
        product; ``choice``, what the best of as many random logged schedules serves over the best
        of the three, for comparison; and ``agree``, the mean share of slices as in the closest
        logged schedule.
    """
    logged, served = (np.array(row["files"][name]) for name in ("logged", "served"))
    named = max(row["opponents"]["logged"][name][0] for name in NAMED)
    asked = {"keys": "logged", "wanted": USUAL, "sampled": True, "limit": _limits(row)[-1]}
    answers = _served(row, **asked)
    mean, best = float(answers.mean()), float(answers.max(1).mean())
    retrieved = float(served[logged.argmax()])
    return {
        "tries": answers.shape[1],
        "retrieval": retrieved / named,
        "learning": mean / retrieved,
        "selection": best / mean,
        "gain": best / named,
        "choice": best_of_random(served, answers.shape[1]) / named,
        "agree": float(np.mean(_agree(row, asked))),
    }


def best_of_random(served: Any, count: int) -> float:
    """The expected best of some different schedules drawn at random, of (schedules,) Mq/s."""
    ordered, total = np.sort(np.asarray(served))[::-1], len(served)
    count = min(count, total)
    # The best is number i with all others behind it.
    chances = [math.comb(total - 1 - i, count - 1) / math.comb(total, count) for i in range(total)]
    return float(np.dot(ordered, chances))


def _trainings(rows: Rows) -> TableOfRows:
    lines = [
        {
            "machine": row["machine"],
            **training,
            "processor": training["learned_on"] or "one CPU",
            "last": training["curve"][-1],
            "reached": next((p for p in training["curve"] if p["accuracy"] > ACCURATE), None),
            "held": [p["held_out_accuracy"] for p in training["curve"] if "held_out_loss" in p][-1],
            "others": means([{"accuracy": a} for _, a in training["unseen"].values()])["accuracy"]
            if training["unseen"]
            else None,
        }
        for row in rows
        for training in row["trainings"]
    ]
    return table_of(
        lines,
        {
            "server": "`{machine}`",
            ">training": "{seed}",
            "processor": "{processor}",
            ">updates": "{updates}",
            f">updates to {percent(ACCURATE)}": "{reached[update]}",
            ">CPU seconds": "{last[cpu_seconds]:.0f}",
            ">accuracy": "{last[accuracy]:percent 1}",
            ">held out": "{held:percent 1}",
            ">further episodes": "{others:percent 1}",
        },
    )


def _of_worlds(rows: Rows, columns: Mapping[str, Any]) -> TableOfRows:
    return table_of(
        rows, {"server": "`{machine}`", "load": "{load}", "workload": "`{workload}`", **columns}
    )


def _factors(rows: Rows) -> TableOfRows:
    lines = [{**row, **factors(row)} for row in rows if row["networks"]]
    return _of_worlds(
        lines,
        {
            ">retrieval": "{retrieval:.3f}",
            ">learning": "{learning:.3f}",
            ">selection": "{selection:.3f}",
            ">gain": "{gain:.3f}",
            ">as many random files": "{choice:.3f}",
            ">slices as in a file": "{agree:percent}",
        },
    )


def _opponents_table(keys: str, rows: Rows) -> TableOfRows:
    lines = []
    for row in rows:
        if not row["networks"]:
            continue
        greedy = {"keys": keys, "wanted": USUAL, "sampled": False}
        others = {name: float(np.mean(v)) for name, v in row["opponents"][keys].items()}
        lines.append(
            {
                **row,
                "named": max(others[name] for name in NAMED),
                "others": {name.rpartition("/")[2]: value for name, value in others.items()},
            }
        )
        for name, limit in zip(("free", "limited"), _limits(row), strict=True):
            lines[-1][name] = float(_served(row, **greedy, limit=limit).mean())
    shown = {
        "OS default": "os-default",
        "`lpt`": "lpt",
        "`best-fit`": "best-fit",
        "`generalist`": "generalist-v1",
        "search": "search",
    }
    return _of_worlds(
        lines,
        {
            ">best of SN:T": "{named:.1f}",
            ">best logged file": "{others[best-logged]:.1f}",
            ">network": "{free:.1f}",
            ">network, limited": "{limited:.1f}",
            **{f">{words}": f"{{others[{name}]:.1f}}" for words, name in shown.items()},
        },
    )


def _decoding(rows: Rows) -> TableOfRows:
    """Mean over worlds of what is served over the best logged schedule."""
    lines, rows = [], [row for row in rows if row["networks"]]
    for wanted, sampled, limited in product(WANTED, (False, True), (False, True)):
        line: dict[str, Any] = {"wanted": f"{wanted:g}"}
        line["decoding"] = "drawn" if sampled else "likeliest"
        line["limit"] = "the paper's" if limited else "none"
        for load, of_load in grouped(rows, "load").items():
            shares = []
            for row in of_load:
                asked = {"keys": "logged", "wanted": wanted, "sampled": sampled}
                served = _served(row, **asked, limit=_limits(row)[limited])
                if served.size:
                    shares.append(served.mean() / row["opponents"]["logged"]["best-logged"][0])
            if shares:
                line[load] = float(np.mean(shares))
        if len(line) == 3:
            continue
        lines.append(line)
    loads = list(grouped(rows, "load"))
    columns = {">wanted": "{wanted}", "actions": "{decoding}", "limit": "{limit}"}
    return table_of(lines, {**columns, **{f">{load}": f"{{{load}:.3f}}" for load in loads}})


def _variants(rows: Rows) -> TableOfRows:
    """What each variant learned and, by likeliest actions, serves over the best logged file."""
    lines = []
    for variant, own in grouped(rows, "variant").items():
        trainings = [training for row in own for training in row["trainings"]]
        unseen = [accuracy for each in trainings for _, accuracy in each["unseen"].values()]
        asked = {"keys": "logged", "sampled": False, "limit": 0}
        served = {
            wanted: np.mean(
                [
                    _served(row, **asked, wanted=wanted).mean((1, 2))
                    / row["opponents"]["logged"]["best-logged"][0]
                    for row in own
                ],
                0,
            )
            for wanted in WANTED
        }
        agree = [share for row in own for share in _agree(row, {**asked, "wanted": USUAL})]
        lines.append(
            {
                "variant": variant,
                "accuracy": np.mean([t["curve"][-1]["accuracy"] for t in trainings]),
                "unseen": np.mean(unseen),
                "agree": np.mean(agree),
                "served": {f"at {wanted:g}": float(of.mean()) for wanted, of in served.items()},
                "low": float(served[USUAL].min()),
                "high": float(served[USUAL].max()),
            }
        )
    return table_of(
        lines,
        {
            "network": "{variant}",
            ">accuracy": "{accuracy:percent 1}",
            ">further episodes": "{unseen:percent 1}",
            **{f">served, wanted {w:g}": f"{{served[at {w:g}]:.2f}}" for w in WANTED},
            f">trainings, wanted {USUAL:g}": "{low:.2f} to {high:.2f}",
            ">slices as in a file": "{agree:percent}",
        },
    )


def _curves(rows: Rows) -> Figure:
    """Accuracy over updates, a line for each training."""
    figure = new_figure(7, 3.2)
    axis = figure.subplots()
    colours = {machine: f"C{number}" for number, machine in enumerate(grouped(rows, "machine"))}
    for row in rows:
        for training in row["trainings"]:
            curve = training["curve"]
            points = [p["update"] for p in curve], [100 * p["accuracy"] for p in curve]
            label = row["machine"] if training["seed"] == 0 else None
            axis.plot(*points, color=colours[row["machine"]], lw=1, label=label)
    axis.axhline(100 * ACCURATE, color="0.5", lw=0.8, ls="--", label="the paper")
    axis.set_xlabel("updates")
    axis.set_ylabel("training accuracy, %")
    axis.set_ylim(0, 100)
    axis.legend(fontsize=8)
    return figure


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def summarise(settings: Any, rows: Rows) -> dict[str, Any]:
    """How many trainings there are, and what the networks that played give again.

    Returns:
        ``trainings``, and those of them that are ``accurate``: they pass the paper's accuracy.
        Of networks that play the workloads of their data, and take the likeliest action without a
        limit: ``agree``, the mean share of slices as in one logged schedule; and ``served``, over
        the best logged schedule. ``judged_agree`` and ``judged_served`` are of actions that are
        drawn within the paper's limit, see factors(). All four are None where none plays.
    """
    trainings = [training for row in rows for training in row["trainings"]]
    accurate = [t for t in trainings if t["curve"][-1]["accuracy"] > ACCURATE]
    asked = {"keys": "logged", "wanted": USUAL, "sampled": False, "limit": 0}
    agree, served = [], []
    played = [row for row in rows if row["networks"] and not row["new"]]
    judged = [factors(row) for row in played]
    for row in played:
        agree += _agree(row, asked)
        best = row["opponents"]["logged"]["best-logged"]
        served.append(float((_served(row, **asked) / np.array(best)).mean()))
    return {
        "trainings": len(trainings),
        "accurate": len(accurate),
        "agree": _mean(agree),
        "served": _mean(served),
        "judged_agree": _mean([one["agree"] for one in judged]),
        "judged_served": _mean([one["learning"] for one in judged]),
    }


TABLES = {
    "default": _trainings,
    "factors": _factors,
    "played": partial(_opponents_table, "logged"),
    "fresh": partial(_opponents_table, "fresh"),
    "decoding": _decoding,
    "variants": _variants,
}
PLOTS = {"accuracy": _curves}

"""The blocks about continual scheduling: what opponents leave to the law oracle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.continual.migration import GOAL
from pmoss_benchmarks.continual.stored_report import FIRST_ENV
from pmoss_benchmarks.evaluation.statistics import paired_difference
from pmoss_benchmarks.texts.stored import Stored, counted, made, percent, prompts, table
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_env.types import Float64Array

FOLDER = "continual"
SIMULATED, ONLINE = f"{FOLDER}/simulated", f"{FOLDER}/online"
#: Where the law oracle gains no more on the delayed one, what comes next cannot be foretold.
_FORETOLD = 0.02
#: What an agent closes of the gap to the law oracle that searches thoroughly.
_TO_THOROUGH = "gap_closed_to_thorough"
#: Who is shown beside every opponent: chosen before these episodes were played, the first of those
#: that played.
CHOSEN = ("forecaster-calm", "forecaster-ramps")
#: Name, report and task of a comparison.
Compared = tuple[str, Mapping[str, Any], Mapping[str, Any]]
#: An agent that closes this share of the gap has done what the project wants of it.
_WANTED = 0.5


def headroom(stored: Stored) -> str:
    """Policies of the flagship's task beside the law oracle, and the agents that play along."""
    report = stored[f"{FOLDER}/headroom.json"]
    lines: list[str] = []
    for task in report["tasks"]:
        best, agents = task["best"], task.get("agents", {})
        left = _with_interval(task["headroom"], 100.0)
        verdict = "10 % or more" if task["standard"] else "less than 10 %"
        episodes = counted(report["settings"]["episodes"], "paired episode")
        lines += [
            f"`{task['drift']}`{_elder(report)}, {episodes}.",
            "",
            _everybody(task),
            "",
            f"On this model the law oracle serves {left} % more than `{best}`: {verdict}.",
            *(_closed(name, row, best) for name, row in agents.items()),
            "",
        ]
    lines.append(made(report, f"benchmarks/results/{FOLDER}/headroom.json"))
    return "\n".join(lines)


def _everybody(task: Mapping[str, Any]) -> str:
    """All policies and agents of a task, the best last."""
    every = {**task["policies"], **task.get("agents", {})}
    rows = [
        [
            name,
            f"{row['mean']:,.0f}",
            _with_interval(row["share_of_law"], 100.0),
            _with_interval(row["beyond_best"], 1.0),
            ", ".join(f"{k} {v:g}" for k, v in row.get("parameters", {}).items()),
        ]
        for name, row in sorted(every.items(), key=lambda pair: pair[1]["mean"])
    ]
    columns = [
        "policy",
        "million queries",
        "% of the law oracle [95 %]",
        f"beyond {task['best']} [95 %]",
        "tuned",
    ]
    return table(columns, rows)


def online(stored: Stored) -> str:
    """Agents that learned by playing, beside every policy; a table for each task."""
    compared = list(_compared(stored, ONLINE))
    lines: list[str] = []
    for name, report, task in compared:
        settings = report["settings"]
        slices = f", {settings['env']['slices']} slices" if "slices" in settings["env"] else ""
        episodes = counted(settings["episodes"], "paired episode")
        lines += [
            f"{name}{slices}{_elder(report)}, {episodes}.",
            _everybody(task),
            "\n".join(_standing(agent, row, task) for agent, row in task["agents"].items()),
        ]
    stored_at = f"Stored in `benchmarks/results/{ONLINE}`."
    return "\n\n".join([*lines, stored_at, _folded(report for _, report, _ in compared)])


def _standing(name: str, row: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """Where an agent stands beside the best opponent, and beside the law oracle."""
    policies, best = task["policies"], task["best"]
    share = np.array(row["outcomes"]) / policies[best]["outcomes"] - 1.0
    gain = _gain(share)
    ahead = (gain["low"] or 0.0) > 0.0
    behind = (gain["high"] or 0.0) < 0.0
    verdict = "ahead" if ahead else "behind" if behind else "neither ahead nor behind"
    return (
        f"- `{name}` serves {_with_interval(gain, 100.0)} % beyond `{best}`, the best opponent: "
        f"{verdict}. It serves {_with_interval(row['share_of_law'], 100.0)} % of the law oracle."
    )


def _closed(name: str, row: Mapping[str, Any], best: str) -> str:
    to_thorough = row.get(_TO_THOROUGH)
    return (
        f"`{name}` closes {_with_interval(row['gap_closed'], 100.0)} % of the way from `{best}` to "
        "the law oracle"
        + (f", {_with_interval(to_thorough, 100.0)} % to the thorough one." if to_thorough else ".")
    )


def tasks(stored: Stored) -> str:
    """Every task that was compared, the standard ones first, with the reason of the others."""
    compared = sorted(_compared(stored), key=lambda one: -one[2]["headroom"]["value"])
    rows = [
        [
            f"{name}{_elder(report)}",
            task["best"],
            str(report["settings"]["episodes"]),
            _with_interval(task["policies"][task["best"]]["share_of_law"], 100.0),
            _with_interval(task["policies"]["delayed-oracle"]["share_of_law"], 100.0),
            _with_interval(task["headroom"], 100.0),
            _ahead(task),
            "yes" if task["standard"] else _reason(task),
        ]
        for name, report, task in compared
    ]
    columns = [
        "task",
        "best opponent",
        "episodes",
        "its % of the law oracle [95 %]",
        "the delayed oracle's",
        "headroom, % [95 %]",
        "to the thorough law oracle, %",
        "standard",
    ]
    return "\n\n".join(
        [
            table(columns, rows),
            *_closing(compared),
            f"Stored in `benchmarks/results/{FOLDER}`.",
            _folded(report for _, report, _ in compared),
        ]
    )


def _closing(compared: Iterable[Compared]) -> list[str]:
    """What agents close of both gaps: a table, or nothing where none has played."""
    rows = [
        [
            name,
            agent,
            _with_interval(row["gap_closed"], 100.0),
            _with_interval(row[_TO_THOROUGH], 100.0) if _TO_THOROUGH in row else "",
        ]
        for name, _, task in compared
        for agent, row in sorted(task["agents"].items(), key=lambda pair: -pair[1]["mean"])
    ]
    columns = ["task", "agent", "closes of the headroom, % [95 %]", "to the thorough one, % [95 %]"]
    return [table(columns, rows)] if rows else []


def _folded(reports: Iterable[Mapping[str, Any]]) -> str:
    """The commands of reports, behind a line that opens them."""
    lines = dict.fromkeys(line for one in reports for line in prompts(one).split("\n"))
    shown = "\n".join(lines)
    return (
        "<details>\n<summary>The commands that made it</summary>\n\n"
        f"```console\n{shown}\n```\n\n</details>"
    )


def _ahead(task: Mapping[str, Any]) -> str:
    """What the thorough law oracle serves beyond the best opponent, where it has played."""
    if "thorough-law-oracle" not in task["policies"]:
        return ""
    law, best = (
        np.array(task["policies"][name]["outcomes"])
        for name in ("thorough-law-oracle", task["best"])
    )
    return _with_interval(_gain(law / best - 1.0), 100.0)


def agents(stored: Stored) -> str:
    """What a learned agent gains on every opponent of the standard tasks, in the same episodes."""
    played, standard = [], 0
    for name, report, task in _compared(stored):
        if _elder(report):
            continue
        standard += task["standard"]
        if task["standard"] and (agent := next((a for a in CHOSEN if a in task["agents"]), None)):
            played.append((name, agent, task["agents"][agent], task["policies"]))
    if not played:
        return "No agent has played a standard task yet."
    rows, first = [], played[0][3]
    everywhere = [name for name in first if all(name in policies for *_, policies in played)]
    for policy in sorted(everywhere, key=lambda name: first[name]["mean"]):
        gains = [
            np.array(row["outcomes"]) - policies[policy]["outcomes"]
            for _, _, row, policies in played
        ]
        rows.append([policy, *(_with_interval(_gain(one), 1.0) for one in gains)])
    ahead = [name for name, _, row, _ in played if (row["beyond_best"]["low"] or 0.0) > 0.0]
    half, half_of_thorough = (
        [
            name
            for name, _, row, _ in played
            if name in ahead and row.get(key, {"value": -np.inf})["value"] >= _WANTED
        ]
        for key in ("gap_closed", _TO_THOROUGH)
    )
    columns = ["policy", *(f"{name}: `{agent}`" for name, agent, _, _ in played)]
    return "\n".join(
        [
            table(columns, rows),
            "",
            f"There are {counted(standard, 'standard task')}. These agents played {len(played)}.",
            f"On {len(ahead)} the agent serves more than the best opponent, with the lower end of "
            "the interval above 0.",
            f"On {len(half)} of these it closes half or more of the gap to the law oracle.",
            *(["", *(f"- {name}" for name in half)] if half else []),
            "",
            f"Of the gap to the thorough law oracle, it closes half or more on "
            f"{len(half_of_thorough)}.",
            *(["", *(f"- {name}" for name in half_of_thorough)] if half_of_thorough else []),
        ]
    )


def _gain(differences: Float64Array) -> Mapping[str, Any]:
    return asdict(paired_difference(differences[None]))


def simulated(stored: Stored) -> str:
    """Tasks that the simulator has looked at, beside what the model says of them."""
    by_model = {name: (_elder(report), task) for name, report, task in _compared(stored)}
    # Where most played comes first: it orders the rows.
    compared = sorted(_compared(stored, SIMULATED), key=lambda one: -len(one[2]["policies"]))
    rows, both = [], []
    for name, report, task in compared:
        (elder, model), settings = by_model[name], report["settings"]
        law = task["policies"]["law-oracle"]
        if model["standard"] and task["standard"] and not (elder or _elder(report)):
            both.append(task["drift"])
        rows.append(
            [
                f"{name}{_elder(report)}",
                f"{settings['episodes']} of {settings['env'].get('epochs', 100)} epochs",
                f"{model['best']}: {_with_interval(model['headroom'], 100.0)}{elder}",
                f"{task['best']}: {_with_interval(task['headroom'], 100.0)}",
                "yes" if (law["beyond_best"]["low"] or 0.0) > 0 else "not shown",
            ]
        )
    columns = [
        "task",
        "episodes",
        "headroom over the best opponent by the model, % [95 %]",
        "by the simulator",
        "the law oracle ahead there",
    ]
    return "\n\n".join(
        [
            table(columns, rows),
            "The best opponent leaves 10 % or more by the model and by the simulator on "
            f"{counted(len(both), 'task')} of {counted(len(set(both)), 'drift')}.",
            "Served on the simulator, in % of the law oracle there [95 %]; empty: not played.",
            _side_by_side(compared),
            *_closing(compared),
            f"Stored in `benchmarks/results/{SIMULATED}`.",
            _folded(report for _, report, _ in compared),
        ]
    )


def _side_by_side(compared: Sequence[Compared]) -> str:
    """A row for every policy and agent, a column for every task; by the first that has it."""
    of_tasks = [{**task["policies"], **task["agents"]} for _, _, task in compared]
    shares: dict[str, list[float]] = {}
    for of_task in of_tasks:
        for name, row in of_task.items():
            shares.setdefault(name, []).append(row["share_of_law"]["value"])
    rows = [
        [
            name,
            *(
                _with_interval(of_task[name]["share_of_law"], 100.0) if name in of_task else ""
                for of_task in of_tasks
            ),
        ]
        for name in sorted(shares, key=lambda name: shares[name][0])
    ]
    return table(["policy", *(name for name, _, _ in compared)], rows)


#: How a task's name tells a setting that is not the usual one.
_SETTINGS = {
    "workload": "under {}",
    "load": "load {}",
    "deviation": "deviation {:g}",
    "moves_per_epoch": "{} moves per epoch",
    "p99_limit_us": "answers within {:g} us",
    "price_per_gb": "{:g} million queries per copied GB",
    "record_bytes": "records of {:,.0f} bytes",
}


def _compared(stored: Stored, folder: str = FOLDER) -> Iterator[Compared]:
    """All stored comparisons of a folder."""
    for path in sorted((stored.folder / folder).glob("*.json")):
        report = stored[f"{folder}/{path.name}"]
        for task in report["tasks"]:
            env = report["settings"]["env"]
            options = (env.get("drift_options") or {}).items()
            parts = [f"{key} {value}".replace("_", " ") for key, value in options]
            if "machine" in env:
                parts.append(f"on {Path(env['machine']).stem}")
            parts += [words.format(env[key]) for key, words in _SETTINGS.items() if key in env]
            yield ", ".join([f"`{task['drift']}`", *parts]), report, task


def _elder(report: Mapping[str, Any]) -> str:
    """What a row says whose report was made in an environment of another version."""
    env_id = report.get("env_id", FIRST_ENV)
    return "" if env_id == CONTINUAL.env_id else f" (still of `{env_id}`)"


def _reason(task: Mapping[str, Any]) -> str:
    """Why a task is no standard one, by its figures."""
    mean = {name: row["mean"] for name, row in task["policies"].items()}
    best, delayed, law = (mean[name] for name in (task["best"], "delayed-oracle", "law-oracle"))
    if best >= law:
        return f"no: `{task['best']}` serves as much as the law oracle"
    if law <= delayed * (1 + _FORETOLD):
        return "no: the law tells little more than the last epoch, and counters tell that"
    if best > delayed:
        return f"no: `{task['best']}` serves more than who knows the last epoch"
    return "no: what the law foretells is worth too little"


def _with_interval(share: Mapping[str, Any], unit: float) -> str:
    value = f"{unit * share['value']:.1f}"
    if share["low"] is None:
        return value
    return f"{value} [{unit * share['low']:.1f}, {unit * share['high']:.1f}]"


def migration(stored: Stored) -> str:
    """The analytic model of migration beside the simulator."""
    report = stored["migration.json"]
    rows, missed = [], []
    for cell in report["cells"]:
        time, served = cell["time_error"], cell["served_error"]
        rows.append(
            [
                cell["machine"],
                cell["interference"].replace("_", " "),
                f"{cell['simulated_ms']:.1f}",
                f"{100 * time['median']:+.1f}",
                f"{100 * time['p95']:.1f}",
                f"{100 * cell['model_dip']:.1f}",
                f"{100 * cell['simulated_dip']:.1f}",
                f"{100 * served['size']:.1f}",
            ]
        )
        name = f"{cell['machine']} ({cell['interference'].replace('_', ' ')})"
        parts = {"time": time["size"], "served": served["size"]}
        missed += [f"{name}: {what}" for what, size in parts.items() if size > GOAL]
    columns = [
        "machine",
        "co-tenants",
        "data move for, ms",
        "error of that, % (median)",
        "its size, % (95th percentile)",
        "the model's dip, %",
        "the simulator's dip, %",
        "error of what is served, % (median size)",
    ]
    settings = report["settings"]
    return "\n".join(
        [
            table(columns, rows),
            "",
            f"Each row holds {counted(settings['trials'], 'trial')}, under closed load.",
            f"In each {counted(2 * settings['pairs'], 'slice')} of {settings['slices']} go to "
            f"other nodes, with {settings['record_bytes']:g} bytes for each record.",
            "The dip is what is not served while data move, of what was served before.",
            f"Wanted are at most {percent(GOAL)} of error, of the time and of what is served.",
            f"Missed: {'; '.join(missed) or 'nothing'}.",
            made(report, "benchmarks/results/migration.json"),
        ]
    )


BLOCKS = {
    "continual-agents": agents,
    "continual-headroom": headroom,
    "continual-online": online,
    "continual-simulated": simulated,
    "continual-tasks": tasks,
    "migration": migration,
}

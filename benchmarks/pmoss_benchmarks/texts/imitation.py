"""The block on how well the paper's network imitates, what it serves, and the best there can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_benchmarks.functions.wanted import rank_correlation
from pmoss_benchmarks.texts.learned import MACHINES, throughputs
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, percent, table
from pmoss_datasets.evaluation import paired_difference
from pmoss_env.types import Float64Array

_FOLDER = "imitation"
#: Rows of the curve that are shown, at most.
_SHOWN = 10
#: The return that is asked for where others are compared with the network (section 7.1).
_USUAL = 1.1
#: Beyond it more is asked for than there is: no one can follow.
_REACHABLE = 1.1
#: Who stands beside the network, and how they are called.
_BESIDE = {
    "random": "Random",
    "grouped": "Grouped",
    "lpt": "LPT",
    "best-fit": "`best-fit`",
    "two-level": "`two-level`",
    "decision-transformer": "`decision-transformer`",
    "surrogate": "`surrogate`",
    "local-search": "search",
}


def accuracies(stored: Stored) -> list[float]:
    """The last accuracy on its training data of each network whose training ended, as a share."""
    reports = [stored[name] for name in _names(stored)]
    return [
        report["curve"][-1]["accuracy"]
        for report in reports
        if report["curve"][-1]["update"] == report["config"]["updates"]
    ]


def _names(stored: Stored) -> list[str]:
    return [f"{_FOLDER}/{path.name}" for path in sorted((stored.folder / _FOLDER).glob("*.json"))]


def imitation(stored: Stored) -> str:
    """Accuracy over updates and CPU time, the bound of the demonstrators, and what is served."""
    parts = []
    for name in _names(stored):
        report = stored[name]
        parts += [
            f"## `{report['settings']['task']}`, "
            f"{counted(report['data']['episodes'], 'episode')} to learn from",
            *_learned(report),
            *_played(report, stored),
            made(report, f"benchmarks/results/{name}"),
        ]
    return "\n\n".join(parts)


def _learned(report: Mapping[str, Any]) -> list[str]:
    bound, curve, config = report["bound"], report["curve"], report["config"]
    step = max(1, -(-len(curve) // _SHOWN))
    shown = [*curve[::-1][::step]][::-1]
    rows = [
        [
            str(point["update"]),
            f"{point['cpu_seconds']:.0f}",
            percent(point["accuracy"]),
            f"{point['loss']:.2f}",
            *_held_out(point),
        ]
        for point in shown
    ]
    told = {one["behaviour"]: one for one in report["foretold"]}
    by_behaviour = [
        [
            f"`{one['behaviour']}`",
            percent(one["share"]),
            percent(one["accuracy"]),
            *([percent(told[name]["accuracy"])] if (name := one["behaviour"]) in told else [""]),
        ]
        for one in bound["behaviours"]
    ]
    return [
        f"{counted(config['layers'], 'layer')}, {counted(config['heads'], 'head')}, width "
        f"{config['width']}, a context of {counted(config['context'], 'slice')}. It saw the masks "
        "and the counters of the slices placed on each core. Data: "
        f"`{report['data']['id']}`, {counted(report['data']['episodes'], 'episode')}, "
        f"{config['batch_size']} of them in an update. Products and attention were computed in "
        f"{config.get('precision', 'float32')}. {_learned_on(report)}",
        table(
            ["updates", "CPU seconds", "accuracy", "loss (nats)", "held out: accuracy", "loss"],
            rows,
        ),
        " ".join(
            [
                f"Of {config['updates']} updates {curve[-1]['update']} were made.",
                *_lowest(report),
            ]
        ),
        f"The best there can be without knowing episodes by heart: {percent(bound['accuracy'])} "
        f"accuracy, a loss of {bound['loss']:.2f}. Random actions can only be guessed. The last "
        f"column is of {sum(one['episodes'] for one in told.values())} further episodes, by the "
        f"network as it was after {report['player_updates']} updates:",
        table(
            ["behaviour", "share of the episodes", "accuracy at best", "accuracy, unseen"],
            by_behaviour,
        ),
        "All other behaviours count as foreseen. So a policy that is not told who plays stays "
        "below. Rules such as `lpt` read the load of the next slice. The paper's tokens do not "
        "hold it, so those rules cannot be foretold. Above the bound a network has learned "
        "episodes by heart.",
    ]


def _learned_on(report: Mapping[str, Any]) -> str:
    """Where it learned; results of earlier versions lack it, and are of a CPU."""
    if gpu := report.get("learned_on"):
        return f"It learned on a GPU, {gpu}; CPU seconds are those of the process beside it."
    return f"It learned on the CPU, with {counted(report['config']['threads'], 'thread')}."


def _held_out(point: Mapping[str, float]) -> list[str]:
    if "held_out_accuracy" not in point:
        return ["", ""]
    return [percent(point["held_out_accuracy"]), f"{point['held_out_loss']:.2f}"]


def _lowest(report: Mapping[str, Any]) -> list[str]:
    curve = report["curve"]
    told = [point for point in curve if "held_out_loss" in point]
    sentences = []
    if curve[-1]["update"] < report["config"]["updates"]:
        sentences.append("So these figures are of a training that is not finished.")
    if told:
        lowest = min(point["held_out_loss"] for point in told)
        sentences.append(
            f"The loss on episodes held out was lowest after {report['player_updates']} updates: "
            f"{lowest:.2f} nats."
        )
    return sentences


def _played(report: Mapping[str, Any], stored: Stored) -> list[str]:
    if not report["played"]:
        return []
    served = np.array([one["throughputs"] for one in report["played"]])
    wanted = [one["wanted"] for one in report["played"]]
    others = throughputs(stored, MACHINES, "same-task", report["settings"]["task"])
    # The suite plays at least as many episodes, from the same seed.
    others = {name: others[name][: served.shape[1]] for name in _BESIDE if name in others}
    best = np.max(list(others.values()), axis=0) if others else served.max(axis=0)
    rows = [[f"{share:g}", *_shown(row, best)] for share, row in zip(wanted, served, strict=True)]
    usual = served[wanted.index(_USUAL)]
    beside = {f"the network, {_USUAL:g} wanted": usual}
    beside |= {_BESIDE[name]: values for name, values in others.items()}
    reachable = [i for i, share in enumerate(wanted) if share <= _REACHABLE]
    found = rank_correlation([wanted[i] for i in reachable], served[reachable] / best)
    return [
        f"The same network played {counted(served.shape[1], 'episode')} that no data hold. "
        "Below are means over episodes, with 95 % intervals.",
        table(["wanted, of the best foreseen", "Mq/s", "of the best that played"], rows),
        f"Rank correlation of the wanted and the served share up to {_REACHABLE:g}: "
        f"{interval(found['value'], found['low'], found['high'], 2)} by episode, "
        f"{found['of_means']:.2f} of the means.",
        "Others played the same episodes.",
        table(
            ["schedule", "Mq/s", "of the best that played"],
            [[name, *_shown(row, best)] for name, row in beside.items()],
        ),
    ]


def _shown(values: Float64Array, best: Float64Array) -> list[str]:
    rate, share = paired_difference(values[None]), paired_difference(values[None] / best)
    return [
        interval(rate.value, rate.low, rate.high),
        interval(100 * share.value, *_hundred(share.low, share.high)) + " %",
    ]


def _hundred(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    return (None, None) if low is None or high is None else (100 * low, 100 * high)


BLOCKS = {"imitation": imitation}

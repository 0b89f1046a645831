"""The block on how well the paper's network imitates, and the best there can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmoss_benchmarks.texts.stored import Stored, counted, made, percent, table

_STORED = "imitation.json"
#: Rows of the curve that are shown, at most.
_SHOWN = 8


def imitation(stored: Stored) -> str:
    """Accuracy over updates and CPU time, and the bound of the demonstrators."""
    report = stored[_STORED]
    bound, curve, config = report["bound"], report["curve"], report["config"]
    step = max(1, -(-len(curve) // _SHOWN))
    shown = [*curve[::-1][::step]][::-1]
    rows = [
        [
            str(point["update"]),
            f"{point['cpu_seconds']:.0f}",
            percent(point["accuracy"]),
            f"{point['loss']:.2f}",
            percent(point["held_out_accuracy"]) if "held_out_accuracy" in point else "",
        ]
        for point in shown
    ]
    guessed = [one for one in bound["behaviours"] if one["accuracy"] < 1]
    random_ones = [
        [f"`{one['behaviour']}`", percent(one["share"]), percent(one["accuracy"])]
        for one in guessed
    ]
    parts = [
        "## The paper's network",
        f"{counted(config['layers'], 'layer')}, {counted(config['heads'], 'head')}, width "
        f"{config['width']}, a context of {counted(config['context'], 'slice')}. It saw the masks "
        "and the counters of the slices placed on each core. Data: "
        f"`{report['data']['id']}`, {counted(report['data']['episodes'], 'episode')}, "
        f"{config['batch_size']} of them in an update.",
        table(["updates", "CPU seconds", "accuracy", "loss (nats)", "accuracy, held out"], rows),
        f"Of {config['updates']} updates {curve[-1]['update']} were made.{_short(report)}",
        f"The best there can be without knowing episodes by heart: {percent(bound['accuracy'])} "
        f"accuracy, a loss of {bound['loss']:.2f}. Random actions can only be guessed:",
        table(["behaviour", "share of the episodes", "accuracy at best"], random_ones),
        "All other behaviours count as foreseen. So a policy that is not told who plays stays "
        "below. Above 95 % it has learned episodes by heart, or learned from other data.",
    ]
    if report["played"]:
        parts += [_played(report)]
    return "\n\n".join([*parts, made(report, f"benchmarks/results/{_STORED}")])


def _short(report: Mapping[str, Any]) -> str:
    done, total = report["curve"][-1]["update"], report["config"]["updates"]
    return "" if done >= total else " So these figures are of a training that is not finished."


def _played(report: Mapping[str, Any]) -> str:
    rows = [
        [
            f"{one['wanted']:g}",
            *(f"{one[name]:.1f}" for name in ("throughput", "random", "search", "score")),
        ]
        for one in report["played"]
    ]
    episodes = counted(report["played"][0]["episodes"], "episode")
    return "\n\n".join(
        [
            table(["wanted, of the best foreseen", "Mq/s", "Random", "search", "score"], rows),
            f"Means over {episodes} that no data hold, in Mq/s.",
        ]
    )


BLOCKS = {"imitation": imitation}

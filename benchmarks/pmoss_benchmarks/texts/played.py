"""Text on agents that learn by playing: what they served while they learned, and at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pmoss_benchmarks.offline.curves import learned_by_playing
from pmoss_benchmarks.texts.stored import Stored, interval, made, table

_TRACK = "same-task"
_FOLDER = "offline/core"
#: Shares of a training whose returns are shown.
_SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
_COLUMNS = ("agent", "million steps", "CPU minutes", "return while exploring, Mq/s")
_ENDS = ("agent", "million steps", "CPU hours", "score", "ahead of the best rule")


def curves(stored: Stored) -> str:
    """Each task of the core that agents learned by playing in: curves, ends, and the picture."""
    link = f"{_FOLDER}/summary.json"
    summary = stored[link]
    told = []
    cells = (cell for cell in summary["cells"].values() if cell["track"] == _TRACK)
    for task, of_task in learned_by_playing(cells).items():
        paired = summary["tracks"][_TRACK]["paired"][task]
        told += [
            f"{task}:",
            table(_COLUMNS, (row for cell in of_task for row in _on_the_way(cell))),
            f"After that, on {paired['episodes']} episodes that nobody played before:",
            table(_ENDS, (_at_the_end(cell, paired) for cell in of_task)),
        ]
    told.append(made(summary, "benchmarks/results/core.jsonl"))
    return "\n\n".join(told)


def _on_the_way(cell: Mapping[str, Any]) -> Iterator[list[str]]:
    rows = cell["training"]["played"]
    last = rows[-1]["steps"]
    for share in _SHARES:
        row = next(row for row in rows if row["steps"] >= share * last)
        minutes = row["cpu_seconds"] / 60
        yield [cell["agent"], f"{row['steps'] / 1e6:.2f}", f"{minutes:.1f}", f"{row['return']:.1f}"]


def _at_the_end(cell: Mapping[str, Any], paired: Mapping[str, Any]) -> list[str]:
    training, own = cell["training"], paired["policies"][cell["agent"]]
    return [
        cell["agent"],
        f"{training['source']['steps'] / 1e6:.2f}",
        f"{training['seconds'] / 3600:.2f}",
        *(
            interval(*(own[name][key] for key in ("value", "low", "high")))
            for name in ("score", "over_rule")
        ),
    ]


BLOCKS = {"core-played": curves}

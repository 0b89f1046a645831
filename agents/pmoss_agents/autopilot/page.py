"""The report of a loop: one HTML file that needs nothing else, no script either."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pmoss_agents.autopilot.loop import VERDICTS, Told
from pmoss_env.html_page import html_page, html_table

_WIDTH, _HEIGHT = 900, 220
#: Cores that a line of text has room for: the slowest.
_CORES = 4
_STYLE = """
svg { width: 100%; height: auto; } td:last-child, th:last-child { text-align: left; }
.kept { fill: var(--cold); } .reverted { fill: var(--hot); }
.line { fill: none; stroke: var(--ink); }
"""


def trial_in_words(told: Told) -> str:
    """What the trial of an epoch has shown, beside what the agent foretold."""
    if (trial := told.trial) is None:
        return ""
    foretold = "" if told.expected is None else f"foretold {told.expected:+.0%}, "
    measured = "nothing served" if told.measured is None else f"measured {told.measured:+.0%}"
    return f"{trial.slices} slices, {foretold}{measured}, {len(trial.gains)} pairs"


def belief_in_words(told: Told, workers: Sequence[int]) -> str:
    """What the counters say of the cores: the share of its time that each had for queries.

    Args:
        told: of an epoch.
        workers: the worker cores, in their order.
    """
    slowest = sorted(zip(told.speeds, workers, strict=True))[:_CORES]
    cores = ", ".join(f"core {core} {speed:.0%}" for speed, core in slowest)
    return f"believes in: {cores}{', others more' if len(told.speeds) > _CORES else ''}"


def report_page(told: Sequence[Told], title: str, notes: Sequence[str]) -> str:
    """The page.

    Args:
        told: of all epochs, at least one.
        title: what ran.
        notes: what else is to be told, a paragraph each.
    """
    verdicts = [one.verdict for one in told]
    counted = ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)
    paragraphs = "".join(f"<p>{escape(note)}</p>" for note in notes)
    table = html_table(
        ["epoch", "s", "Mq/s", "under way", "verdict", "trial"],
        [
            (
                str(one.epoch),
                f"{one.seconds:.1f}",
                f"{one.throughput:.3f}",
                str(one.pending),
                one.verdict,
                "; ".join(_words(one)),
            )
            for one in told
        ],
    )
    body = f"<p>{len(told)} epochs: {counted}.</p>{paragraphs}{_timeline(told)}{table}"
    return html_page(title, body, _STYLE)


def _words(told: Told) -> list[str]:
    """All that an epoch has to tell."""
    return [
        *filter(None, (trial_in_words(told), told.trouble)),
        *(event.text for event in told.events),
    ]


def _timeline(told: Sequence[Told]) -> str:
    """Throughput by time, with a mark where a change was tried."""
    top = max(one.throughput for one in told) or 1.0
    end = told[-1].seconds or 1.0
    points = [
        (_WIDTH * one.seconds / end, _HEIGHT * (1.0 - one.throughput / top / 1.1)) for one in told
    ]
    marks = "".join(
        f'<circle class="{one.verdict}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
        f"<title>epoch {one.epoch}: {one.verdict}</title></circle>"
        for one, (x, y) in zip(told, points, strict=True)
        if one.trial is not None
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<svg viewBox="-5 -5 {_WIDTH + 10} {_HEIGHT + 10}" role="img" '
        f'aria-label="Throughput over {end:.0f} s, at most {top:.3f} million queries per second">'
        f'<polyline class="line" points="{line}"/>{marks}</svg>'
        f"<p>Throughput, at most {top:.3f} Mq/s. Blue: a change that was kept. Orange: one that "
        "was reverted.</p>"
    )

"""The report of a loop: one HTML file without scripts or other files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from pmoss_agents.autopilot.decision import smallest_gain
from pmoss_agents.autopilot.loop import VERDICTS, Outcome
from pmoss_env.html_page import html_page, html_table
from pmoss_env.measuring import overload_in_words

#: Of the plot, in pixels: its width and height, and the room for labels at its left.
_WIDTH, _HEIGHT, _LEFT = 840, 220, 60
#: A host is too noisy where half of the trials miss a gain of this share.
_NOISY = 0.2
#: Cores that a line of text has room for: the slowest.
_CORES = 4
_STYLE = """
svg { width: 100%; height: auto; } td:last-child, th:last-child { text-align: left; }
svg text { font: 13px system-ui, sans-serif; fill: var(--quiet); }
.kept { fill: var(--cold); } .reverted { fill: var(--hot); }
.line { fill: none; stroke: var(--ink); } .grid { stroke: var(--line); }
"""


def trial_in_words(outcome: Outcome) -> str:
    """The measured gain of an epoch's trial, beside the gain that the agent expected."""
    if (trial := outcome.trial) is None:
        return ""
    expected = "" if outcome.expected is None else f"predicted {outcome.expected:+.0%}, "
    gain = outcome.measured
    measured = "nothing served" if gain is None else f"measured {gain:+.0%}"
    if gain is not None and (interval := trial.interval) is not None:
        measured += " [{:+.0%}, {:+.0%}]".format(*(end - 1 for end in interval))
    pairs = f"{len(trial.gains)} pairs on {outcome.records:,} records"
    return f"{trial.slices} slices, {expected}{measured}, {pairs}"


def belief_in_words(outcome: Outcome, workers: Sequence[int]) -> str:
    """The speeds of the cores by the counters: the share of its time that each had for queries.

    Args:
        outcome: of an epoch.
        workers: the worker cores, in their order.
    """
    slowest = sorted(zip(outcome.speeds, workers, strict=True))[:_CORES]
    cores = ", ".join(f"core {core} {speed:.0%}" for speed, core in slowest)
    return f"believes in: {cores}{', others more' if len(outcome.speeds) > _CORES else ''}"


def in_words(outcomes: Sequence[Outcome]) -> str:
    """The number of epochs, their mean throughput, and the outcomes of proposals."""
    verdicts = [outcome.verdict for outcome in outcomes]
    counted = ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)
    mean = sum(outcome.throughput for outcome in outcomes) / max(len(outcomes), 1)
    text = f"{len(outcomes)} epochs, {mean:.3f} Mq/s in the mean: {counted}."
    if overloads := [*filter(None, (overload_in_words(each.snapshot) for each in outcomes))]:
        text += f" In {len(overloads)} of them {overloads[-1]}."
    if reloads := sum(bool(outcome.reloaded) for outcome in outcomes):
        text += f" The index was loaded anew {reloads} times, as it had grown."
    return f"{text} {noise_in_words(outcomes)}".rstrip()


def noise_in_words(outcomes: Sequence[Outcome]) -> str:
    """The gains that trials can tell in the noise of this host; empty without enough pairs."""
    gains = [outcome.trial.gains for outcome in outcomes if outcome.trial is not None]
    if (gain := smallest_gain(gains)) is None:
        return ""
    if gain > _NOISY:
        return (
            f"This host is too noisy to tell gains below {gain:.0%}: a change that was reverted "
            "may be a good one. Longer epochs and fewer other programs help."
        )
    return f"Trials could tell gains from {gain:.1%} on."


def report_page(outcomes: Sequence[Outcome], title: str, notes: Sequence[str]) -> str:
    """The page.

    Args:
        outcomes: of all epochs, at least one.
    """
    paragraphs = "".join(f"<p>{escape(note)}</p>" for note in (in_words(outcomes), *notes))
    table = html_table(
        ["epoch", "s", "Mq/s", "under way", "verdict", "trial"],
        [
            (
                str(outcome.epoch),
                f"{outcome.seconds:.1f}",
                f"{outcome.throughput:.3f}",
                str(outcome.pending),
                outcome.verdict,
                "; ".join(
                    filter(None, (trial_in_words(outcome), outcome.trouble, outcome.reloaded))
                ),
            )
            for outcome in outcomes
        ],
    )
    return html_page(title, f"{paragraphs}{_timeline(outcomes)}{table}", _STYLE)


def _timeline(outcomes: Sequence[Outcome]) -> str:
    """Throughput by time, with a mark where a change was tried."""
    step = _tick(max(outcome.throughput for outcome in outcomes) or 1.0)
    top = step * math.ceil(1.02 * (max(each.throughput for each in outcomes) or 1.0) / step)
    end = outcomes[-1].seconds or 1.0

    def at(seconds: float, rate: float) -> tuple[float, float]:
        return _LEFT + _WIDTH * seconds / end, _HEIGHT * (1.0 - rate / top)

    axes = ""
    for number in range(round(top / step) + 1):
        _, y = at(0.0, number * step)
        axes += (
            f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text text-anchor="end" x="{_LEFT - 8}" y="{y + 4:.1f}">{number * step:g}</text>'
        )
    times = _tick(end)
    for number in range(int(end / times) + 1):
        x, _ = at(number * times, 0.0)
        axes += (
            f'<text text-anchor="middle" x="{x:.1f}" y="{_HEIGHT + 20}">{number * times:g}</text>'
        )
    axes += (
        f'<text x="{_LEFT}" y="-12">million queries per second</text>'
        f'<text text-anchor="end" x="{_LEFT + _WIDTH}" y="{_HEIGHT + 40}">seconds</text>'
        f'<circle class="kept" cx="{_LEFT + 260}" cy="-16" r="4"/>'
        f'<text x="{_LEFT + 270}" y="-12">a change that was kept</text>'
        f'<circle class="reverted" cx="{_LEFT + 450}" cy="-16" r="4"/>'
        f'<text x="{_LEFT + 460}" y="-12">one that was reverted</text>'
    )
    line, marks = [], ""
    for outcome in outcomes:
        x, y = at(outcome.seconds, outcome.throughput)
        line.append(f"{x:.1f},{y:.1f}")
        if outcome.trial is not None:
            marks += (
                f'<circle class="{outcome.verdict}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
                f"<title>epoch {outcome.epoch}: {outcome.verdict}</title></circle>"
            )
    return (
        f'<svg viewBox="0 -30 {_LEFT + _WIDTH + 20} {_HEIGHT + 80}" role="img" '
        f'aria-label="Throughput over {end:.0f} s, at most {top:.3g} million queries per second">'
        f'{axes}<polyline class="line" points="{" ".join(line)}"/>{marks}</svg>'
    )


def _tick(top: float) -> float:
    """A round step that divides 0 to ``top`` into 3 to 7 parts."""
    power = 10.0 ** math.floor(math.log10(top))
    return power * next(part for part in (0.2, 0.5, 1.0, 2.0) if top / power / part <= 7)

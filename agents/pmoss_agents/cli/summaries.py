"""Printed comparisons of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pmoss_env.cli.console import console, table

if TYPE_CHECKING:
    from pmoss_datasets.domain import Domain
    from pmoss_datasets.evaluation import Summary


def print_summaries(
    summaries: Sequence[Summary],
    title: str,
    domain: Domain,
    asked: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Prints a row per policy, the worst first. A cost has no minus.

    What policies ``asked`` before they decided has a column each; see mean_asked().
    """
    from pmoss_datasets.evaluation import with_interval

    asked = asked or {}
    rows = []
    for s in sorted(summaries, key=lambda s: s.throughput):
        ends = [domain.shown(x) for x in (s.throughput_low, s.throughput_high) if x is not None]
        rows.append(
            [
                s.policy,
                with_interval(domain.shown(s.throughput), *(sorted(ends) or (None, None))),
                with_interval(s.score, s.score_low, s.score_high),
                f"{1e3 * s.seconds_per_decision:.2f}",
                *(f"{counts.get(s.policy, 0):,.0f}" for counts in asked.values()),
            ]
        )
    columns = [
        domain.kind,
        f">{domain.unit} [95 %]",
        ">score [95 %]",
        ">ms / decision",
        *(f">{name}" for name in asked),
    ]
    console.print(table(title, columns, rows))
    illegal = sum(s.illegal_actions for s in summaries)
    console.print(f"Illegal actions: {illegal}.")

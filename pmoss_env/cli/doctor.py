"""`pmoss doctor`: the abilities of this host, and the losses without each."""

from __future__ import annotations

import os
from dataclasses import asdict

from pmoss_env.cli.console import AsJson, console, show_json, table


def doctor(as_json: AsJson = False) -> None:
    """Show the abilities of this host for measurements, and the loss without each.

    Example: pmoss doctor --json
    """
    from pmoss_env.host_report import host_report

    report = host_report()
    if as_json:
        show_json(asdict(report))
        return
    console.print(report.summary, style="bold")
    rows = [(check.name, check.value, check.verdict) for check in report.checks]
    console.print(table("This host", ["what", "found", "what follows"], rows))
    rows = [(event.name, event.source, event.lost) for event in report.events]
    console.print(table("Counters, one by one", ["event", "counted by", "lost without it"], rows))
    reasons: dict[str, list[str]] = {}
    for event in report.events:
        if event.reason:
            reasons.setdefault(event.reason, []).append(event.name)
    for reason, names in reasons.items():
        console.print(f"{', '.join(names)}: {reason}")
    available = sum(event.source != "none" for event in report.events)
    console.print(
        f"{available} of {len(report.events)} events can be counted here, by user id {os.getuid()}."
    )

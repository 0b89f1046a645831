"""`pmoss doctor`: what this host offers, and what is lost without each."""

from __future__ import annotations

import os

from pmoss_env.cli.console import console, table


def doctor() -> None:
    """Say what this host offers for measuring, and what is lost where something is missing."""
    from pmoss_env.host_report import host_report

    report = host_report()
    console.print(f"[bold]{report.summary}[/]")
    rows = [(check.name, check.value, check.verdict) for check in report.checks]
    console.print(table("This host", ["what", "found", "what follows"], rows))
    rows = [(event.name, event.source, event.consequence) for event in report.events]
    console.print(table("Counters, one by one", ["event", "counted by", "what follows"], rows))
    available = sum(event.source in ("hardware", "software") for event in report.events)
    console.print(
        f"{available} of {len(report.events)} events can be counted here (user id {os.getuid()})."
    )

"""The block about the model of migration."""

from __future__ import annotations

from pmoss_benchmarks.continual.migration import GOAL
from pmoss_benchmarks.texts.stored import Stored, counted, made, percent, table


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


BLOCKS = {"migration": migration}

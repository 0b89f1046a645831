"""Blocks about threads on slow memory: run times, and the paper's rows."""

from __future__ import annotations

import numpy as np

from pmoss_benchmarks.texts.stored import Stored, counted, made, table


def times(stored: Stored) -> str:
    """Minutes of every program under every method."""
    report = stored["threads/threads.json"]
    runs = report["runs"]
    methods = list(next(iter(runs.values())))
    minutes = {
        program: [float(np.mean([run["seconds"] for run in of[method]])) / 60 for method in methods]
        for program, of in runs.items()
    }
    sums = np.sum(list(minutes.values()), axis=0).tolist()
    cells = [[name, *(f"{m:.2f}" for m in row)] for name, row in {**minutes, "sum": sums}.items()]
    return "\n".join(
        [
            table(["minutes", *methods], cells),
            "",
            f"Simulated minutes, means over {counted(report['seeds'], 'seed')}.",
            made(report, "benchmarks/results/threads/threads.json"),
        ]
    )


def rows(stored: Stored) -> str:
    """The paper's figures beside ours, with the causes of what misses them."""
    report = stored["threads/threads.json"]
    found = report["rows"]
    judged = [row for row in found if not row["fitted"]]
    inside = sum(row["verdict"] == "inside" for row in judged)
    cells = [
        (row["statement"], row["paper"], f"{row['ours']:.4g}", row["verdict"], row["cause"])
        for row in found
    ]
    timings = report["timings"]
    return "\n".join(
        [
            f"{inside} of the {len(judged)} judged rows lie inside their range.",
            f"{counted(len(found) - len(judged), 'more row')} set values that no source gives, "
            "and are not judged.",
            f"A LinUCB decision takes {timings['decision_us']:.0f} us.",
            f"A core simulates {timings['epochs_per_s']:,.0f} epochs per second, "
            f"{timings['env_epochs_per_s']:,.0f} through the environment.",
            "",
            table(["statement", "paper", "ours", "verdict", "cause where it misses"], cells),
            "",
            made(report, "threads/threads.json"),
        ]
    )


BLOCKS = {"thread-times": times, "thread-rows": rows}

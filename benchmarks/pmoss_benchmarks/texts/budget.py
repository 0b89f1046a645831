"""The block about budgets of measurements."""

from __future__ import annotations

from pmoss_benchmarks.texts.stored import Stored, interval, made, table

#: Columns of the text; all are beside the results.
_SHOWN = (0, 1, 3, 10, 30, 100)


def budgets(stored: Stored) -> str:
    """Scores of rules, searches and agents by the schedules that they may run first."""
    summary = stored["budget/summary.json"]
    places = [summary["budgets"].index(budget) for budget in _SHOWN]
    lines: list[str] = []
    for task, of_task in summary["tasks"].items():
        for noise, found in of_task["noise"].items():
            words = "without noise" if float(noise) == 0 else "with the noise of hardware"
            rows = []
            for name, told in found["policies"].items():
                cells = [
                    interval(*(told["score"][b][key] for key in ("value", "low", "high")))
                    if b < len(told["score"])
                    else ""
                    for b in places
                ]
                rows.append([name, *cells])
            lines += [f"{task}, {words}, {found['episodes']} episodes.", ""]
            lines += [table(["policy", *map(str, _SHOWN)], rows), ""]
        if of_task["gap"]:
            above = of_task["gap"]["mean"]
            lines += [
                f"An upper bound on the throughput of {task} lies {above:.0f} % above what scores "
                "100.",
                "",
            ]
    lines.append(made(summary, "benchmarks/results/budget/summary.json"))
    return "\n".join(lines)


BLOCKS = {"budgets": budgets}

"""The block about data measured on a host, and what was learned from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pmoss_benchmarks.spatial.measured_data import ratios, repeats, throughputs
from pmoss_benchmarks.texts.stored import Stored, counted, interval, made, table
from pmoss_datasets.evaluation.statistics import ratio_of_means

_OVER = ("incumbent", "lpt", "lpt-capacity")


def measured_data(stored: Stored) -> str:
    """Every learner and rule beside staying, LPT and LPT that knows capacities."""
    report = stored["measured-data.json"]
    settings, cells = report["settings"], report["cells"]
    means, of = throughputs(cells), ratios(cells, _OVER)
    rows = [
        (
            f"`{name}`" if "," not in name else name,
            f"{means[name].mean():.2f}",
            *(_ratio(of[name][other]) for other in _OVER),
        )
        for name in sorted(means, key=lambda name: -float(means[name].mean()))
    ]
    first, again = repeats(cells)
    same = ratio_of_means(again, first)
    single = float(np.log(again / first).std(ddof=1))
    loads = [cell["host_load"] for cell in cells]
    return "\n".join(
        [
            table(["policy", "Mq/s", *(f"over `{name}`" for name in _OVER)], rows),
            "",
            f"Means over {counted(first.size, 'episode')} on one host, with 95 % intervals. "
            "Every policy meets the same episodes, with co-tenants drawn anew in each.",
            f"The data are `{settings['data']}`: {settings['measured']:,} episodes, each with the "
            "counters of two schedules.",
            f"The model's data are {settings['modelled']:,} episodes of the analytic model of this "
            "host, as `pmoss machines import` describes it.",
            f"A/A test: the incumbent measured again serves "
            f"{interval(same.value, same.low, same.high, 2)} times what it served first. A single "
            f"pair differs by {100 * (np.exp(single) - 1):.0f} % (standard deviation).",
            f"The load average of the host was {min(loads):.1f} to {max(loads):.1f}, with the "
            "index's own threads.",
            made(report, "benchmarks/results/measured-data.json"),
        ]
    )


def _ratio(one: Mapping[str, Any]) -> str:
    return interval(one["value"], one["low"], one["high"], 2)


BLOCKS = {"measured-data": measured_data}

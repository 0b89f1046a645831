"""The index of the standard suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmoss_benchmarks.datasets import every_id
from pmoss_benchmarks.texts.stored import Stored, counted, made, table
from pmoss_datasets.index import as_table
from pmoss_datasets.suite import recipe_of

_FILE = "datasets.json"


def index(stored: Stored) -> str:
    """Every dataset of the suite that was looked at, by environment, and which are missing."""
    report = stored[_FILE]
    lines = report["datasets"]
    parts = []
    for domain in dict.fromkeys(one["domain"] for one in lines):
        mine = [one for one in lines if one["domain"] == domain]
        parts.append(f"### {domain.capitalize().replace('-', ' ')}\n\n{table(*as_table(mine))}")
    there = {one["id"] for one in lines}
    missing = [id_ for id_ in every_id() if id_ not in there]
    licences = sorted({one["licence"] for one in lines})
    megabytes = sum(one["bytes"] for one in lines) / 1e6
    told = (
        f"{counted(len(lines), 'dataset')} of the {len(there) + len(missing)} of the suite, "
        f"{megabytes:.0f} MB in the compact form. Licence: {', '.join(licences)}."
    )
    if missing:
        told += f" [The other {len(missing)}](#not-built-here) were not built where this was made."
        parts.append(_not_built(missing, lines))
    return "\n\n".join([told, *parts, made(report, f"benchmarks/results/{_FILE}")])


def _not_built(missing: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> str:
    """Those that nobody looked at, with the size that built ones let expect."""
    rows, total = [], 0.0
    for id_ in missing:
        recipe = recipe_of(id_)
        alike = [one for one in lines if one["domain"] == recipe.domain]
        alike = [one for one in alike if one["id"].split("/")[1] == recipe.task] or alike
        share = recipe.episodes / sum(one["episodes"] for one in alike) if alike else 0.0
        megabytes = share * sum(one["bytes"] for one in alike) / 1e6
        steps = round(share * sum(one["steps"] for one in alike))
        total += megabytes
        expected = (f"{steps:,}", f"{megabytes:.1f}") if alike else ("", "")
        rows.append([f"`{id_}`", f"{recipe.episodes:,}", *expected])
    words = (
        f"`pmoss datasets build ID` makes each of these {len(missing)}. MB are those that built "
        "ones of the same task let expect, else those of the same environment; "
        f"{total:.0f} MB together. A place is empty where none is built."
    )
    head = ["dataset", "episodes", "steps", "MB, expected"]
    return f"### Not built here\n\n{words}\n\n{table(head, rows)}"


BLOCKS = {"dataset-index": index}

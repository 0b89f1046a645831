"""The index of the standard suite."""

from __future__ import annotations

from pmoss_benchmarks.datasets import every_id
from pmoss_benchmarks.texts.stored import Stored, counted, made, table
from pmoss_datasets.index import as_table

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
        tiers = sorted({id_.rpartition("/")[2] for id_ in missing})
        told += (
            f" The other {len(missing)} were not built where this index was made; they are of the "
            f"tiers {', '.join(tiers)}."
        )
    return "\n\n".join([told, *parts, made(report, f"benchmarks/results/{_FILE}")])


BLOCKS = {"dataset-index": index}

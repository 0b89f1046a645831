"""The dataset card: what a dataset is, in words and numbers, made from its metadata."""

from __future__ import annotations

import json

import numpy as np

from pmoss_datasets.schema import Array
from pmoss_datasets.storage import Dataset
from pmoss_env.backends import backend_class
from pmoss_env.errors import PmossError

_BINS = 10
_BAR = 30


def card(dataset: Dataset) -> str:
    """Markdown: what it holds, how it was measured, units, returns by policy, known limits."""
    metadata = dataset.metadata
    env, machine = metadata.env_kwargs, dataset.machine
    task = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
    final = dataset.column("final_throughput")
    start = dataset.column("incumbent_throughput")
    sections = [
        f"# {metadata.id}",
        f"{len(dataset)} episodes of {dataset.slices} steps in `pmoss/SpatialScheduling-v0`: each "
        f"step puts one slice of a main-memory index on one of {machine.workers.size} worker "
        f"cores of {machine.name} ({machine.nodes} nodes). Seed {metadata.seed}, pmoss-env "
        f"{metadata.code_version}, schema {metadata.schema_version}, checksum "
        f"{dataset.checksum[:12]}.",
        "## Task",
        task + ".",
        "## How it was measured",
        _measurement(dataset),
        "## Policies and returns",
        "Final throughput in million queries per second (Mq/s), which is the return of the reward "
        "modes `terminal` and `slice`; that of `improvement` is less by the incumbent's, "
        f"{start.mean():.1f} on average.",
        _policies(dataset),
        "```\n" + _histogram(final) + "\n```",
    ]
    if metadata.reference_scores:
        sections += ["## Reference scores", _references(dataset)]
    if metadata.headroom:
        sections += ["## Headroom", _headroom(dataset)]
    sections += ["## Known limits", _limits(dataset)]
    return "\n\n".join(sections) + "\n"


def _measurement(dataset: Dataset) -> str:
    provenance = dataset.metadata.provenance
    backend = str(provenance.get("backend", dataset.metadata.env_kwargs.get("backend")))
    try:
        kind = backend_class(backend)
    except PmossError:  # of a package that is not installed here
        how = f"By {backend}."
    else:
        again = "The same recipe gives the same bits."
        how = f"{kind.method}. {again if kind.repeatable else 'It cannot be measured again.'}"
    told = json.dumps(provenance, sort_keys=True)
    units = "Counters in million counts per second per slice, off-core values in GB/s, latencies "
    return f"{how} Provenance: `{told}`. {units}in microseconds, throughputs in Mq/s."


def _policies(dataset: Dataset) -> str:
    final, policy = dataset.column("final_throughput"), dataset.column("policy")
    lines = ["| policy | episodes | mean | least | most |", "|---|---|---|---|---|"]
    for i, name in enumerate(dataset.metadata.policy_names):
        mine = final[policy == i]
        if mine.size:
            least, most = mine.min(), mine.max()
            lines.append(f"| {name} | {mine.size} | {mine.mean():.1f} | {least:.1f} | {most:.1f} |")
    return "\n".join(lines)


def _histogram(values: Array) -> str:
    counts, edges = np.histogram(values, bins=_BINS)
    return "\n".join(
        f"{low:8.1f} .. {high:8.1f} Mq/s {'#' * round(_BAR * count / counts.max()):<{_BAR}} {count}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    )


def _references(dataset: Dataset) -> str:
    scores = dataset.metadata.reference_scores
    meaning = {
        "random": "score 0: random legal schedules",
        "search": f"score 100: local search, {scores['search'].get('budget')} evaluations",
        "incumbent": "at the start of the same episodes",
    }
    lines = ["| | mean Mq/s | std | n |", "|---|---|---|---|"]
    for name, text in meaning.items():
        score = scores[name]
        lines.append(f"| {text} | {score['mean']:.1f} | {score['std']:.1f} | {score['n']} |")
    return "\n".join(lines)


def _headroom(dataset: Dataset) -> str:
    found = dataset.metadata.headroom
    return (
        f"Search finds {found['headroom']:+.0%} over the best simple schedule "
        f"({found['best_simple']}) by the analytic model, {found['simulated_headroom']:+.0%} by "
        "the simulated server (`pmoss benchmark headroom`)."
    )


def _limits(dataset: Dataset) -> str:
    metadata = dataset.metadata
    limits = [
        "Absolute throughputs depend on the software cost of an operation: compare schedules.",
        "The context of an episode (workload instance, neighbours) is stored, but no observation "
        "shows it: a policy must read the counters.",
    ]
    if np.isnan(dataset.column("throughput")[:, :-1]).any():
        limits.append("Not every step was measured: there is no `improvement` reward.")
    if np.isnan(dataset.column("propensity")).any():
        limits.append("The chances of some choices are not known (NaN in `propensity`).")
    absent = [
        name
        for name, ratio in zip(
            metadata.counter_names, dataset.column("incumbent_running_ratio")[0], strict=True
        )
        if ratio <= 0
    ]
    if absent:
        limits.append(f"Counters that could not be counted: {', '.join(absent)}.")
    return "\n".join(f"- {limit}" for limit in limits)

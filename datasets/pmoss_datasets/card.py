"""The dataset card: a description in words and numbers, made from the metadata."""

from __future__ import annotations

import json

import numpy as np

from pmoss_datasets.quality import (
    relative_outcomes,
    state_action_coverage,
    trajectory_quality,
)
from pmoss_datasets.schema import Array
from pmoss_datasets.storage import Dataset
from pmoss_datasets.suite import MEASURED, licence_of

_BINS = 10
_BAR = 30


def card(dataset: Dataset, licence: str = "") -> str:
    """Markdown: contents, measurement, units, returns by policy, limits, licence.

    Args:
        licence: of data of one's own, an SPDX name; what committed recipes give has one.
    """
    metadata, domain = dataset.metadata, dataset.domain
    texts = domain.describe(dataset)
    task = ", ".join(f"{key} = {json.dumps(value)}" for key, value in metadata.env_kwargs.items())
    sections = [
        f"# {metadata.id}",
        f"{len(dataset)} episodes {texts['episodes']} Seed {metadata.seed}, pmoss-env "
        f"{metadata.code_version}, schema {metadata.schema_version}, checksum "
        f"{dataset.checksum[:12]}.",
        "## Task",
        task + ".",
        "## How it was measured",
        texts["measured"],
        "## Policies and returns",
        texts["outcome"],
        _policies(dataset),
        "```\n" + _histogram(dataset.column(domain.outcome), domain.unit) + "\n```",
    ]
    sections += ["## Quality and coverage", _quality(dataset)]
    if metadata.reference_scores:
        sections += ["## Reference scores", _references(dataset)]
    if metadata.headroom:
        sections += ["## Headroom", _headroom(dataset)]
    limits = [line for line in texts.get("limits", "").splitlines() if line]
    if np.isnan(dataset.column("propensity")).any():
        limits.append("The chances of some choices are not known (NaN in `propensity`).")
    sections += ["## Known limits", "\n".join(f"- {limit}" for limit in limits) or "None."]
    sections += ["## Licence", _licence(dataset, licence)]
    return "\n\n".join(sections) + "\n"


def _licence(dataset: Dataset, given: str) -> str:
    if given:
        return f"{given}."
    if licence := licence_of(dataset):
        source = "this project measured" if dataset.id in MEASURED else "a recipe of pmoss_env gave"
        return f"{licence}: {source} these data."
    return "None is stated: ask who collected these data."


def _policies(dataset: Dataset) -> str:
    final, policy = dataset.column(dataset.domain.outcome), dataset.column("policy")
    lines = ["| policy | episodes | mean | least | most |", "|---|---|---|---|---|"]
    for i, name in enumerate(dataset.metadata.policy_names):
        mine = final[policy == i]
        if mine.size:
            lowest, highest = mine.min(), mine.max()
            lines.append(
                f"| {name} | {mine.size} | {mine.mean():.1f} | {lowest:.1f} | {highest:.1f} |"
            )
    return "\n".join(lines)


def _quality(dataset: Dataset) -> str:
    quality, relative = trajectory_quality(dataset), relative_outcomes(dataset)
    lines = []
    best = "search" if "search" in dataset.domain.references else "the best policy"
    if quality is not None:
        subject = (
            "each episode's own instance" if relative is not None else "the reference episodes"
        )
        lines.append(
            f"- Trajectory quality (TQ): {quality:.2f}. 0 is the mean of random actions, 1 what "
            f"{best} reaches, on {subject}."
        )
    lines.append(
        f"- State-action coverage (SACo): {state_action_coverage(dataset):.2f} of the pairs that "
        "random actions show in the same states."
    )
    if relative is not None:
        policy = dataset.column("policy")
        for i, name in enumerate(dataset.metadata.policy_names):
            if (mine := relative[policy == i]).size:
                lines.append(f"- {name}: {np.nanmean(mine):.2f} relative to the instance.")
    lines.append("- Both measures are those of Schweighofer et al. (2022); see `quality.py`.")
    return "\n".join(lines)


def _histogram(values: Array, unit: str) -> str:
    counts, edges = np.histogram(values, bins=_BINS)
    return "\n".join(
        f"{low:8.1f} .. {high:8.1f} {unit} "
        f"{'#' * round(_BAR * count / counts.max()):<{_BAR}} {count}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    )


def _references(dataset: Dataset) -> str:
    scores, unit = dataset.metadata.reference_scores, dataset.domain.unit
    lines = [f"| | mean {unit} | std | n |", "|---|---|---|---|"]
    for name in dataset.domain.references:
        score = scores[name]
        text = dataset.domain.reference_text(name, score)
        lines.append(f"| {text} | {score['mean']:.1f} | {score['std']:.1f} | {score['n']} |")
    bottom, top = (scores[name] for name in dataset.domain.references[:2])
    if (length := abs(top["mean"] - bottom["mean"])) > 0:
        error = 100 * bottom["std"] / bottom["n"] ** 0.5 / length
        lines += ["", f"The standard error of score 0 is {error:.0f} points."]
    return "\n".join(lines)


def _headroom(dataset: Dataset) -> str:
    headroom = dataset.metadata.headroom
    rules = ""
    if (over_rules := headroom.get("headroom_over_rules")) is not None:
        rules = f" Over the best of these and of rules that read counters: {over_rules:+.0%}."
    return (
        f"Search finds {headroom['headroom']:+.0%} over the best simple schedule "
        f"({headroom['best_simple']}) by the analytic model, {headroom['simulated_headroom']:+.0%} "
        f"by the simulated server (the study `headroom`).{rules}"
    )

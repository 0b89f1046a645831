"""Blocks about the spatial environment: demo, estimators, transcripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pmoss_benchmarks.texts.stored import (
    Stored,
    counted,
    interval,
    made,
    table,
)
from pmoss_benchmarks.texts.transcripts import COMMANDS

#: The first columns of the demo's table.
_DEMO = ("schedule", "measurements", "evaluations")


def demo(stored: Stored) -> str:
    """What ``./run demo`` prints, and what its figures say."""
    summary = stored["demo/summary.json"]
    policies = {policy["policy"]: policy for policy in summary["policies"]}
    tries = summary["measurements"]
    rows = [
        (
            policy["policy"],
            # What a search asks its model about did not run on the server.
            "0" if policy["policy"] == "local-search" else f"{policy['measured']:,}",
            f"{policy['measured']:,}" if policy["policy"] == "local-search" else "0",
            interval(policy["throughput"], policy["throughput_low"], policy["throughput_high"]),
            interval(policy["score"], policy["score_low"], policy["score_high"]),
            f"{policy['seconds_per_decision'] * 1e3:.2f}",
        )
        for policy in sorted(policies.values(), key=lambda policy: float(policy["throughput"]))
    ]
    shipped, tuned = policies["surrogate"], policies["surrogate, tuned"]
    measured = policies[f"surrogate, tuned + {tries}"]
    plain = [policies[name] for name in ("random", "grouped", "spread", "mixed")]
    rules = [policies[name] for name in ("lpt", "lpt-capacity", "greedy-capacity", "best-fit")]
    equal = [policies[f"{name} + {tries}"] for name in ("best-fit", "greedy-capacity")]
    best, rule, rival = (max(of, key=_throughput) for of in (plain, rules, equal))
    ratio = tuned["throughput"] / best["throughput"]
    over_rule = tuned["throughput"] / rule["throughput"]
    agent, tuning = summary["agent"], summary["tuning"]
    lines = [
        table([*_DEMO, "Mq/s [95 %]", "score [95 %]", "ms per decision"], rows),
        "",
        f"Means over {tuned['episodes']} unseen incumbents. `surrogate` is `{agent['name']}` as it "
        "ships. It learned beside other co-tenants.",
        "`surrogate, tuned` went on learning from "
        f"{counted(tuning['episodes'], 'logged episode')} of this server, for "
        f"{summary['seconds']['fine-tuning']:.0f} seconds.",
        "Measurements are schedules that run on the server before one decides. Evaluations are "
        "schedules that a search asks the model about.",
        "Score 0 is the mean of random schedules, 100 the best that a long search of the model "
        f"found. All of the demo took {sum(summary['seconds'].values()):.0f} seconds.",
        "",
        f"At once the agent serves {shipped['throughput']:.1f} Mq/s. `{best['policy']}`, the best "
        f"of the schedules that read no counter, serves {best['throughput']:.1f}.",
        f"Tuned, the agent serves {tuned['throughput']:.1f}: {ratio:.2f} times as much as "
        f"`{best['policy']}`, and {over_rule:.2f} times as much as `{rule['policy']}`. That is the "
        f"best rule, which serves {rule['throughput']:.1f}.",
        f"After {tries} measurements the agent serves {measured['throughput']:.1f} Mq/s. The best "
        f"search after as many, `{rival['policy']}`, serves {rival['throughput']:.1f}, and "
        f"{summary['search_budget']:,} evaluations of the model reach "
        f"{policies['local-search']['throughput']:.1f}.",
        "",
        made(summary, "demo/summary.json"),
    ]
    return "\n".join(lines)


def _throughput(policy: Mapping[str, Any]) -> float:
    return float(policy["throughput"])


def transcript(name: str) -> Callable[[Stored], str]:
    """The block with what a command of ``transcripts.py`` printed."""

    def block(stored: Stored) -> str:
        report = stored[f"transcripts/{name}.json"]
        # As the command is spelled today: a file may hold an older spelling.
        return "\n".join(["```console", f"$ {COMMANDS[name][0]}", report["output"], "```"])

    return block


BLOCKS = {
    **{f"transcript-{name}": transcript(name) for name in COMMANDS},
    "demo": demo,
}

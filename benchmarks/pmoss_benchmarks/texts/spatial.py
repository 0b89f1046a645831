"""Blocks about the spatial environment: demo, error card, statements, headroom, estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def validation_counts(stored: Stored) -> str:
    """How many published statements hold, and by what P-MOSS is judged."""
    report, verdicts = stored["validation.json"], stored.validation
    asked = [v for v in verdicts if v["verdict"] != "not modelled"]
    hard = [v for v in verdicts if v["gate"] == "hard"]
    stood = [v for v in verdicts if v.get("judged_by") == "search"]
    gates = [v for v in stood if v["gate"] == "hard" and v["verdict"] == "inside"]
    too = [v for v in gates if v["random_inside"]]
    elsewhere = [v for v in gates if not _accepts(v, v["without_overhead"]["analytic"])]
    settings = report["settings"]
    return "\n".join(
        [
            f"{_inside(asked)} of {len(asked)} statements lie inside their tolerance, "
            f"{_inside(hard)} of the {len(hard)} hard ones among them.",
            f"{counted(len(stood), 'statement')} are about P-MOSS's learned policy, and none is "
            "judged by one.",
            f"A search with {settings['budget']:,} evaluations of the analytic model stands in "
            f"its place; {_inside(stood)} of them hold for it.",
            f"The search passes {counted(len(gates), 'hard gate')} of these; Random passes "
            f"{len(too)} of them as well, so they say nothing about a policy.",
            f"Every query takes {settings['overhead_cycles']:g} cycles more than our own index "
            "needs (`overhead_cycles`), for the original's software is slower.",
            f"Without them {counted(len(elsewhere), 'of these gates', 'of these gates')} would "
            f"fail by the model{_listed(elsewhere)}.",
            made(report, "validation.json"),
        ]
    )


def _listed(verdicts: Sequence[Mapping[str, Any]]) -> str:
    if not verdicts:
        return ""
    told = [f"{v['statement']} ({v['without_overhead']['analytic']:.2f})" for v in verdicts]
    return ": " + "; ".join(told)


def _inside(verdicts: Sequence[Mapping[str, Any]]) -> int:
    return sum(v["verdict"] == "inside" for v in verdicts)


def _accepts(verdict: Mapping[str, Any], value: float | None) -> bool:
    return value is None or verdict["low"] <= value <= verdict["high"]


def validation(stored: Stored) -> str:
    """Statements on P-MOSS: the search, Random beside it; then all others."""
    stood, others = [], []
    for verdict in stored.validation:
        shown = [
            verdict["number"],
            verdict["gate"],
            verdict["statement"],
            verdict["expected"],
            f"{verdict['low']:g} .. {verdict['high']:g}",
        ]
        got = verdict["got"]
        if "random" in verdict:
            also = ", inside as well" if verdict["random_inside"] else ""
            shown += [_value(got, "simulated"), _value(verdict["random"], "simulated") + also]
            shown += [verdict["verdict"], _value(got, "analytic")]
            stood.append([*shown, _value(verdict["without_overhead"], "analytic")])
        else:
            shown += [_value(got, "simulated"), _value(got, "analytic"), verdict["verdict"]]
            others.append(shown)
    columns = ["no", "gate", "statement", "published", "accepted"]
    mine = ["search", "Random", "verdict of the search", "search, by the model"]
    return "\n".join(
        [
            "Statements about P-MOSS, with a search in the policy's place.",
            "",
            table([*columns, *mine, "the same without overhead_cycles"], stood),
            "",
            "All other statements.",
            "",
            table([*columns, "simulated", "by the model", "verdict"], others),
            "",
            made(stored["validation.json"], "benchmarks/results/validation.json"),
        ]
    )


def _value(values: Mapping[str, float | None], fidelity: str) -> str:
    value = values.get(fidelity)
    return "" if value is None else f"{value:.3g}"


def transcript(name: str) -> Callable[[Stored], str]:
    """The block with what a command of ``transcripts.py`` printed."""

    def block(stored: Stored) -> str:
        report = stored[f"transcripts/{name}.json"]
        return "\n".join(["```console", f"$ {report['command']}", report["output"], "```"])

    return block


BLOCKS = {
    **{f"transcript-{name}": transcript(name) for name in COMMANDS},
    "demo": demo,
    "validation-counts": validation_counts,
    "validation": validation,
}

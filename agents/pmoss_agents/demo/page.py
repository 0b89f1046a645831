"""The demo's results, in words and as one self-contained HTML page."""

from __future__ import annotations

from html import escape

from pmoss_agents.demo.plan import AGENT, SEARCH, TUNED, DemoResult, kind_of
from pmoss_agents.explaining.page import explain_page
from pmoss_datasets.evaluation import with_interval
from pmoss_env.html_page import html_table


def demo_page(result: DemoResult) -> str:
    """The page as text: all figures, and why the learned schedule of an episode is faster."""
    plan = result.plan
    figures = html_table(
        ["", "Mq/s [95 %]", "score", "schedules tried", "ms per decision"],
        [
            (
                summary.policy,
                with_interval(summary.throughput, summary.throughput_low, summary.throughput_high),
                "" if summary.score is None else f"{summary.score:.1f}",
                f"{plan.measured(summary.policy):,}",
                f"{1e3 * summary.seconds_per_decision:.2f}",
            )
            for summary in sorted(result.summaries, key=lambda summary: -summary.throughput)
        ],
    )
    above = f"""<p class="lead">{escape(lead(result))}</p>
<p>{escape(host_in_words(result))}</p>
<h2>A modelled server, and incumbents that no data hold</h2>
{figures}
<p class="quiet">Means over {result.summaries[0].episodes} episodes. Behind a name stands how many
schedules it may try on the server before it decides.</p>
<h2>One of these episodes</h2>
"""
    task = ", ".join(f"{key} {value}" for key, value in plan.env_kwargs.items())
    title = "What learned placement is worth"
    return explain_page(result.comparison, task, title=title, above=above)


def lead(result: DemoResult) -> str:
    """The results of the comparison, one fact in a sentence."""
    plan = result.plan
    rates = {summary.policy: summary.throughput for summary in result.summaries}
    best = max((name for name in rates if kind_of(name) == "rule"), key=rates.__getitem__)
    agent = plan.with_measurements(TUNED)
    rival = max(
        rates[name] for name in rates if name.endswith(f" + {plan.measurements}") and name != agent
    )
    return (
        f"The agent that ships never met this server: at once it serves "
        f"{rates[AGENT]:.1f} million queries per second. It then learns for "
        f"{result.seconds['fine-tuning']:.0f} seconds from {plan.logged_episodes} logged episodes "
        f"of this server, and serves {rates[TUNED]:.1f}. The best rule, {best}, serves "
        f"{rates[best]:.1f}. After {plan.measurements} tries on the server the agent serves "
        f"{rates[agent]:.1f}, and the best search after as many {rival:.1f}. A search of the "
        f"model serves {rates[SEARCH]:.1f} after {plan.search_budget:,} evaluations."
    )


def host_in_words(result: DemoResult) -> str:
    """What was seen on this host."""
    parts = []
    for name, rates in result.host.throughputs.items():
        middle = sorted(rates)[len(rates) // 2]
        parts.append(f"{middle:.2f} [{min(rates):.2f}, {max(rates):.2f}] under {name}")
    return (
        f"A real B+-tree of {result.plan.host_records:,} records was re-scheduled while it served. "
        f"Million queries per second: {', then '.join(parts)}, the median and range of rounds of "
        f"{result.plan.host_round_seconds:g} s. Lost queries: {result.host.lost}."
    )

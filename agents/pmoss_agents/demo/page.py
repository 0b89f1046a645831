"""The demo's results, in words and as one self-contained HTML page."""

from __future__ import annotations

from html import escape

from pmoss_agents.demo.host import Host
from pmoss_agents.demo.picture import draw_demo
from pmoss_agents.demo.plan import DemoResult
from pmoss_agents.explaining.page import explain_page
from pmoss_datasets.evaluation import with_interval
from pmoss_env.html_page import html_table


def demo_page(result: DemoResult) -> str:
    """The page as text: all figures, and why the learned schedule of an episode is faster."""
    plan = result.plan
    figures = html_table(
        ["", "Mq/s [95 %]", "score", "ms per decision"],
        [
            (
                summary.policy,
                with_interval(summary.throughput, summary.throughput_low, summary.throughput_high),
                "" if summary.score is None else f"{summary.score:.1f}",
                f"{1e3 * summary.seconds_per_decision:.2f}",
            )
            for summary in sorted(result.summaries, key=lambda summary: -summary.throughput)
        ],
    )
    above = f"""<p class="lead">{escape(lead(result))}</p>
<div style="max-width: 760px">{draw_demo(result)}</div>
<p>{escape(host_in_words(result))}</p>
<h2>All schedules</h2>
{figures}
<p class="quiet">Means over {result.summaries[0].episodes} episodes whose incumbents no data
hold.</p>
<h2>One of these episodes</h2>
"""
    task = ", ".join(f"{key} {value}" for key, value in plan.env_kwargs.items())
    title = "What learned placement is worth"
    return explain_page(result.comparison, task, title=title, above=above)


def lead(result: DemoResult) -> str:
    """The results of the comparison, one fact in a sentence."""
    linux, rule, agent, tuned, search = result.shown.values()
    share = (rule.throughput - linux.throughput) / (agent.throughput - linux.throughput)
    above = "above" if agent.throughput > rule.throughput else "not above"
    return (
        f"Linux alone serves {linux.throughput:.1f} million queries per second. The best rule, "
        f"{rule.policy}, serves {rule.throughput:.1f}: {share:.0%} of the agent's gain. "
        f"The agent never met this server, and serves {agent.throughput:.1f} at once, {above} "
        f"every rule. After {result.plan.logged_episodes} logged episodes of this server it "
        f"serves {tuned.throughput:.1f}. A search that asks the model "
        f"{result.plan.search_budget:,} times serves {search.throughput:.1f}."
    )


def host_in_words(result: DemoResult) -> str:
    """What was seen on this host."""
    host = result.host
    if not isinstance(host, Host):
        return host
    parts = []
    for name, rates in host.throughputs.items():
        middle = sorted(rates)[len(rates) // 2]
        parts.append(f"{middle:.2f} [{min(rates):.2f}, {max(rates):.2f}] under {name}")
    return (
        f"A real B+-tree of {result.plan.host_records:,} records was re-scheduled while it served. "
        f"Million queries per second: {', then '.join(parts)}, the median and range of rounds of "
        f"{result.plan.host_round_seconds:g} s. Lost queries: {host.lost}."
    )

"""The demo as one HTML page that needs nothing else, no script either."""

from __future__ import annotations

from html import escape

from pmoss_agents.demo.plan import AGENT, SEARCH, TUNED, DemoResult, kind_of
from pmoss_agents.explaining import compare, headline
from pmoss_agents.explaining.chip import draw_run
from pmoss_agents.explaining.page import chip_style
from pmoss_datasets.evaluation import Summary
from pmoss_env import __version__
from pmoss_env.html_page import html_page, html_table
from pmoss_env.types import CO_TENANT_FAMILIES

_COLOURS = {
    "rule": ("#9aa7b8", "#66727f"),
    "search": ("#4f7cac", "#6d9ccd"),
    "learned": ("#c0504d", "#e2726f"),
}
_STYLE = """
.bars { display: grid; grid-template-columns: max-content 1fr; gap: .2rem .7rem;
  align-items: center; max-width: 60rem; }
.bar { display: flex; align-items: center; gap: .5rem; min-width: 0; }
.bar i { display: block; flex: none; height: 1.05rem; border-radius: 2px; background: var(--rule); }
.bar.search i { background: var(--search); } .bar.learned i { background: var(--learned); }
.bar span { white-space: nowrap; font-variant-numeric: tabular-nums; font-size: 13px;
  font-weight: 400; }
.learned { font-weight: 600; }
.rounds { width: 100%; max-width: 60rem; height: auto; }
.rounds rect { fill: var(--rule); } .rounds rect.later { fill: var(--search); }
@media (max-width: 500px) { .bars { grid-template-columns: 1fr; gap: 0; }
  .bar { margin-bottom: .4rem; } }
"""


def demo_page(result: DemoResult) -> str:
    """The page as text."""
    placement = result.placement
    comparison = compare(placement.machine, placement.before, placement.after)
    chips = "".join(
        f"<figure><figcaption>{escape(run.name)}, {run.snapshot.throughput:.1f} Mq/s</figcaption>"
        f"{draw_run(comparison, run)}</figure>"
        for run in comparison.runs
    )
    task = escape(", ".join(f"{key} {value}" for key, value in result.plan.env_kwargs.items()))
    body = f"""<p class="lead">{escape(lead(result))}</p>
<h2>A modelled server, and incumbents that no data hold</h2>
{_bars(result)}
<p class="quiet">Means over {result.summaries[0].episodes} episodes: {task}. In brackets 95 %
intervals. Red learned from logged counters; "tuned" went on learning from
{result.plan.logged_episodes} episodes of this server. Blue searches. Behind a name stands how many
schedules it may try on the server before it decides. {SEARCH} asks the model
{result.plan.search_budget:,} times.</p>
<h2>One of these episodes</h2>
<p>{escape(headline(comparison))}</p>
<div class="chips">{chips}</div>
<p class="quiet">A tile is a core, filled as far as it is busy, each slice a part of it; the number
counts its slices. A triangle: something else takes time from this core. Dashed orange: a memory or
link near its bandwidth. {escape(_disturbed(result))} Point at anything for its figures.</p>
<h2>This host</h2>
<p>{escape(host_in_words(result))}</p>
{_rounds(result)}
<h2>All figures</h2>
{_table(result)}
<p class="quiet">pmoss_env {__version__}; agent {escape(result.plan.agent)}. Every episode of the
server replays to the last bit: pmoss validate {escape(str(result.folder / "results.jsonl"))}</p>"""
    style, colours = chip_style()
    return html_page("What learned placement is worth", body, style + _STYLE, colours | _COLOURS)


def lead(result: DemoResult) -> str:
    """What the comparison says, one fact in a sentence."""
    plan = result.plan
    rates = {summary.policy: summary.throughput for summary in result.summaries}
    best = max((name for name in rates if kind_of(name) == "rule"), key=rates.__getitem__)
    agent = plan.with_measurements(TUNED)
    rival = max(
        rates[name] for name in rates if name.endswith(f" + {plan.measurements}") and name != agent
    )
    return (
        f"The agent that ships never saw co-tenants like these: at once it serves "
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


def _disturbed(result: DemoResult) -> str:
    """Which co-tenants the example's episode has."""
    co_tenants = result.placement.instance.co_tenants
    if not co_tenants:
        return "This episode has no co-tenants."
    family = CO_TENANT_FAMILIES[co_tenants[0].family]
    places = ", ".join(map(str, sorted({tenant.target for tenant in co_tenants})))
    return f"Co-tenants ({family.name}) sit on {family.target} {places}."


def _bars(result: DemoResult) -> str:
    top = max(summary.throughput for summary in result.summaries)
    rows = []
    for summary in sorted(result.summaries, key=lambda summary: -summary.throughput):
        kind = kind_of(summary.policy)
        rows.append(
            f'<div class="{kind}">{escape(summary.policy)}</div><div class="bar {kind}">'
            f'<i style="width:{55 * summary.throughput / top:.1f}%"></i>'
            f"<span>{_interval(summary)}</span></div>"
        )
    return f'<div class="bars">{"".join(rows)}</div>'


def _rounds(result: DemoResult) -> str:
    """The throughput of every round on this host, as bars."""
    throughputs = result.host.throughputs
    values = [(name, value) for name, rates in throughputs.items() for value in rates]
    first, *others = throughputs
    top = max(value for _, value in values) or 1.0
    width, height = 600 / len(values), 90
    bars = "".join(
        f'<rect class="{"first" if name == first else "later"}" x="{number * width:.1f}" '
        f'y="{height * (1 - value / top):.1f}" width="{0.85 * width:.1f}" '
        f'height="{height * value / top:.1f}"><title>{escape(name)}: {value:.2f} Mq/s</title>'
        "</rect>"
        for number, (name, value) in enumerate(values)
    )
    return (
        f'<svg class="rounds" viewBox="0 0 600 {height}" role="img" '
        f'aria-label="throughput of each round">{bars}</svg>'
        f'<p class="quiet">Each bar is a round: first {escape(first)}, then '
        f"{escape(' and '.join(others))}.</p>"
    )


def _table(result: DemoResult) -> str:
    head = ["", "Mq/s [95 %]", "score [95 %]", "schedules tried", "ms per decision"]
    rows = [
        (
            summary.policy,
            _interval(summary),
            "" if summary.score is None else f"{summary.score:.1f}",
            f"{result.plan.measured(summary.policy):,}",
            f"{1e3 * summary.seconds_per_decision:.2f}",
        )
        for summary in sorted(result.summaries, key=lambda summary: summary.throughput)
    ]
    return html_table(head, rows)


def _interval(summary: Summary) -> str:
    if summary.throughput_low is None or summary.throughput_high is None:
        return f"{summary.throughput:.1f}"
    low, high = summary.throughput_low, summary.throughput_high
    return f"{summary.throughput:.1f} [{low:.1f}, {high:.1f}]"

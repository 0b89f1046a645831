"""`pmoss explain`: what two schedules do differently, per core, node, memory channel and link."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_benchmarks.cli.policies import TrustOption, short_name
from pmoss_datasets.cli.options import BackendOption, EnvOption
from pmoss_env.cli.console import Stages, console, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs

if TYPE_CHECKING:
    from pmoss_benchmarks.explaining import Comparison
    from pmoss_benchmarks.explaining.differences import Kind, Table
    from pmoss_benchmarks.explaining.measuring import Choice
    from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
    from pmoss_env.types import Float64Array

#: What the terminal shows of each kind of place; the page shows all.
SHOWN: dict[Kind, tuple[str, ...]] = {
    "node": ("elapsed_us", "queries", "remote_dram", "use"),
    "channel": ("traffic", "per_channel", "use"),
    "link": ("traffic", "use"),
    "core": ("slices", "elapsed_us", "queries", "llc_misses", "remote_dram"),
}
#: What the columns are called.
HEADS = {
    "elapsed_us": "cores busy",
    "queries": "Mq/s",
    "remote_dram": "remote M/s",
    "llc_misses": "LLC misses M/s",
    "use": "of the bandwidth",
    "traffic": "GB/s",
    "per_channel": "GB/s per channel",
}


def explain(
    a: Annotated[str, typer.Argument(help="The schedule to compare with; see below.")],
    b: Annotated[str, typer.Argument(help="The schedule to explain.")],
    backend: Annotated[
        str | None, typer.Option(help="analytic (the default), simulated or hardware.")
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(help="A name from `pmoss machines`: skylake-x-8n if not given, or host."),
    ] = None,
    env: EnvOption = None,
    options: BackendOption = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of the episode: keys, co-tenants, incumbent. Default 0."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Measure both so often, in turn; the median counts.")
    ] = 1,
    top: Annotated[int, typer.Option(min=1, help="Rows shown of each kind.")] = 8,
    html: Annotated[
        Path | None, typer.Option(help="Page to write, with the chip drawn; needs nothing else.")
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Explain why one schedule is faster than another, by what their counters say.

    A and B are each a baseline (lpt, grouped, incumbent, os-default, ...), a saved agent
    (.safetensors or .pt), or a policy of yours (module:Class). Or they are a schedule file (.json
    with {"cores": [...]}) or a row of a result file. FILE.jsonl:POLICY is the first row of a
    policy, FILE.jsonl:12 line 12. Both are measured in the same episode. A row brings its own.

    Example: pmoss explain grouped lpt-capacity -e interference=busy_core --html runs/why.html

    Example: pmoss explain incumbent runs/dt.safetensors -e interference=busy_core -e order=load

    Example: pmoss explain runs/demo/results.jsonl:lpt runs/demo/results.jsonl:decision-transformer
    """
    from pmoss_benchmarks.evaluation import DEFAULT_ENV, make_environment
    from pmoss_benchmarks.explaining.measuring import explain as compare_in_episode
    from pmoss_benchmarks.explaining.page import explain_page
    from pmoss_benchmarks.explaining.rows import Row
    from pmoss_env.files import write_atomically

    if html:
        check_output(html)
    given: dict[str, Any] = {"--backend": backend, "--machine": machine, "--env": env}
    given |= {"--option": options, "--seed": seed}
    found: list[Any] = [_found(word, trust) for word in (a, b)]
    row = _episode([choice for choice in found if isinstance(choice, Row)], given)
    if row:
        env_id, arguments, env_seed = row.env_id, dict(row.env_kwargs), row.env_seed
    else:
        arguments = {"machine": machine or "skylake-x-8n", "backend": backend or "analytic"}
        env_id, arguments, env_seed = DEFAULT_ENV, {**arguments, **pairs(env)}, seed or 0
        if options:
            arguments["backend_options"] = pairs(options)
    # The final throughput is all that is asked for.
    made = make_environment(env_id, {**arguments, "reward": "terminal"})
    try:
        choices = _named(a, b, [_loaded(choice, made) for choice in found])
        with Stages() as progress:
            comparison = compare_in_episode(
                made, env_seed, choices, rounds=rounds, progress=progress
            )
    finally:
        made.close()
    told = ", ".join(f"{key} {value}" for key, value in arguments.items())
    task = f"{made.machine.description}; {told}; episode {env_seed}"
    _print(comparison, top)
    if html:
        write_atomically(html, explain_page(comparison, task))
        console.print(f"written to {html}: the chip drawn, and every counter of every core")


def _found(word: str, trust: bool) -> Any:
    """What a word means, as far as no environment is needed to know."""
    import pmoss_agents
    from pmoss_benchmarks.explaining.rows import names_row, read_row
    from pmoss_env.baselines import make_baseline

    if names_row(word):
        return read_row(word)
    if word.endswith(".json"):
        return Path(word)
    if pmoss_agents.names_policy(word):
        return pmoss_agents.find_policy(word, trust=trust)
    return make_baseline(word, shared=True)


def _episode(rows: list[Any], given: dict[str, Any]) -> Any:
    """The row whose episode is taken; None without rows."""
    from pmoss_env.errors import DescriptionError

    if not rows:
        return None
    if refused := [option for option, value in given.items() if value is not None]:
        raise DescriptionError(
            f"{', '.join(refused)} with a row of a result file: the row brings its own; leave out "
            "one or the other"
        )
    first, last = rows[0], rows[-1]
    if (first.env_id, first.env_kwargs, first.env_seed) != (
        last.env_id,
        last.env_kwargs,
        last.env_seed,
    ):
        raise DescriptionError(
            f"{first.name} and {last.name} are rows of different episodes: other keys are hot, so "
            "they cannot be compared"
        )
    return first


def _loaded(choice: Any, env: SpatialSchedulingEnv) -> Choice:
    from pmoss_benchmarks.schedule_files import read_schedule

    if not isinstance(choice, Path):
        result: Choice = choice
        return result
    return read_schedule(choice, env.machine)


def _named(a: str, b: str, choices: list[Choice]) -> dict[str, Choice]:
    """The choices by short names, where these differ."""
    from pmoss_benchmarks.explaining.rows import Row

    def short(word: str, choice: Choice) -> str:
        if isinstance(choice, Row):
            return choice.name
        return short_name(word)

    names = [short(a, choices[0]), short(b, choices[1])]
    if names[0] == names[1]:
        names = [a, b] if a != b else [a, f"{b} again"]
    return dict(zip(names, choices, strict=True))


def _print(comparison: Comparison, top: int) -> None:
    from pmoss_benchmarks.explaining import headline
    from pmoss_benchmarks.explaining.differences import number, percent_change

    a, b = comparison.before, comparison.after
    console.print(headline(comparison), highlight=False)
    console.print()
    rows = [
        (name, number(first), number(second), percent_change(first, second))
        for name, first, second in (
            ("throughput, Mq/s", a.snapshot.throughput, b.snapshot.throughput),
            ("median latency, us", a.snapshot.latency_p50_us, b.snapshot.latency_p50_us),
            ("99th percentile, us", a.snapshot.latency_p99_us, b.snapshot.latency_p99_us),
        )
    ]
    counters = comparison.tables["machine"]
    first, second = counters.column("per_query")
    rows += [
        (
            f"{counters.places[i]} per query",
            number(first[i]),
            number(second[i]),
            percent_change(first[i], second[i]),
        )
        for i in counters.ranked(["per_query"])[:top]
        if first[i] != second[i]
    ]
    console.print(table("Whole machine", ["", f">{a.name}", f">{b.name}", ">change"], rows))
    for kind, columns in SHOWN.items():
        _print_places(comparison.tables[kind], columns, top)


def _print_places(places: Table, columns: tuple[str, ...], top: int) -> None:
    """The places of one kind where anything changed; only columns in which anything did."""
    from pmoss_benchmarks.explaining.differences import value

    changed = [name for name in columns if (abs(_change(places, name)) > 0).any()]
    ranked = places.ranked(changed) if changed else []
    ranked = [i for i in ranked if any(abs(_change(places, name)[i]) > 0 for name in changed)]
    if not ranked:
        what = "nothing changes" if places.ranked(columns) else "not counted"
        console.print(f"{places.kind.capitalize()}s: {what}.\n", highlight=False)
        return
    lines = []
    for place in ranked[:top]:
        cells = [places.places[place]]
        for name in changed:
            before, after = (column[place] for column in places.column(name))
            unit = places.units[places.quantities.index(name)]
            cells.append(f"{value(before, unit)} → {value(after, unit)}")
        lines.append(cells)
    rest = len(ranked) - len(lines)
    title = f"{places.kind.capitalize()}s, biggest difference first"
    title += f" ({rest} more)" if rest else ""
    heads = [f">{HEADS.get(name, name)}" for name in changed]
    console.print(table(title, [places.kind, *heads], lines))


def _change(places: Table, name: str) -> Float64Array:
    """NaN, which is not above 0, where it was not counted."""
    before, after = places.column(name)
    return after - before

"""`pmoss rollout`: agents and baselines place slices, on this host or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pmoss_agents.cli.policies import (
    AgentOption,
    AgentsArgument,
    DomainOption,
    PadOption,
    TrustOption,
)
from pmoss_env.cli.console import Stages, console, round_in_words, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import BackendOption, EnvOption, pairs

if TYPE_CHECKING:
    from pmoss_agents.rollouts import Mean
    from pmoss_datasets.domain import Domain

Baselines = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline",
        "-b",
        help="Baselines beside them; repeatable. Otherwise lpt, or all of another domain.",
    ),
]


def rollout(
    agents: AgentsArgument = None,
    agent: AgentOption = None,
    baseline: Baselines = None,
    domain: DomainOption = None,
    backend: Annotated[
        str | None, typer.Option(help="hardware (the default), analytic or simulated.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option(help="host (the default), or a name from `pmoss machines`.")
    ] = None,
    env: EnvOption = None,
    options: BackendOption = None,
    episodes: Annotated[int, typer.Option(help="Incumbents, the same for every policy.")] = 3,
    incumbent: Annotated[
        Path | None,
        typer.Option(
            help='What runs now: a schedule file, {"cores": [...]}. Else drawn from SEED.'
        ),
    ] = None,
    undo: Annotated[
        str,
        typer.Option(
            help="Put the incumbent back and verify it: never, worse (where the policy's schedule "
            "is slower) or always."
        ),
    ] = "never",
    keep: Annotated[
        Path | None, typer.Option(help="Folder for the schedules before and after (.json).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes.")] = 0,
    pad: PadOption = False,
    trust: TrustOption = False,
    out: Annotated[
        Path | None, typer.Option(help="Result file (.jsonl); if it is there, goes on with it.")
    ] = None,
) -> None:
    """Let policies re-schedule a running index, measure what comes of it, and undo it if asked.

    Every finished episode is printed, and kept in OUT, at once: an interrupted run goes on. Undone
    means: the incumbent is put back, measured, and compared with what it was before; if it is not
    the same, the command ends with status 1. Each measurement starts its own threads. The domain
    continual moves slices while queries run, on this host with --backend hardware. Other domains
    play on their models. Only spatial has something to undo.

    Example: pmoss rollout --agent pmoss/surrogate-busy-core-v0 --machine toy --backend analytic
    Example: pmoss rollout runs/dt.safetensors -b lpt -e slices=16 --out runs/r.jsonl
    Example: pmoss rollout my_agent:Mine --machine toy --backend simulated --undo worse
    Example: pmoss rollout --domain continual --machine host --backend hardware -b best-fit-once
    Example: pmoss rollout --domain threads -e requests=1000000
    """
    from pmoss_agents.policies import named_policies
    from pmoss_agents.rollouts import keep_schedules, means, read_incumbent, roll_out

    if out:
        check_output(out)
    if keep:
        check_output(keep, folder=True)
    named = named_policies(
        baseline,
        [*(agents or ()), *(agent or ())],
        pad=pad,
        domain=domain,
        trust=trust,
        usual=lambda domain: domain.rolled_out or domain.policies(),
    )
    chosen, policies = named
    given = {"backend": backend, "machine": machine, "backend_options": pairs(options) or None}
    arguments = {
        **chosen.here,
        **{key: value for key, value in given.items() if value is not None},
        **pairs(env),
    }
    start = read_incumbent(chosen, arguments, incumbent) if incumbent else None
    keep_row = keep_schedules(chosen, arguments, keep) if keep else None
    total = episodes * len(policies)
    done = 0
    with Stages() as progress:

        def show(row: dict[str, Any]) -> None:
            nonlocal done
            words = f"episode {row['episode']}  {row['policy']:<22}{chosen.row_in_words(row)}"
            console.print(words, highlight=False)
            if keep_row:
                keep_row(row)
            done += 1
            progress("rolling out", done, total)

        progress("rolling out", 0, total)
        rows = roll_out(
            arguments,
            policies,
            episodes=episodes,
            seed=seed,
            incumbent=start,
            undo=cast(Any, undo),
            out=out,
            on_row=show,
            on_round=lambda of_round: progress.note(round_in_words(of_round)),
            domain=chosen.name,
        )
    place = ", ".join(str(arguments[key]) for key in ("machine", "backend") if key in arguments)
    _print(means(chosen, rows), place or chosen.name, chosen)


def _print(policies: Sequence[Mean], place: str, domain: Domain) -> None:
    """Prints a row per policy; ends the command with status 1 where undoing failed."""
    title = f"{place}: mean of {max(mean.episodes for mean in policies)} episodes"
    columns = ["policy", f">before {domain.unit}", f">after {domain.unit}", ">ratio", ">undone"]
    rows = [_cells(mean, domain) for mean in policies]
    # Nothing ran before in some domains, and mostly nothing is undone.
    full = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    shown = [[row[number] for number in full] for row in rows]
    console.print(table(title, [columns[number] for number in full], shown))
    if failed := sum(mean.failed for mean in policies):
        console.print(f"{failed} incumbents did not come back as they were: see above.")
        raise typer.Exit(1)


def _cells(mean: Mean, domain: Domain) -> tuple[str, ...]:
    """A row of the summary."""
    before = "" if mean.before is None else f"{domain.shown(mean.before):.3f}"
    ratio = f"{mean.after / mean.before:.2f}" if mean.before else ""
    undone = f"{mean.undone} of {mean.episodes}" if mean.undone else ""
    return (mean.policy, before, f"{domain.shown(mean.after):.3f}", ratio, undone)

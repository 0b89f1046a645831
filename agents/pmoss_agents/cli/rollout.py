"""`pmoss run rollout`: agents and baselines place slices, on this host or a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pmoss_agents.cli.policies import (
    DomainOption,
    PadOption,
    PoliciesArgument,
)
from pmoss_env.cli.console import Stages, console, round_in_words, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import (
    EXPORT_TO,
    BackendOption,
    EnvOption,
    ExportOption,
    ExportToOption,
    MachineOption,
    check_export,
    export_placements,
    pairs,
)

if TYPE_CHECKING:
    from pmoss_datasets.domain import Domain
    from pmoss_env.types import Schedule

IncumbentOption = Annotated[
    Path | None,
    typer.Option(help='What runs now: a schedule file, {"cores": [...]}. Else drawn from SEED.'),
]
UndoOption = Annotated[
    str,
    typer.Option(
        help="Put the incumbent back and verify it: never, worse (where the policy's schedule is "
        "slower) or always."
    ),
]


def rollout(
    policies: PoliciesArgument = None,
    domain: DomainOption = None,
    backend: Annotated[
        str | None, typer.Option(help="hardware (the default), analytic or simulated.")
    ] = None,
    machine: MachineOption = None,
    env: EnvOption = None,
    options: BackendOption = None,
    episodes: Annotated[int, typer.Option(help="Incumbents, the same for every policy.")] = 3,
    incumbent: IncumbentOption = None,
    undo: UndoOption = "never",
    keep: Annotated[
        Path | None, typer.Option(help="Folder for the schedules before and after (.json).")
    ] = None,
    export: ExportOption = None,
    export_to: ExportToOption = EXPORT_TO,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes.")] = 0,
    pad: PadOption = False,
    out: Annotated[
        Path | None, typer.Option(help="Result file (.jsonl); if it is there, goes on with it.")
    ] = None,
) -> None:
    """Let policies re-schedule a running index, measure what comes of it, and undo it if asked.

    Every finished episode is printed, and kept in OUT, at once: an interrupted run goes on. OUT of
    other policies, or of a checkpoint or module that has changed since, is refused. Undone
    means: the incumbent is put back, measured, and compared with what it was before; if it is not
    the same, the command ends with status 1. On this host the incumbent is measured before and
    after, on the same records, and the ratio has a 95 % interval. Each measurement starts its own
    threads. --export writes the placement of each policy's last episode.

    The domain continual moves slices while queries run, on this host with --backend hardware.
    Other domains play on their models. Only spatial has something to undo. Where no rule is named,
    lpt and os-default play, or all of another domain.

    Example: pmoss run rollout pmoss/generalist-v1 --machine toy --backend analytic
    Example: pmoss run rollout lpt -e slices=64 --export kubernetes --export-to runs/placement
    Example: pmoss run rollout runs/dt.safetensors lpt -e slices=16 --out runs/r.jsonl
    Example: pmoss run rollout my_agent:Mine --machine toy --backend simulated --undo worse
    Example: pmoss run rollout --domain continual --machine host --backend hardware best-fit-once
    Example: pmoss run rollout --domain threads -e requests=1000000
    """
    from pmoss_agents.policies import made_of, named_policies
    from pmoss_agents.rollouts import roll_out
    from pmoss_datasets.domain import check_offer
    from pmoss_env.machines import load_machine
    from pmoss_env.schedule_files import read_schedule

    for file in filter(None, (out, keep)):
        check_output(file, folder=file is keep)
    chosen, players = named_policies(
        policies,
        pad=pad,
        domain=domain,
        usual=lambda domain: domain.rolled_out or domain.policies(),
    )
    given = {"backend": backend, "machine": machine, "backend_options": pairs(options) or None}
    given = {key: value for key, value in given.items() if value is not None}
    arguments = {**chosen.host_arguments, **given, **pairs(env)}
    players, without = chosen.with_settings(players, arguments)
    check_export(export, export_to)
    offers = (("--incumbent", incumbent), ("--keep", keep), ("--export", export))
    for option, given_option in offers:
        if given_option:
            check_offer(chosen, "schedules", option)
    start = read_schedule(incumbent, load_machine(str(arguments["machine"]))) if incumbent else None
    total, done = episodes * len(players), count(1)
    with Stages() as progress:

        def show(row: dict[str, Any]) -> None:
            words = f"episode {row['episode']}  {row['policy']:<22}{chosen.row_in_words(row)}"
            console.print(words, highlight=False)
            if keep:
                _keep_schedules(row, str(arguments["machine"]), keep)
            progress("rolling out", next(done), total)

        progress("rolling out", 0, total)
        rows = roll_out(
            arguments,
            players,
            episodes=episodes,
            seed=seed,
            incumbent=start,
            undo=cast(Any, undo),
            out=out,
            on_row=show,
            on_round=lambda of_round: progress.note(round_in_words(of_round)),
            domain=chosen.name,
            made_of={**made_of(policies or ()), "pad": pad},
        )
    if export:
        machine_name = str(arguments["machine"])
        last = {row["policy"]: _schedule_of(row, machine_name) for row in rows}
        export_placements(export, load_machine(machine_name), last, export_to)
    place = ", ".join(str(arguments[key]) for key in ("machine", "backend") if key in arguments)
    if without:
        console.print(f"os-default has no rows with AutoNUMA off and on: {without}.")
    _print(rows, place or chosen.name, chosen)


def _keep_schedules(row: Mapping[str, Any], machine: str, folder: Path) -> None:
    """Writes the schedules before and after an episode to files in a folder."""
    from pmoss_env.machines import load_machine
    from pmoss_env.schedule_files import write_schedule

    before = load_machine(machine).local_schedule(row["incumbent_cores"])
    for name, schedule in (("before", before), ("after", _schedule_of(row, machine))):
        write_schedule(folder / f"{row['policy']}-{row['episode']}-{name}.json", schedule)


def _schedule_of(row: Mapping[str, Any], machine: str) -> Schedule:
    """The schedule that an episode ended with."""
    from pmoss_env.backends.frames import unpack_schedule
    from pmoss_env.machines import load_machine

    if "schedule" in row:
        return unpack_schedule(row["schedule"])
    return load_machine(machine).local_schedule(row["cores"])


def _ratio(played: Sequence[Mapping[str, Any]], before: float, after: float) -> str:
    """The ratio of the means; on this host that of its comparisons, with its interval."""
    from pmoss_env.measuring import mean_ratio, ratio_in_words

    compared = [row["comparison"] for row in played if row.get("comparison")]
    ratios = [
        # A file has null for infinity.
        (each["ratio"], math.inf if each["error"] is None else each["error"])
        for each in compared
        if each["ratio"]
    ]
    if ratios:
        return ratio_in_words(*mean_ratio(ratios))
    return f"{after / before:.2f}" if before else ""


def _print(rows: Sequence[Mapping[str, Any]], place: str, domain: Domain) -> None:
    """Prints the means of each policy; ends the command with status 1 where undoing failed."""
    policies = dict.fromkeys(row["policy"] for row in rows)
    lines = []
    for policy in policies:
        played = [row for row in rows if row["policy"] == policy]
        ends = [domain.ends_of(row) for row in played]
        starts = [before for before, _ in ends if before is not None]
        before = fmean(starts) if starts else 0.0
        after = fmean(after for _, after in ends)
        undone = sum(row["restored"] is not None for row in played)
        lines.append(
            (
                policy,
                f"{domain.shown(before):.3f}" if starts else "",
                f"{domain.shown(after):.3f}",
                _ratio(played, before, after),
                f"{undone} of {len(played)}" if undone else "",
            )
        )
    columns = ["policy", f">before {domain.unit}", f">after {domain.unit}", ">ratio", ">undone"]
    # Nothing ran before in some domains, and mostly nothing is undone.
    full = [number for number in range(len(columns)) if any(line[number] for line in lines)]
    shown = [[line[number] for number in full] for line in lines]
    title = f"{place}: mean of {len(rows) // len(policies)} episodes"
    console.print(table(title, [columns[number] for number in full], shown))
    again = [row["restored"] for row in rows if row["restored"] is not None]
    noisy = sum(restored.get("noisy", False) for restored in again)
    if noisy:
        console.print(f"{noisy} incumbents are back; this host is too noisy to tell how fast.")
    if failed := sum(not restored["verified"] for restored in again) - noisy:
        console.print(f"{failed} incumbents did not come back as they were: see above.")
        raise typer.Exit(1)

"""`pmoss rollout`: agents and baselines place slices, on this host or a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pmoss_benchmarks.cli.live import round_in_words
from pmoss_benchmarks.cli.policies import PadOption, TrustOption, named_policies
from pmoss_datasets.cli.options import BackendOption, EnvOption
from pmoss_env.cli.console import Stages, console, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs


def rollout(
    checkpoint: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoints of agents that place slices.")
    ] = None,
    baseline: Annotated[
        list[str], typer.Option("--baseline", "-b", help="Baselines beside them; repeatable.")
    ] = ["lpt"],  # noqa: B006  # typer copies it
    backend: Annotated[str, typer.Option(help="hardware, analytic or simulated.")] = "hardware",
    machine: Annotated[str, typer.Option(help="host, or a name from `pmoss machines`.")] = "host",
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
    the same, the command ends with status 1.

    Example: pmoss rollout runs/dt.safetensors -b lpt -e slices=16 --out runs/r.jsonl

    Example: pmoss rollout runs/dt.safetensors --machine toy --backend simulated --undo worse
    """
    from pmoss_benchmarks.rollouts import roll_out
    from pmoss_benchmarks.schedule_files import read_schedule, write_schedule
    from pmoss_env.machines import load_machine

    if out:
        check_output(out)
    if keep:
        check_output(keep, folder=True)
    policies = named_policies(baseline, checkpoint, pad=pad, trust=trust)
    arguments = {"backend": backend, "machine": machine, **pairs(env)}
    if options:
        arguments["backend_options"] = pairs(options)
    described = load_machine(str(arguments["machine"]))
    given = read_schedule(incumbent, described) if incumbent else None
    not_restored = 0
    with Stages() as progress:
        done = 0

        def show(row: dict[str, Any]) -> None:
            nonlocal done, not_restored
            console.print(_told(row), highlight=False)
            restored = row["restored"]
            not_restored += bool(restored and not restored["verified"])
            if keep:
                for what, cores in (("before", "incumbent_cores"), ("after", "cores")):
                    name = f"{row['policy']}-{row['episode']}-{what}.json"
                    write_schedule(keep / name, described.local_schedule(row[cores]))
            done += 1
            progress("rolling out", done, episodes * len(policies))

        progress("rolling out", 0, episodes * len(policies))
        rows = roll_out(
            arguments,
            policies,
            episodes=episodes,
            seed=seed,
            incumbent=given,
            undo=cast(Any, undo),
            out=out,
            on_row=show,
            on_round=lambda told: progress.note(round_in_words(told)),
        )
    title = f"{arguments['machine']}, {arguments['backend']}: mean of {episodes} episodes"
    columns = ["policy", ">before Mq/s", ">after Mq/s", ">ratio", ">undone"]
    console.print(table(title, columns, [_means(name, rows) for name in policies]))
    if not_restored:
        console.print(f"{not_restored} incumbents did not come back as they were: see above.")
        raise typer.Exit(1)


def _means(policy: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """A row of the summary: means over the episodes of one policy."""
    own = [row for row in rows if row["policy"] == policy]
    before = sum(row["incumbent_mq_per_s"] for row in own) / len(own)
    after = sum(row["final_mq_per_s"] for row in own) / len(own)
    undone = sum(row["restored"] is not None for row in own)
    cells = (f"{before:.3f}", f"{after:.3f}", f"{after / before:.2f}")
    return (policy, *cells, f"{undone} of {len(own)}")


def _told(row: dict[str, Any]) -> str:
    """One line: before, after, and what undoing found."""
    text = (
        f"episode {row['episode']}  {row['policy']:<22}"
        f"{row['incumbent_mq_per_s']:8.3f} -> {row['final_mq_per_s']:8.3f} Mq/s"
        f"   p99 {row['incumbent_p99_us']:.0f} -> {row['p99_us']:.0f} us"
        f"   {row['moved_slices']} of {len(row['cores'])} slices moved"
    )
    if restored := row["restored"]:
        text += f"\n           undone: {restored['mq_per_s']:.3f} Mq/s again, "
        differs = ", ".join(restored["differs"])
        text += "verified" if restored["verified"] else f"but not as before: {differs}"
    return text

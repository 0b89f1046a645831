"""The commands of this layer: studies, the leaderboard and the texts made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_benchmarks.cli import leaderboard, study
from pmoss_env.cli.console import console
from pmoss_env.cli.output import check_output


def pretrained(
    checkpoint: Annotated[Path, typer.Argument(help="Of a trained agent (.safetensors).")],
    dataset: Annotated[Path, typer.Argument(help="Folder of the worlds that it learned from.")],
    results: Annotated[
        Path, typer.Argument(help="Rows of a study that it plays in, such as zero-shot.")
    ],
    name: Annotated[str, typer.Option(help="What it is to be called, without pmoss/.")],
    out: Annotated[Path, typer.Option(help="Folder for the weights and the card.")],
) -> None:
    """Make what ships of a trained agent: its weights, and a card with its stored score.

    The agent must be the one of the results: they name the checksum of its weights.

    Example: pmoss dev pretrained runs/generalist.safetensors runs/worlds
    benchmarks/results/zero-shot.jsonl --name generalist-v2 --out agents/pmoss_agents/shipped
    """
    from pmoss_agents import pretrained as shipped
    from pmoss_benchmarks.offline.pretrained import publish

    check_output(out, folder=True)
    card = publish(checkpoint, dataset, results, out, name)
    for line in shipped.in_words(card):
        console.print(line, highlight=False, soft_wrap=True)


def report(
    page: Annotated[
        Path | None,
        typer.Argument(help="Print this page (.md) as the site has it: with its tags filled."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with status 1 where they differ.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the pages of the papers there, with their pictures; no others."),
    ] = None,
    root: study.Root = None,
) -> None:
    """Make the tables and sentences with figures in README.md from the committed results.

    The pages below docs are made when the site is built; here their tags are only tried.

    Example: pmoss dev report docs/benchmarks/results.md
    Example: pmoss dev report --check
    Example: pmoss dev report --out runs/papers
    """
    from pmoss_benchmarks.study.store import find_root
    from pmoss_benchmarks.texts.render import Pages, make_readme, render_page, write_papers
    from pmoss_env.files import write_atomically

    folder = find_root((root or Path.cwd()).resolve())
    if out is not None:
        written = write_papers(Pages(folder, out.resolve()))
        console.print(f"{len(written)} pages in {out}", highlight=False, soft_wrap=True)
        return
    if page is not None:
        typer.echo(render_page(Pages(folder), page))
        return
    before, after = make_readme(Pages(folder))
    differs = before != after
    if differs and not check:
        write_atomically(folder / "README.md", after)
    verdict = "differs from the results" if check else "written"
    verdict = verdict if differs else "holds what the results say"
    console.print(f"README.md: {verdict}", highlight=False, soft_wrap=True)
    if check and differs:
        raise typer.Exit(1)


study.app.command()(leaderboard.submit)
study.app.command()(leaderboard.leaderboard)
dev = typer.Typer(no_args_is_help=True, help="Upkeep: texts, shipped agents, rounds.")
dev.command()(report)
dev.command()(pretrained)
dev.command("round")(leaderboard.round_)
dev.command()(leaderboard.play)

commands = typer.Typer()
commands.add_typer(study.app, name="study", rich_help_panel="Agents")
commands.add_typer(dev, name="dev", rich_help_panel="Upkeep")

"""`pmoss dev report`: texts made of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import AsJson, console, show_json


def report(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with status 1 where they differ.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the pages of the papers there, with their pictures; no others."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Checkout; default: the one around the current folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the tables and sentences with figures in README.md from the committed results.

    The pages below docs are made when the site is built; here their tags are only tried.

    Example: pmoss dev report --check
    Example: pmoss dev report --out runs/papers
    """
    from pmoss_benchmarks.study.store import find_root
    from pmoss_benchmarks.texts.pages import make_readme, write_papers
    from pmoss_benchmarks.texts.render import Pages
    from pmoss_env.files import write_atomically

    folder = find_root((root or Path.cwd()).resolve())
    if out is not None:
        written = write_papers(Pages(folder, out.resolve()))
        console.print(f"{len(written)} pages in {out}", highlight=False, soft_wrap=True)
        return
    readme = make_readme(Pages(folder))
    if readme.differs and not check:
        write_atomically(readme.path, readme.after)
    if as_json:
        show_json({"differs": readme.differs})
    else:
        verdict = "differs from the results" if check else "written"
        verdict = verdict if readme.differs else "holds what the results say"
        console.print(f"README.md: {verdict}", highlight=False, soft_wrap=True)
    if check and readme.differs:
        raise typer.Exit(1)

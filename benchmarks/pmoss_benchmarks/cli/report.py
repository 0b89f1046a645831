"""`pmoss dev report`: texts made of results, and results that are too old."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import AsJson, console, show_json


def report(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with status 1 where they differ.")
    ] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="List results older than the code that makes them.")
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
    """Make the tables and sentences with figures in README.md and docs from the committed results.

    A result names the code that made it by digests. Neither git nor the time of a file is asked.

    Example: pmoss dev report --check
    Example: pmoss dev report --out runs/papers
    """
    from pmoss_benchmarks.texts import find_root, find_stale, make_pages
    from pmoss_benchmarks.texts.pages import write_papers
    from pmoss_benchmarks.texts.render import Pages
    from pmoss_env.files import write_atomically

    folder = find_root((root or Path.cwd()).resolve())
    if out is not None:
        written = write_papers(Pages(folder, out.resolve()))
        console.print(f"{len(written)} pages in {out}", highlight=False, soft_wrap=True)
        return
    if stale:
        found = find_stale(folder)
        if as_json:
            show_json([vars(one) for one in found])
            return
        for one in found:
            console.print(f"{one.name}: {one.reason}", highlight=False, soft_wrap=True)
            if one.renew:
                idle = " (on an idle host)" if one.measured else ""
                console.print(f"  renew{idle}: {one.renew}", highlight=False, soft_wrap=True)
        console.print(f"{len(found)} results to be made anew")
        return
    pages = make_pages(folder)
    differ = [page for page in pages if page.differs]
    if not check:
        for page in differ:
            write_atomically(page.path, page.after)
    names = [page.path.relative_to(folder).as_posix() for page in differ]
    if as_json:
        show_json({"pages": len(pages), "differ": names})
    else:
        word = "differs from the results" if check else "written"
        for name in names:
            console.print(f"{name}: {word}", highlight=False, soft_wrap=True)
        blocks = sum(page.blocks for page in pages)
        console.print(f"{len(pages)} pages, {blocks} blocks; {len(differ)} {word.split()[0]}")
    if check and differ:
        raise typer.Exit(1)

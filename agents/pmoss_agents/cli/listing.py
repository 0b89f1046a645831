"""`pmoss agents`: what there is to learn and to act with."""

from __future__ import annotations

from typing import Annotated

import typer

from pmoss_env.cli.console import AsJson, console, show_rows

#: What agents learn from, in words.
_LEARNS = {"offline": "data", "online": "play", "nothing": "nothing"}


def agents(
    domain: Annotated[
        str | None, typer.Argument(help="Only those for spatial, access-path or threads.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the agents: what each learns from, and which extra learning needs.

    To act, an agent that learned needs the extra agents at most. Other packages add agents through
    the entry-point group pmoss.agents; without one, an agent goes by module:Class. Any other policy
    of theirs is listed, too: it can be evaluated, but not trained.

    Example: pmoss agents spatial
    """
    from pmoss_agents.registry import OWN, listings
    from pmoss_env.errors import UnknownNameError

    every = listings()
    domains = list(dict.fromkeys(listing.domain for listing in every if listing.domain))
    if domain is not None and domain not in domains:
        raise UnknownNameError("domain", domain, domains)
    rows = [
        (
            listing.domain or "-",
            listing.name,
            _LEARNS[listing.learns],
            listing.extra or "-",
            "pmoss" if listing.name in OWN else listing.path,
        )
        for listing in every
        if domain in (None, listing.domain)
    ]
    show_rows("", ["domain", "name", "learns from", "extra", "of"], rows, as_json)
    if as_json:
        return
    for listing in every:
        if listing.problem:
            console.print(f"{listing.name}: {listing.problem}")

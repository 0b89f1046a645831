"""`pmoss agents`: what there is to learn and to act with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pmoss_env.cli.console import AsJson, console, show_json, show_rows

#: What agents learn from, in words.
_LEARNS = {"offline": "data", "online": "play", "nothing": "nothing"}

agents = typer.Typer(
    help="Agents: find them, and see what the trained ones are worth.", no_args_is_help=True
)


@agents.command("list")
def list_(
    domain: Annotated[
        str | None,
        typer.Argument(help="Only those for spatial, continual, access-path or threads."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the agents: what each learns from, and which extra learning needs.

    Names that begin with pmoss/ are trained and ship with the package: rollout, evaluate and
    explain take them at once. To act, an agent that learned needs the extra agents at most. Other
    packages add agents through the entry-point group pmoss.agents; without one, an agent goes by
    module:Class. Any other policy of theirs is listed, too: it can be evaluated, but not trained.

    Example: pmoss agents list spatial
    """
    from pmoss_agents import pretrained
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
    rows += [
        (card.domain, card.name, "is trained", "agents", "pmoss")
        for card in map(pretrained.card, pretrained.names())
        if domain in (None, card.domain)
    ]
    show_rows("", ["domain", "name", "learns from", "extra", "of"], rows, as_json)
    if as_json:
        return
    for listing in every:
        if listing.problem:
            console.print(f"{listing.name}: {listing.problem}")


@agents.command()
def show(
    name: Annotated[str, typer.Argument(help="Of an agent that is trained: pmoss/NAME.")],
    as_json: AsJson = False,
) -> None:
    """Show the card of a trained agent: its task, data, score, and how it is made again.

    Example: pmoss agents show pmoss/surrogate-busy-core-v0
    """
    from pmoss_agents import pretrained

    card = pretrained.card(name)
    pretrained.find(name)  # its checksum
    if as_json:
        show_json(asdict(card))
        return
    for line in pretrained.in_words(card):
        console.print(line, highlight=False, soft_wrap=True)

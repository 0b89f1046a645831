"""`pmoss list agents`: what there is to learn and to act with."""

from __future__ import annotations

from dataclasses import asdict

from pmoss_env.cli.console import console, show_json, show_rows
from pmoss_env.cli.listing import Request

#: What agents learn from, in words.
_LEARNS = {"offline": "data", "online": "play", "nothing": "nothing"}


def list_agents(asked: Request) -> None:
    """Lists the agents, of a domain if one is named, or shows the card of one that ships trained.

    Names that begin with pmoss/ are trained. To act, an agent that learned needs the extra agents
    at most. Other packages add agents through the entry-point group pmoss.agents; without one, an
    agent goes by module:Class. Any other policy of theirs is listed, too: it can be evaluated, but
    not trained.
    """
    from pmoss_agents import pretrained

    name = asked.name
    if name is not None and "/" in name:
        card = pretrained.card(name)
        pretrained.find(name)  # its checksum
        if asked.as_json:
            show_json(asdict(card))
            return
        for line in pretrained.in_words(card):
            console.print(line, highlight=False, soft_wrap=True)
        return
    _list_all(name, asked.as_json)


def _list_all(domain: str | None, as_json: bool) -> None:
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

"""`pmoss list agents`: what there is to learn and to act with."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from pmoss_env.cli.console import console, show_json, show_rows
from pmoss_env.cli.listing import Request

if TYPE_CHECKING:
    from pmoss_agents.registry import Listing

#: What agents learn from, in words.
_LEARNS = {"offline": "data", "online": "play", "nothing": "nothing"}


def list_agents(asked: Request) -> None:
    """Lists the agents, of a domain if one is named, or shows one: its card or committed config.

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


def _show(listing: Listing, as_json: bool) -> None:
    """Shows an agent that can be trained, with its config; that of some tasks differs."""
    from pmoss_agents.configs import committed_config

    defaults, committed = _defaults(listing.name), committed_config(listing.name, "")
    config = {**defaults, **committed}
    if as_json:
        show_json({**asdict(listing), "config": config})
        return
    extra = f"; needs the extra {listing.extra}" if listing.extra else ""
    console.print(f"{listing.name}: learns from {_LEARNS[listing.learns]}{extra}", style="bold")
    console.print(f"class {listing.path}", highlight=False, soft_wrap=True)
    usual = [(name, value, defaults.get(name, value)) for name, value in config.items()]
    rows = [(name, value, "" if value == default else default) for name, value, default in usual]
    show_rows("Config", ["setting", "value", "default, where another"], rows, False)


def _defaults(name: str) -> dict[str, Any]:
    """The config of an agent's class; empty where it cannot be imported, or has none."""
    from pmoss_agents.registry import agent_class
    from pmoss_env.errors import PmossError

    try:
        kind = getattr(agent_class(name), "Config", None)
    except PmossError:
        return {}
    return asdict(kind()) if isinstance(kind, type) and is_dataclass(kind) else {}


def _list_all(domain: str | None, as_json: bool) -> None:
    from pmoss_agents import pretrained
    from pmoss_agents.registry import OWN, listings
    from pmoss_env.errors import UnknownNameError

    every = listings()
    if domain in (by_name := {listing.name: listing for listing in every}):
        _show(by_name[domain], as_json)
        return
    domains = list(dict.fromkeys(listing.domain for listing in every if listing.domain))
    if domain is not None and domain not in domains:
        raise UnknownNameError("agent or domain", domain, [*domains, *by_name])
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

"""Machine descriptions of real servers, from a Linux host or an lstopo file."""

from __future__ import annotations

import tomllib

from pmoss_env.errors import DescriptionError
from pmoss_env.machines.description import Machine
from pmoss_env.machines.importing.describing import describe_server
from pmoss_env.machines.importing.lstopo import read_lstopo
from pmoss_env.machines.importing.server_facts import ServerFacts
from pmoss_env.machines.importing.sysfs import read_host
from pmoss_env.machines.importing.toml_text import machine_toml

__all__ = ["import_machine", "read_host", "read_lstopo"]


def import_machine(server: ServerFacts, name: str) -> str:
    """The machine file of a server, as text.

    Values that were read have high or medium confidence and name their source ("sysfs", "lstopo
    XML"). All other values are guesses from the presets of the same vendor; their sources begin
    with "guess:" and name the rule, and their confidence is low.

    Raises:
        DescriptionError: no machine description can express the server; names place and reason.
    """
    text = machine_toml(describe_server(server, name))
    try:
        Machine.from_dict(tomllib.loads(text))
    except DescriptionError as error:
        raise DescriptionError(f"{server.place}: {error}") from error
    return text

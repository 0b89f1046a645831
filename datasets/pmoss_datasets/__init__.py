"""Offline datasets: schema, collection and views."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmoss_datasets.catalog import load
    from pmoss_datasets.collection import collect
    from pmoss_datasets.domain import Domain, domains, find_domain
    from pmoss_datasets.recipes import Behaviour, Recipe
    from pmoss_datasets.schema import SCHEMA_VERSION, Field, Metadata
    from pmoss_datasets.spatial.schema import FIELDS, Episode
    from pmoss_datasets.storage import Dataset, open_dataset, write_dataset

# Imported when they are first asked for: the commands' help needs none of them.
_MODULES = {
    "catalog": ("load",),
    "collection": ("collect",),
    "domain": ("Domain", "domains", "find_domain"),
    "recipes": ("Behaviour", "Recipe"),
    "schema": ("SCHEMA_VERSION", "Field", "Metadata"),
    "spatial.schema": ("FIELDS", "Episode"),
    "storage": ("Dataset", "open_dataset", "write_dataset"),
}

__all__ = [
    "FIELDS",
    "SCHEMA_VERSION",
    "Behaviour",
    "Dataset",
    "Domain",
    "Episode",
    "Field",
    "Metadata",
    "Recipe",
    "collect",
    "domains",
    "find_domain",
    "load",
    "open_dataset",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

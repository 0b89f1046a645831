"""Offline datasets: schema, collection and views."""

from pmoss_datasets.catalog import load
from pmoss_datasets.collection import collect
from pmoss_datasets.domain import Domain, domains, find_domain
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_datasets.schema import SCHEMA_VERSION, Field, Metadata
from pmoss_datasets.spatial.schema import FIELDS, Episode
from pmoss_datasets.storage import Dataset, open_dataset, write_dataset

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

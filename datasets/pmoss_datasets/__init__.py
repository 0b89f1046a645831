"""Offline datasets: schema, collection and views."""

from pmoss_datasets.catalog import load
from pmoss_datasets.collection import collect
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_datasets.schema import FIELDS, SCHEMA_VERSION, Episode, Field, Metadata
from pmoss_datasets.storage import Dataset, open_dataset, write_dataset

__all__ = [
    "FIELDS",
    "SCHEMA_VERSION",
    "Behaviour",
    "Dataset",
    "Episode",
    "Field",
    "Metadata",
    "Recipe",
    "collect",
    "load",
    "open_dataset",
    "write_dataset",
]

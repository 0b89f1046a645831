"""Offline datasets: schema, collection and views."""

from pmoss_datasets.schema import FIELDS, SCHEMA_VERSION, Episode, Field, Metadata
from pmoss_datasets.storage import Dataset, open_dataset, write_dataset

__all__ = [
    "FIELDS",
    "SCHEMA_VERSION",
    "Dataset",
    "Episode",
    "Field",
    "Metadata",
    "open_dataset",
    "write_dataset",
]

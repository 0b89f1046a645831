"""Datasets to learn from together: of several machines, tasks or tiers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError, DescriptionError


class Several:
    """Some datasets of one domain, for an agent that learns from more than one machine.

    They need no common shape: grids, machines and slices may differ.
    """

    def __init__(self, parts: Sequence[Dataset]) -> None:
        """Takes datasets that are open.

        Raises:
            DescriptionError: there is none.
            DatasetError: they are of several domains, or one of them is there twice.
        """
        if not parts:
            raise DescriptionError("no datasets: name at least one to learn from")
        self.parts = tuple(parts)
        first = parts[0]
        for number, part in enumerate(parts):
            if part.domain.name != first.domain.name:
                raise DatasetError(
                    f"{part.path}: is of the domain {part.domain.name}, and {first.path} of "
                    f"{first.domain.name}"
                )
            if part.checksum in {other.checksum for other in parts[:number]}:
                raise DatasetError(f"{part.path}: {part.id}: holds the same episodes as another")

    @property
    def path(self) -> Path:
        """The folder of the first one."""
        return self.parts[0].path

    @property
    def id(self) -> str:
        """Their ids."""
        return " + ".join(part.id for part in self.parts)

    @property
    def checksum(self) -> str:
        """Sha256 over theirs."""
        return hashlib.sha256(" ".join(part.checksum for part in self.parts).encode()).hexdigest()

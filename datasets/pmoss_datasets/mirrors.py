"""Datasets of the suite that are not here: from a mirror, else made again to the same bits.

A mirror is a folder that ``pmoss data export`` wrote, behind an address of http, https or file.
A dataset repository of the Hugging Face hub is one: ``hf://USER/pmoss``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

import numpy as np

from pmoss_datasets.folder import DATA, METADATA, whole_folder
from pmoss_datasets.hub import CHECKSUMS, COMPACT
from pmoss_datasets.playing import RecipeWork
from pmoss_datasets.recipes import Recipe
from pmoss_datasets.replaying import is_same
from pmoss_datasets.schema import Played
from pmoss_datasets.storage import Dataset, open_dataset
from pmoss_datasets.suite import build, is_recipe, recipe_of
from pmoss_env.errors import DatasetError, DescriptionError, PmossError, UnknownNameError

#: Environment variable that names the mirror.
VARIABLE = "PMOSS_MIRROR"
_SCHEMES = ("http", "https", "file")
_HUB = "hf://"
#: No file of the suite is larger.
_MAX_BYTES = 1 << 30
#: Seconds without a byte until a mirror counts as down.
_PATIENCE = 20.0
#: Seconds of work after which it is said how long the rest takes.
_SAY_AFTER = 2.0

_log = logging.getLogger(__name__)


def is_of_suite(id_: str) -> bool:
    """Whether a committed recipe gives a dataset of this id."""
    try:
        recipe_of(id_)
    except (DescriptionError, UnknownNameError):
        return False
    return True


def obtain(id_: str, root: Path, mirror: str | None = None) -> Dataset:
    """Downloads a dataset of the suite to ``root``, or makes it again, and says which.

    What a mirror gives must have the checksums that the mirror lists, and the committed recipe; its
    first episode is made again and compared. Otherwise the dataset is made again.

    Args:
        mirror: its address; None: ``$PMOSS_MIRROR``, if that is set.

    Raises:
        DescriptionError: the address is of no scheme that is read.
        DatasetError: the dataset cannot be written.
    """
    mirror = mirror or os.environ.get(VARIABLE)
    if mirror and not (root / id_).exists():  # what is there is nothing to replace
        address = _address(mirror)
        try:
            return _download(id_, root / id_, address)
        # What a server sends may be anything.
        except (OSError, HTTPException, ValueError, PmossError) as error:
            _log.warning("%s: not from the mirror %s: %s", id_, mirror, _reason(error))
    _log.warning("%s: is made from its recipe, which gives the same bits", id_)
    began = time.monotonic()
    dataset = build(id_, root, _reporter(id_))
    _log.warning("%s: made in %.0f s", id_, time.monotonic() - began)
    return dataset


def _address(mirror: str) -> str:
    """The address of a mirror's files; DescriptionError for another scheme."""
    if mirror.startswith(_HUB):
        hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
        return f"{hub}/datasets/{mirror.removeprefix(_HUB).strip('/')}/resolve/main"
    if mirror.partition("://")[0] not in _SCHEMES:
        raise DescriptionError(
            f"mirror {mirror!r}: must begin with {_HUB} or "
            f"{', '.join(f'{scheme}://' for scheme in _SCHEMES)}"
        )
    return mirror.rstrip("/")


def _download(id_: str, path: Path, address: str) -> Dataset:
    """Writes the dataset of a mirror, once everything about it is checked."""
    lines = _get(f"{address}/{CHECKSUMS}").decode().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    place = f"{id_.partition('/')[2]}/{COMPACT}"
    with whole_folder(path) as temporary:
        for name in (METADATA, DATA):
            content = _get(f"{address}/{place}/{name}")
            if (digest := hashlib.sha256(content).hexdigest()) != sums.get(f"{place}/{name}"):
                raise DatasetError(
                    f"{place}/{name}: has the checksum {digest[:12]}, but the mirror lists "
                    f"{sums.get(f'{place}/{name}', 'none')[:12]}"
                )
            (temporary / name).write_bytes(content)
        dataset = open_dataset(temporary)
        dataset.verify()
        recipe = recipe_of(id_)
        if dataset.id != id_ or not is_recipe(dataset.metadata.recipe, recipe):
            raise DatasetError(f"{place}: is of another recipe")
        _check_first(dataset, recipe)
    return open_dataset(path)


def _get(address: str) -> bytes:
    """The content of a file; OSError where there is none, or it is too large."""
    with urllib.request.urlopen(address, timeout=_PATIENCE) as reply:
        content: bytes = reply.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(f"{address}: is larger than {_MAX_BYTES} bytes")
    return content


def _check_first(dataset: Dataset, recipe: Recipe) -> None:
    """Makes the first episode again: checksums alone do not prove what a mirror says."""
    stored = dataset.domain.values(dataset[0])
    with closing(RecipeWork(recipe)) as work:
        again = Played.from_bytes(work(0)).values
    for name, value in again.items():
        if not is_same(np.asarray(stored[name]), value):
            raise DatasetError(f"episode 0: {name}: is not what the recipe gives")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.url}: {error}"
    return str(getattr(error, "reason", error)) or type(error).__name__


def _reporter(id_: str) -> Callable[[int, int], None]:
    """Says once, after a while, how long the rest will take."""
    began, first = time.monotonic(), 0
    said = False

    def report(done: int, total: int) -> None:
        nonlocal said, first
        passed = time.monotonic() - began
        first = first or done
        if not said and done > first and passed > _SAY_AFTER:
            said = True
            left = passed * (total - done) / done
            _log.warning("%s: %d of %d episodes, about %.0f s left", id_, done, total, left)

    return report

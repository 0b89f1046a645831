"""The first episodes of a dataset."""

from pathlib import Path

import numpy as np
import pytest

import pmoss_datasets
from pmoss_datasets.excerpt import excerpt
from pmoss_datasets.suite import SHIPPED
from pmoss_env.errors import DatasetError, DescriptionError


def test_the_first_episodes_stay_as_they_were(tmp_path: Path) -> None:
    whole = pmoss_datasets.load(SHIPPED[0])
    part = excerpt(whole, tmp_path / "part", 3)
    assert part.id == whole.id.replace("-v0", "-3-v0")
    for name in ("actions", "final_throughput", "incumbent_counters"):
        assert np.array_equal(part.column(name), whole.column(name)[:3], equal_nan=True)
    assert part.metadata.provenance["excerpt"]["checksum"] == whole.checksum
    part.verify()


@pytest.mark.parametrize("episodes", [0, -1, 10_000])
def test_more_than_there_are_is_refused(tmp_path: Path, episodes: int) -> None:
    whole = pmoss_datasets.load(SHIPPED[0])
    with pytest.raises(DescriptionError, match=f"episodes = {episodes}"):
        excerpt(whole, tmp_path / "part", episodes)
    assert not (tmp_path / "part").exists()


def test_what_lies_there_stays(tmp_path: Path) -> None:
    whole = pmoss_datasets.load(SHIPPED[0])
    excerpt(whole, tmp_path / "part", 2)
    with pytest.raises(DatasetError, match="part"):
        excerpt(whole, tmp_path / "part", 3)
    assert len(excerpt(whole, tmp_path / "part", 3, overwrite=True)) == 3

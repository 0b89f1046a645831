"""Made-up worlds: the same bits from a recipe, and nothing of the catalogue."""

import numpy as np
import pytest

from pmoss_datasets.catalog import load_data, verify
from pmoss_datasets.spatial import world_sets
from pmoss_datasets.spatial.world_sets import WorldSet, WorldsRecipe, make_worlds
from pmoss_datasets.spatial.worlds import SPLITS, draw_world
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(world_sets, "SHARD", 2)


def test_worlds_are_of_no_named_machine_and_no_two_splits_share_one():
    numbers = sorted(SPLITS.values())
    assert min(np.diff(numbers)) >= world_sets.MAX_WORLDS
    assert all(draw_world(split, 0).machine.startswith("random") for split in SPLITS)


@pytest.mark.usefixtures("small_files")
def test_the_bits_are_the_same_however_a_set_was_made(tmp_path):
    at_once = make_worlds(WorldsRecipe("train", 5), tmp_path / "once")
    make_worlds(WorldsRecipe("train", 2), tmp_path / "grown")
    grown = make_worlds(WorldsRecipe("train", 5), tmp_path / "grown", processes=2)
    assert grown.checksum == at_once.checksum
    assert all(grown[number].tobytes() == at_once[number].tobytes() for number in range(5))
    assert not list(verify([tmp_path / "once"]))
    domain, data = load_data(tmp_path / "once")
    assert (domain.name, len(data), data.pieces) == ("spatial", 5, "worlds")


@pytest.mark.usefixtures("small_files")
def test_a_set_can_be_read_while_it_is_made(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    recipe = WorldsRecipe("train", 6)
    with pytest.raises(KeyboardInterrupt):
        make_worlds(recipe, tmp_path / "set", stop)
    begun = WorldSet(tmp_path / "set")
    assert begun.made(2) and not begun.made(3)
    assert begun[1]["slices"] > 0
    with pytest.raises(DatasetError, match="is missing: pmoss data worlds"):
        begun[2]
    assert begun.checksum == make_worlds(recipe, tmp_path / "set").checksum


@pytest.mark.usefixtures("small_files")
def test_a_set_that_was_stopped_holds_the_first_worlds(tmp_path):
    made = make_worlds(WorldsRecipe("train", 9), tmp_path / "set", seconds=0.0)
    assert len(made) == 2 and not list(verify([tmp_path / "set"]))
    grown = make_worlds(WorldsRecipe("train", 4), tmp_path / "set")
    assert len(grown) == 4 and grown[0].tobytes() == made[0].tobytes()


@pytest.mark.usefixtures("small_files")
def test_what_is_wrong_is_named(tmp_path):
    for wrong, error in (({"split": "all"}, UnknownNameError), ({"count": 0}, DescriptionError)):
        with pytest.raises(error):
            WorldsRecipe(**wrong)
    made = make_worlds(WorldsRecipe("test", 3), tmp_path / "worlds")
    with pytest.raises(DatasetError, match="exists already"):
        make_worlds(WorldsRecipe("train", 3), tmp_path / "worlds")
    with pytest.raises(IndexError):
        made[3]
    other = make_worlds(WorldsRecipe("train", 1), tmp_path / "worlds", overwrite=True)
    assert (other.recipe.split, len(list(other.path.glob("*.npy")))) == ("train", 1)
    made = make_worlds(WorldsRecipe("test", 3), tmp_path / "worlds", overwrite=True)
    place = next(iter(sorted((tmp_path / "worlds").glob("*.npy"))))
    content = bytearray(place.read_bytes())
    content[-1] ^= 1
    place.write_bytes(content)
    with pytest.raises(DatasetError, match="is not what was written"):
        WorldSet(tmp_path / "worlds").verify()
    place.write_bytes(bytes(content[:1000]))
    with pytest.raises(DatasetError, match="damaged"):
        WorldSet(tmp_path / "worlds")[0]

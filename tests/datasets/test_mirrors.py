"""Datasets of the suite come from a mirror or from their recipe, with the same bits."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pmoss_datasets import Recipe, collect, load, mirrors, open_dataset, suite, write_dataset
from pmoss_datasets.hub import CHECKSUMS, COMPACT
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError

ID = f"pmoss/{suite.TOY}/random-v0"
PLACE = f"{suite.TOY}/random-v0/{COMPACT}"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve episodes of the toy are enough."""
    tier = suite.tier
    monkeypatch.setattr(suite, "tier", lambda *words: {**tier(*words), "episodes": 12})
    monkeypatch.delenv(mirrors.VARIABLE, raising=False)


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Nothing is logged."""


def list_checksums(folder: Path) -> None:
    names = [f"{PLACE}/metadata.json", f"{PLACE}/data.hdf5"]
    digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    text = "".join(f"{digest}  {name}\n" for digest, name in zip(digests, names, strict=True))
    (folder / CHECKSUMS).write_text(text)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of a mirror with one dataset, and its address."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    collect(suite.recipe_of(ID), folder / PLACE)
    list_checksums(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_mirror_gives_what_the_recipe_gives(mirror, tmp_path, caplog, monkeypatch):
    folder, address = mirror
    made = load(ID, tmp_path / "made")
    assert "is made from its recipe" in caplog.text and "made in" in caplog.text
    caplog.clear()
    downloaded = load(ID, tmp_path / "downloaded", mirror=address)
    assert downloaded.checksum == made.checksum and caplog.text == ""
    assert downloaded.path == tmp_path / "downloaded" / ID
    monkeypatch.setenv(mirrors.VARIABLE, folder.as_uri())
    assert load(ID, tmp_path / "other").checksum == made.checksum and caplog.text == ""
    monkeypatch.setenv("HF_ENDPOINT", f"{address}/hub")
    assert mirrors._address("hf://me/pmoss") == f"{address}/hub/datasets/me/pmoss/resolve/main"


def flip(folder: Path, name: str) -> None:
    content = bytearray((folder / PLACE / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / PLACE / name).write_bytes(content)


def make_other(folder: Path, recipe: Recipe) -> None:
    for file in collect(recipe, folder / "made" / "other").path.iterdir():
        file.replace(folder / PLACE / file.name)
    list_checksums(folder)


def write_other_episodes(folder: Path) -> None:
    """What is whole and claims the right recipe, but is not what it gives."""
    recipe = suite.recipe_of(ID)
    other = collect(replace(recipe, seed=recipe.seed + 1), folder / "made" / "seed")
    metadata = open_dataset(folder / PLACE).metadata
    write_dataset(folder / PLACE, list(other), metadata, overwrite=True)
    list_checksums(folder)


BROKEN = {
    "wrong checksum": (lambda folder: flip(folder, "data.hdf5"), "has the checksum"),
    "no list": (lambda folder: (folder / CHECKSUMS).unlink(), "404"),
    "no data": (lambda folder: (folder / PLACE / "data.hdf5").unlink(), "404"),
    "another recipe": (
        lambda folder: make_other(folder, suite.recipe_of(f"pmoss/{suite.TOY}/heuristic-v0")),
        "is of another recipe",
    ),
    "other episodes": (write_other_episodes, "is not what the recipe gives"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_a_mirror_gives_wrong_is_made_again(what, mirror, tmp_path, caplog):
    folder, address = mirror
    expected = load(ID, tmp_path / "made").checksum
    damage, words = BROKEN[what]
    damage(folder)
    caplog.clear()
    assert load(ID, tmp_path / "data", mirror=address).checksum == expected
    assert f"not from the mirror {address}: " in caplog.text and words in caplog.text
    assert [path.name for path in (tmp_path / "data").rglob(".*")] == []


def test_without_a_network_the_data_are_made(tmp_path, caplog):
    for mirror in ("http://127.0.0.1:9", "file:///is/not/there", "http://"):
        dataset = load(ID, tmp_path / mirror[-5:], mirror=mirror)
        assert len(dataset) == 12 and f"not from the mirror {mirror}" in caplog.text
    with pytest.raises(DescriptionError, match=r"mirror 'ftp://x': must begin with hf://"):
        load(ID, tmp_path / "ftp", mirror="ftp://x")
    kept = tmp_path / "other" / ID / "mine.txt"
    kept.parent.mkdir(parents=True)
    kept.touch()
    with pytest.raises(DatasetError, match=r"metadata\.json: is missing"):
        load(ID, tmp_path / "other", mirror="http://127.0.0.1:9")
    assert kept.exists()
    with pytest.raises(UnknownNameError, match="dataset"):
        load("pmoss/toy-btree-ycsb-a/nothing-v0", tmp_path)
    with pytest.raises(DatasetError, match=f"`pmoss data build {ID}` makes it"):
        load(ID, tmp_path / "empty", obtain=False)

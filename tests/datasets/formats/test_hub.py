"""The folder for the hub: Minari and d3rlpy read it, and its metadata are what the hub takes."""

import csv
import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pmoss_datasets import Dataset, Recipe, collect, open_dataset, write_dataset
from pmoss_datasets.catalog import dataset_folders
from pmoss_datasets.folder import DATA, METADATA
from pmoss_datasets.formats.hub import export
from pmoss_datasets.hub import card_text, send, size_category
from pmoss_datasets.index import COLUMNS, as_table, line
from pmoss_datasets.suite import SHIPPED, SHIPPED_ROOT, licence_of
from pmoss_env.errors import BackendError, DatasetError, DescriptionError, MissingExtraError

minari = pytest.importorskip("minari")
yaml = pytest.importorskip("yaml")


def front_matter(path: Path) -> dict:
    """The metadata of a card, read by a parser that is not ours."""
    first, metadata, text = path.read_text().split("---\n", 2)
    assert first == "" and text.startswith("\n# ")
    return yaml.safe_load(metadata)


def check_sums(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(entry.split("  ")) for entry in lines)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {*sums, "SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


@pytest.fixture(scope="module")
def hub(original: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export([original], tmp_path_factory.mktemp("hub"), licence="CC-BY-4.0")


def test_the_card_is_what_the_hub_takes(original: Dataset, hub: Path) -> None:
    facts = front_matter(hub / "README.md")
    assert facts["license"] == "cc-by-4.0"
    assert facts["task_categories"] == ["reinforcement-learning"]
    assert facts["size_categories"] == ["n<1K"] and "minari" in facts["tags"]
    assert (hub / facts["configs"][0]["data_files"]).is_file()
    check_sums(hub)
    [row] = csv.DictReader((hub / "index.csv").open())
    assert tuple(row) == COLUMNS and row["checksum"] == original.checksum
    assert row["id"] in (hub / "README.md").read_text()
    place = hub.parent / original.id / "README.md"
    assert "## Licence\n\nCC-BY-4.0." in place.read_text()
    assert json.loads((hub / "namespace_metadata.json").read_text())["datasets"] == [original.id]


def test_minari_and_d3rlpy_read_it(original, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(hub.parent))
    assert set(minari.list_local_datasets()) == {original.id}
    assert "pmoss" in minari.namespace.list_local_namespaces()
    loaded = minari.load_dataset(original.id)
    assert loaded.total_episodes == len(original)
    for stored, episode in zip(loaded.iterate_episodes(), original, strict=True):
        np.testing.assert_array_equal(stored.actions, episode.actions)

    from pmoss_datasets.formats.d3rlpy import to_d3rlpy

    for theirs, episode in zip(to_d3rlpy(original).episodes, original, strict=True):
        assert theirs.actions[:, 0].tolist() == episode.actions.tolist()


def test_a_second_call_keeps_what_is_there(original: Dataset, hub: Path, tmp_path: Path) -> None:
    file = hub.parent / original.id / "data" / "main_data.hdf5"
    before = file.stat().st_mtime_ns
    assert {path.name for path in (hub.parent / original.id / "compact").iterdir()} == {
        DATA,
        METADATA,
    }
    # What a kill leaves is no dataset, and is not shared.
    for name in (f".{file.parents[1].name}.0123456789ab/data", ".README.md.0123456789ab"):
        (file.parents[2] / name).mkdir(parents=True)
    (file.parents[2] / f".{file.parents[1].name}.0123456789ab/data" / file.name).touch()
    export([original], hub.parent, licence="CC-BY-4.0")
    assert file.stat().st_mtime_ns == before
    assert [path.name for path in hub.rglob(".*")] == [".gitattributes"]
    check_sums(hub)
    with pytest.raises(DatasetError, match="holds another dataset"):
        export([original], hub.parent, licence="CC-BY-4.0", reward="slice")
    metadata = hub.parent / original.id / "compact" / "metadata.json"
    written = metadata.read_bytes()
    metadata.write_bytes(written + b" ")
    with pytest.raises(DatasetError, match="json: is not what was written: remove"):
        export([original], hub.parent, licence="CC-BY-4.0")
    metadata.write_bytes(written)
    (data := hub.parent / original.id / "compact" / DATA).rename(data.with_suffix(".away"))
    with pytest.raises(DatasetError, match="hdf5: is not what was written: remove"):
        export([original], hub.parent, licence="CC-BY-4.0")
    data.with_suffix(".away").rename(data)
    # The same episodes, with other reference scores.
    scores = {**original.metadata.reference_scores, "incumbent": {"mean": 1.0, "std": 0.0, "n": 2}}
    other = write_dataset(
        tmp_path / "other", list(original), replace(original.metadata, reference_scores=scores)
    )
    assert other.checksum == original.checksum
    with pytest.raises(DatasetError, match="holds another dataset"):
        export([other], hub.parent, licence="CC-BY-4.0")
    (hub / "index.csv").write_text("as a call that was killed left it")
    export([original], hub.parent, licence="CC-BY-4.0")
    check_sums(hub)
    shipped = open_dataset(SHIPPED_ROOT / SHIPPED[1])
    with pytest.raises(DatasetError, match="is not among what is exported"):
        export([shipped], hub.parent)


def test_parquet_has_splits_that_a_viewer_shows(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra hub is not installed")
    recipe = Recipe(env={"machine": "toy", "slices": 8}, episodes=12, reference_episodes=0)
    data = collect(recipe, tmp_path / "data")
    folder = export([data], tmp_path / "hub", "CC-BY-4.0", form="parquet", doi="10.5281/zenodo.123")
    facts = front_matter(folder / "README.md")
    assert facts["doi"] == "10.5281/zenodo.123"
    assert "doi.org/10.5281" in (folder / "README.md").read_text()
    _, config = facts["configs"]
    shown = {}
    for split in config["data_files"]:
        files = sorted(folder.glob(split["path"]))
        shown[split["split"]] = {int(file.parent.name) for file in files}
    assert shown == {"train": {*range(12)} - {9}, "validation": {9}}
    table = parquet.read_table(folder.parent / data.id / "data" / "9" / "part-0.parquet")
    assert table.column("actions").to_pylist()[:-1] == data[9].actions.tolist()
    check_sums(folder)

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder.parent))
    loaded = minari.load_dataset(data.id)
    assert loaded.total_episodes == 12 and loaded.recover_environment() is not None
    # A mirror of the same folder has the compact form.
    assert [each.name for each in dataset_folders(folder)] == ["compact"]
    assert open_dataset(folder.parent / data.id / "compact").checksum == data.checksum
    with pytest.raises(DatasetError, match="holds another dataset"):
        export([data], folder.parent, "CC-BY-4.0")
    with pytest.raises(DescriptionError, match="doi 'mine': must look like"):
        export([data], folder.parent, "CC-BY-4.0", doi="mine")


def test_the_folder_is_uploaded_as_it_is(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
    loaded = package.DatasetCard.load(hub / "README.md")
    assert loaded.data.license == "cc-by-4.0" and loaded.data.pretty_name == "pmoss_env"
    sent = []

    class Api:
        def create_repo(self, *words: object, **more: object) -> None:
            sent.append((words, more))

        def upload_folder(self, **words: object) -> str:
            if "down" in str(words["repo_id"]):
                raise ConnectionError("no route to the hub")
            return f"https://hub/{words['repo_id']}/{Path(str(words['folder_path'])).name}"

    monkeypatch.setattr(package, "HfApi", Api)
    assert send(hub, "me/pmoss", "dataset") == f"https://hub/me/pmoss/{hub.name}"
    assert sent == [(("me/pmoss",), {"repo_type": "dataset", "exist_ok": True})]
    with pytest.raises(BackendError, match="me/down: cannot be uploaded: no route"):
        send(hub, "me/down", "dataset")


def test_without_their_packages_the_extra_is_named(original, hub, tmp_path, monkeypatch):
    for package in ("pyarrow", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"'\.\[hub\]'"):
        export([original], tmp_path / "hub", licence="CC-BY-4.0", form="parquet")
    with pytest.raises(MissingExtraError, match=r"'\.\[hub\]'"):
        send(hub, "me/pmoss", "dataset")


def test_what_cannot_be_shared_is_refused(original: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no dataset to export"):
        export([], tmp_path / "hub")
    with pytest.raises(DatasetError, match=r"has no licence.*--licence"):
        export([original], tmp_path / "hub")
    with pytest.raises(DatasetError, match="is there twice"):
        export([original, original], tmp_path / "hub", licence="CC-BY-4.0")
    assert not (tmp_path / "hub").exists()


@pytest.mark.parametrize("id_", SHIPPED)
def test_what_ships_has_licence_quality_and_references(id_: str) -> None:
    dataset = open_dataset(SHIPPED_ROOT / id_)
    assert licence_of(dataset) == "Apache-2.0"
    listed = line(dataset)
    assert listed["reference_low"] < listed["mean"] < listed["reference_high"]
    assert 0 < listed["quality"] < 1 and 0 < listed["coverage"] <= 1
    head, [row] = as_table([listed])
    assert len(head) == len(row) and all(row)


def test_metadata_are_yaml_whatever_they_hold() -> None:
    facts = {"a": 'no: "yes"\n---', "b": ["é", "- x", "null"], "c": 1.5, "d": [{"e": ["f"]}]}
    text = card_text(facts, "# Title")
    assert yaml.safe_load(text.split("---\n", 1)[1].rsplit("\n---\n", 1)[0]) == facts
    assert text.endswith("\n# Title\n")


def test_sizes_have_the_names_of_the_hub() -> None:
    sizes = {999: "n<1K", 1000: "1K<n<10K", 2_000_000: "1M<n<10M", 10**12: "n>1T"}
    assert {count: size_category(count) for count in sizes} == sizes

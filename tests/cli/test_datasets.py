"""`pmoss data ...` from end to end, in this process."""

import sys
from pathlib import Path

import h5py
import pytest

from pmoss_datasets import Dataset, catalog, open_dataset, suite
from pmoss_datasets.formats import hub
from pmoss_env.errors import UnknownNameError
from tests.cli.invoking import pmoss

ID = f"pmoss/{suite.TOY}/heuristic-v0"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: None) -> Path:
    """A root with one built dataset of four episodes."""
    monkeypatch.setenv(catalog.VARIABLE, str(tmp_path / "root"))
    output = pmoss("data", "build", ID, "--processes", 1)
    assert f"{ID}: 4 episodes" in output and "1 datasets in" in output
    return tmp_path / "root"


def test_list_show_and_verify(root: Path) -> None:
    output = pmoss("list", "datasets")
    total = len(suite.suite_ids())
    assert ID in output and f"0 of the {total} of the standard suite are built" in output
    assert "## Known limits" in pmoss("list", "datasets", ID)
    absent = suite.suite_ids()[-1]
    assert f"`pmoss data build {absent}` makes it" in pmoss("list", "datasets", absent, status=2)
    assert "1 datasets, nothing wrong" in pmoss("data", "verify", ID, "--rebuild")
    assert "--trust bin.so: only --rebuild" in pmoss(
        "data", "verify", "--trust", "bin.so", status=2
    )
    with h5py.File(root / ID / "data.hdf5", "a") as file:
        file["seed"][1] += 1
    output = pmoss("data", "verify", root, status=1)
    assert "data.hdf5: episode 1: seed: bytes differ" in output
    (root / ID / "metadata.json").write_text("{")
    output = pmoss("list", "datasets")
    assert "damaged" in output and "shipped" in output
    for command in (["list", "datasets"], ["data", "verify"]):
        assert "nowhere: is no folder" in pmoss(*command, "--root", root / "nowhere", status=2)


def test_datasets_are_converted(root: Path, tmp_path: Path) -> None:
    pmoss("data", "convert", ID, tmp_path / "d4rl.hdf5", "--to", "d4rl", "--reward", "slice")
    with h5py.File(tmp_path / "d4rl.hdf5") as file:
        assert file["observations"].shape[0] == file["terminals"].shape[0] == 32
        assert file["terminals"][()].sum() == 4 and file["infos/action_mask"].shape[0] == 32
        assert file["metadata/reward"][()] == b"slice"
    pytest.importorskip("minari")
    pmoss("data", "convert", ID, tmp_path / "minari")


def test_a_dataset_of_ones_own_has_a_namespace(root: Path, tmp_path: Path) -> None:
    id_ = "mine/toy-btree-ycsb-a/random-v0"
    words = ["-e", "machine=toy", "-e", "slices=8", "--episodes", 1, "--tier", "random"]
    assert id_ in pmoss("data", "collect", root / id_, *words, "--namespace", "mine")
    assert id_ in pmoss("list", "datasets", id_)
    assert "nothing wrong" in pmoss("data", "verify", id_, "--rebuild")
    shared = ["--dataset", id_, "--licence", "CC0-1.0"]
    pytest.importorskip("minari")
    pmoss("data", "export", tmp_path / "hub", *shared)
    assert (tmp_path / "hub" / id_).is_dir() and (tmp_path / "hub/mine/index.csv").is_file()
    output = pmoss("data", "export", tmp_path / "both", *shared, "--dataset", ID, status=2)
    assert "is not of the namespace mine/" in output


def test_collect_takes_a_policy(root: Path, tmp_path: Path) -> None:
    words = ["lpt", "-e", "machine=toy", "-e", "slices=8", "--episodes", 2]
    output = pmoss("data", "collect", tmp_path / "x", *words, "--epsilon", 0.5, "--counterfactuals")
    assert "local/toy-btree-ycsb-a/lpt-v0: 2 episodes" in output
    dataset = open_dataset(tmp_path / "x")
    assert dataset.metadata.policy_names == ("lpt+eps0.5",)
    assert dataset.column("counterfactual").shape == (2, 8, 6)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "data collect x --recipe r.toml --episodes 50 --tier a --seed -5",
            "--tier, --episodes, --seed with --recipe: ",
        ),
        ("data collect x --recipe r.toml --counterfactuals", "--counterfactuals with --rec"),
        ("data collect x --epsilon 0.5", "--epsilon without a policy: "),
        ("data collect x --argument a", "--argument without a policy: "),
        ("data collect x lpt --tier mixed", "--tier with lpt: "),
        (f"data build {ID} --tier expert", f"--tier with {ID}: "),
        (f"data build {ID} --shipped", f"--shipped with {ID}: "),
        ("data build --shipped --root x", "--root with --shipped: "),
        (f"data build {ID} bogus", "id 'bogus': must look like"),
    ],
)
def test_what_contradicts_is_refused_before_the_work(words, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(catalog.VARIABLE, str(tmp_path / "root"))
    assert complaint in pmoss(*words.split(), status=2)
    assert list(tmp_path.iterdir()) == []


def test_other_environments_are_collected_and_listed_alike(tmp_path, monkeypatch):
    monkeypatch.setenv(catalog.VARIABLE, str(tmp_path))
    out = tmp_path / "pmoss" / "scans"
    words = ("oracle", "--domain", "access-path", "-e", "scans=4", "--episodes", 2)
    output = pmoss("data", "collect", out, *words)
    assert "local/uv-300h-access-path-scans-4/oracle-v0: 2 episodes" in output and " ms " in output
    listed = pmoss("list", "datasets")
    assert "uv-300h-access-path-scans-4/oracle-v0" in listed and " ms" in listed
    assert "score 100: the best of oracle" in pmoss("list", "datasets", out)
    assert "1 datasets, nothing wrong" in pmoss("data", "verify", out, "--rebuild", "--replay")
    pmoss("data", "convert", out, tmp_path / "flat.hdf5", "--to", "d4rl")
    words = (tmp_path / "x", "--domain", "threads", "-e", "load=closed")
    assert "env: load: unknown" in pmoss("data", "collect", *words, status=2)


def test_without_h5py_a_listing_names_the_extra_and_ids_are_still_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "'.[datasets]'" in pmoss("list", "datasets", status=2)
    with pytest.raises(UnknownNameError, match=f"Did you mean '{suite.SHIPPED[0]}'"):
        catalog.load(suite.SHIPPED[0].replace("busy", "bussy"))


def test_extras_are_missed_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pmoss_datasets.collection.run_tasks", lambda *_, **__: 1 / 0)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "h5py" in pmoss("data", "collect", tmp_path / "x", status=2)


def test_data_without_a_licence_do_not_stop_an_export_of_all(root, tmp_path, monkeypatch):
    datasets = [open_dataset(root / ID), open_dataset(suite.SHIPPED_ROOT / suite.SHIPPED[0])]
    exported: list[str] = []

    def write(chosen: list[Dataset], out: Path, *_: object, **more: object) -> Path:
        exported.extend(each.id for each in chosen)
        return out

    monkeypatch.setattr(hub, "export", write)
    monkeypatch.setattr(catalog, "installed", lambda root: datasets)
    monkeypatch.setattr(suite, "licence_of", lambda each: "" if each.id == ID else "CC-BY-4.0")
    output = pmoss("data", "export", tmp_path)
    assert exported == [suite.SHIPPED[0]] and f"left out: {ID} has no licence" in output
    pmoss("data", "export", tmp_path, "--licence", "MIT")
    assert set(exported[1:]) == {ID, suite.SHIPPED[0]}
    del exported[:]
    monkeypatch.setattr(suite, "every_id", lambda: list(suite.SHIPPED))
    pmoss("data", "export", tmp_path, "--suite")
    assert exported == list(suite.SHIPPED)

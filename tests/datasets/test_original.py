"""The import of the original's files: on the sample where it is there, on made-up files always."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_datasets.original import (
    find_original,
    import_folder,
    read_knowledge_base,
    read_machine_file,
    read_schedule,
    save_snapshots,
)
from pmoss_datasets.original.knowledge_base import EVENTS
from pmoss_env.errors import DatasetError
from tests.cli.invoking import pmoss


@pytest.fixture(scope="module")
def sample():
    folder = find_original()
    if folder is None or not folder.is_dir():
        pytest.skip("no copy of the original's data: set PMOSS_ORIGINAL_DATA")
    return folder


@pytest.fixture(scope="module")
def original(sample):
    return import_folder(sample, "intel_skx_4s_8n")


def test_counters_of_the_sample_are_differenced_means(original):
    snapshots = original.snapshots
    assert snapshots.vendor == "intel_skx" and not snapshots.dropped.any()
    # The figures are means over samples, which hot slices have more of.
    weights = snapshots.samples / snapshots.samples.sum(axis=1, keepdims=True)
    of_query = (snapshots.counters[..., 1] * weights).sum(axis=1)
    assert of_query.round().tolist() == [38827, 38303, 38821, 40122, 39520, 38212]
    read = snapshots.memory_mb_per_s[..., 0].mean(axis=0).round().tolist()
    assert read == [7148, 1756, 1743, 2155, 1327, 1557, 1410, 1603]
    written = snapshots.memory_mb_per_s[..., 1].mean(axis=0).round().tolist()
    assert written == [7237, 1953, 1967, 2295, 1524, 1702, 1551, 1784]
    links = snapshots.link_gb_per_s.mean(axis=0).round(2).T.tolist()
    assert links == [[5.39, 6.10, 5.90, 5.94], [2.97, 2.15, 2.03, 2.05]]


def test_the_command_says_what_it_found(sample, tmp_path):
    out = tmp_path / "snapshots.npz"
    words = ("data", "import-original", str(sample), "--out", str(out))
    said = pmoss(*words)
    assert "schedules: 54, learned: 2, which put 14% of the slices on their core's" in said
    assert "910.6 918.8 920.8 889.6 903.2 925.8 kq/s" in said
    assert "hottest slice: 4.11%" in said and "256 of 256" in said
    assert "exists already" in pmoss(*words, status=2)
    with np.load(out) as file:
        assert file["queries"].shape == (6, 256)
        assert file["schedule_cores"].shape == (54, 256)
        np.testing.assert_array_equal(file["schedule_nodes"], file["schedule_executed_nodes"])
        assert file["learned_workloads"].tolist() == ["11", "12"]
        assert file["learned_ids"].tolist() == [259, 259]
        np.testing.assert_array_equal(file["learned_nodes"], file["learned_cores"] // 12)
        assert (file["learned_nodes"] == file["learned_executed_nodes"]).mean() < 0.15


def last(word):
    """Puts ``word`` in place of a file's last one."""
    return lambda text: text.rstrip().rpartition(" ")[0] + f" {word}\n"


# What follows needs no data: files made up in each vendor's layout.
VENDORS = {
    "intel_skx_x": "intel_skx",
    "intel_sb_x": "intel_sb",
    "amd_x": "amd",
    "nvidia_x": "nvidia",
}


def make_original(root: Path, machine: str, runs: int = 2, ticks: int = 3) -> dict[str, np.ndarray]:
    """Two nodes with two workers each; counters and queries that grow by known steps."""
    events = len(EVENTS[VENDORS[machine]])
    (root / "machines").mkdir(parents=True)
    (root / "machines" / f"{machine}.cfg").write_text("2 2 1 2 1\n4\n1 5\n2 3 6 7\n0 1 2 3\n")
    rng = np.random.default_rng(1)
    cpus = rng.choice([2, 3, 6, 7], size=256)
    nodes = cpus // 4
    (root / "schedules" / machine).mkdir(parents=True)
    lines = np.concatenate([nodes.reshape(16, 16), cpus.reshape(16, 16)])
    np.savetxt(root / "schedules" / machine / "c_5_256.txt", lines, fmt="%d")
    steps = rng.integers(1, 50, size=(runs, ticks, 256)) * 100
    means = rng.uniform(1, 9, size=(runs, ticks, 256, events))
    for node, cpu in enumerate((1, 5)):
        folder = root / "kb_b__" / str(cpu)
        folder.mkdir(parents=True)
        mine = nodes == node
        views, counts = [], []
        for run in range(runs):
            queries = np.cumsum(steps[run] * mine, axis=0)
            sums = np.cumsum(means[run] * (steps[run] * mine / 100)[..., None], axis=0)
            for tick in range(ticks):
                head = [5 + run, tick, 12, 0]
                views.append([*head, *sums[tick].ravel(), *(steps[run, tick] * mine)])
                counts.append([*head, *queries[tick]])
        np.savetxt(folder / "data_view.txt", views, fmt="%.10g")
        np.savetxt(folder / "query-exec_view.txt", counts, fmt="%d")
        (folder / "mem-channel_view.txt").write_text("")
    return {"steps": steps, "means": means, "nodes": nodes}


@pytest.mark.parametrize("machine", VENDORS)
def test_all_layouts_are_recognised_and_corrected(tmp_path, machine):
    truth = make_original(tmp_path, machine)
    data = import_folder(tmp_path, machine)
    snapshots = data.snapshots
    assert snapshots.vendor == VENDORS[machine]
    assert snapshots.config.tolist() == [5, 5, 6, 6] and snapshots.tick.tolist() == [1, 2, 1, 2]
    np.testing.assert_array_equal(snapshots.queries, truth["steps"][:, 1:].reshape(4, 256))
    expected = truth["means"][:, 1:].reshape(4, 256, -1).copy()
    expected[..., 1] /= 100
    if machine != "intel_skx_x":
        expected[..., 1] = np.nan
    np.testing.assert_allclose(snapshots.counters, expected, rtol=1e-6)
    np.testing.assert_array_equal(snapshots.home_nodes, truth["nodes"])
    assert data.on_their_cores_node() == 256
    assert np.isnan(snapshots.memory_mb_per_s).all()
    save_snapshots(tmp_path / "out.npz", data)
    with pytest.raises(DatasetError, match=r"out\.npz: exists already"):
        save_snapshots(tmp_path / "out.npz", data)
    save_snapshots(tmp_path / "out.npz", data, overwrite=True)


def move(root: Path, before: str, after: str) -> None:
    (root / after).parent.mkdir(parents=True, exist_ok=True)
    (root / before).rename(root / after)


def test_the_learners_repository_is_read_as_it_is_without_snapshots(tmp_path):
    make_original(tmp_path, "amd_x")
    move(tmp_path, "machines/amd_x.cfg", "machines/amd_x/hw.cfg")
    move(tmp_path, "schedules/amd_x", "machine_configs/amd_x")
    move(tmp_path, "kb_b__", "kbs/amd/x/kb_b__")
    learned = tmp_path / "pmoss_machine_configs" / "amd_x" / "11" / "c_15000_256.txt"
    learned.parent.mkdir(parents=True)
    learned.write_bytes((tmp_path / "machine_configs" / "amd_x" / "c_5_256.txt").read_bytes())
    data = import_folder(tmp_path, "amd_x")
    assert data.machine.name == "amd_x" and data.snapshots is not None
    assert set(data.schedules) == {5} and set(data.learned) == {("11", 15000)}
    move(tmp_path, "kbs", "elsewhere")
    data = import_folder(tmp_path, "amd_x")
    assert data.snapshots is None and "snapshots: none" in data.summary()
    save_snapshots(tmp_path / "out.npz", data)
    with np.load(tmp_path / "out.npz") as file:
        assert file["learned_cores"].shape == (1, 256) and "queries" not in file
    with pytest.raises(DatasetError, match="no folder of snapshots"):
        import_folder(tmp_path, "amd_x", "kb_b__")
    with pytest.raises(DatasetError, match="no snapshots: nothing tells"):
        data.on_their_cores_node()


def test_the_systems_repository_is_read_with_a_machine_file_from_elsewhere(tmp_path):
    make_original(tmp_path, "intel_skx_x")
    move(tmp_path, "schedules/intel_skx_x", "src/config/skx_x")
    move(tmp_path, "machines/intel_skx_x.cfg", "mine/hw.cfg")
    with pytest.raises(DatasetError, match=r"has no machine file .*hw\.cfg.*--machine-file"):
        import_folder(tmp_path, "intel_skx_x")
    data = import_folder(tmp_path, "intel_skx_x", machine_file=tmp_path / "mine" / "hw.cfg")
    assert data.machine.name == "intel_skx_x" and set(data.schedules) == {5}
    assert data.snapshots is not None


def test_a_folder_with_nothing_of_the_machine_names_where_it_looked(tmp_path):
    make_original(tmp_path, "amd_x")
    move(tmp_path, "machines/amd_x.cfg", "other/machines/amd_x/hw.cfg")
    with pytest.raises(DatasetError, match=r"neither schedules .* pmoss_machine_configs/amd_x"):
        import_folder(tmp_path / "other", "amd_x")


@pytest.mark.parametrize(("name", "slices"), [("c_7", 100), ("c_7_1000", 1000), ("c_7_256_r", 256)])
def test_a_schedule_has_as_many_slices_as_its_name_says(tmp_path, name, slices):
    make_original(tmp_path, "amd_x")
    machine = read_machine_file(tmp_path / "machines" / "amd_x.cfg")
    path = tmp_path / f"{name}.txt"
    width = 16 if slices == 256 else 10
    rows = np.repeat([0, 2], slices).reshape(-1, width)
    np.savetxt(path, rows, fmt="%d")
    assert read_schedule(path, machine).schedule.cores.size == slices
    for fewer in (2, 3, len(rows)):
        np.savetxt(path, rows[: len(rows) - fewer], fmt="%d")
        with pytest.raises(DatasetError, match=f"{name}.*: must be {slices} nodes"):
            read_schedule(path, machine)


@pytest.mark.parametrize(
    ("file", "change", "text"),
    [
        ("kb_b__/5/data_view.txt", lambda t: t[:-400], r"5/data_view\.txt: row 6: \d+ columns"),
        ("kb_b__/5/data_view.txt", lambda t: "x" + t, r"5/data_view\.txt: line 1: could not"),
        ("kb_b__/5/query-exec_view.txt", lambda t: t.split("\n", 1)[1], "does not fit"),
        ("kb_b__/5/query-exec_view.txt", lambda t: "6" + t[1:], "runs and ticks are not"),
        ("kb_b__/1/data_view.txt", lambda t: "", "holds no row"),
        ("kb_b__/5/query-exec_view.txt", last("nan"), r"5/query-exec_view\.txt: row 6: slice 255"),
        ("kb_b__/1/query-exec_view.txt", last("-100"), "row 6: slice 255: -100.0: must be a count"),
        ("kb_b__/5/data_view.txt", last("inf"), r"5/data_view\.txt: row 6: slice 255: inf"),
        ("kb_b__/1/data_view.txt", last("-1"), r"1/data_view\.txt: row 6: slice 255: -1\.0"),
        ("machines/amd_x.cfg", lambda t: t.replace("2 3 6", "2 99999999999 6"), r"4: .* 2\^31"),
        ("schedules/amd_x/c_5_256.txt", lambda t: "4294967296" + t[1:], "row 1: must hold whole"),
        ("kb_b__/5/data_view.txt", last("1e308"), "line 6: has a number above"),
        ("kb_b__/5/data_view.txt", last("1_0"), "line 6: has something else than numbers"),
        ("schedules/amd_x/c_5_256.txt", last("1e300"), "line 32: has a number above"),
        ("schedules/amd_x/c_5_256.txt", lambda t: t[: len(t) // 8 * 7], "28 rows, 448 numbers"),
        ("machines/amd_x.cfg", lambda t: t.replace("2 3 6 7", "2 3 6"), "line 2: 4: must be 3"),
        ("machines/amd_x.cfg", lambda t: t.replace("2 3 6 7", "2 3 6 6"), "line 4: .*different"),
        ("machines/amd_x.cfg", lambda t: t.replace("1 5", "1.5 5"), "row 3: must hold whole"),
        ("machines/amd_x.cfg", lambda t: t.replace(t.split()[3], "-1", 1), "line 1: "),
        ("machines/amd_x.cfg", lambda t: t + "1\n", "6 lines: must be 5"),
        ("schedules/amd_x/c_5_256.txt", lambda t: t.replace("7", "4"), "CPU 4: is no worker"),
        ("schedules/amd_x/c_5_256.txt", lambda t: t[: len(t) // 2 - 20], "columns|rows"),
    ],
)
def test_damage_names_the_file_and_the_row(tmp_path, file, change, text):
    make_original(tmp_path, "amd_x")
    path = tmp_path / file
    path.write_text(change(path.read_text()))
    with pytest.raises(DatasetError, match=text) as caught:
        import_folder(tmp_path, "amd_x")
    assert Path(file).name in str(caught.value) or "kb_b__" in str(caught.value)


def test_a_layout_of_another_vendor_is_refused(tmp_path):
    make_original(tmp_path, "amd_x")
    (tmp_path / "machines" / "amd_x.cfg").rename(tmp_path / "machines" / "intel_sb_x.cfg")
    machine = read_machine_file(tmp_path / "machines" / "intel_sb_x.cfg")
    with pytest.raises(DatasetError, match="the layout of amd or nvidia"):
        read_knowledge_base(tmp_path / "kb_b__", machine)

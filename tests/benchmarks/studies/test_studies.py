"""The papers' studies, on machines small enough for a test."""

import json
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.studies import StudyOptions, run_studies, study_cells
from pmoss_benchmarks.studies.causes import mesh_figures, scan_causes, thread_causes
from pmoss_benchmarks.studies.figures import gain_figures
from pmoss_benchmarks.studies.plan import STUDIES, SWITCHES, distinct_vendors, lost_counters
from pmoss_benchmarks.studies.seeing import Seen
from pmoss_benchmarks.studies.switches import switched
from pmoss_benchmarks.study import Results
from pmoss_benchmarks.validation.targets import choose
from pmoss_datasets import Recipe, collect
from pmoss_datasets.evaluation import read_results, replay
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.types import COUNTER_INDEX

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
SMALL = {"machine": "toy", "slices": 4, "sizes": (2,), "usual": 2, "episodes": 1, "budget": 20}
QUICK = {"members": 1, "updates": 2}
#: A statement that each of these switches changes.
CHANGING = {
    "NUMA balancing": "15b",
    "search for the backlog": "12b",
    "first touch": "15b",
    "far as near": "15b",
    "caches 64 times as large": "15b",
}


def test_each_study_has_cells_and_what_they_are_compared_with() -> None:
    cells = study_cells(StudyOptions())
    assert len({cell.name for cell in cells}) == len(cells)
    assert {cell.study for cell in cells} == {*STUDIES, "rules"}
    some = study_cells(StudyOptions(), ["stale"])
    assert {cell.study for cell in some} == {"stale", "rules", "data"}
    assert [cell.study for cell in study_cells(StudyOptions(), ["gain"])] == ["gain"]
    with pytest.raises(UnknownNameError, match="stael"):
        study_cells(StudyOptions(), ["stael"])
    with pytest.raises(DescriptionError, match="usual = 7"):
        StudyOptions(usual=7)


def test_the_counter_table_tells_what_a_vendor_lacks() -> None:
    assert lost_counters("mesh_server") == ()
    assert (
        lost_counters("zen")
        == lost_counters("ring_server")
        == (
            "cycles_l3_miss",
            "cycles_mem_any",
        )
    )
    assert {"local_dram", "remote_dram"} < set(lost_counters("arm"))
    assert "instructions" in lost_counters("")
    assert "Intel Sandy Bridge, AMD Zen" in distinct_vendors()


def test_a_part_of_a_dataset_has_fewer_episodes_and_counters(tmp_path: Path) -> None:
    env = {"machine": "toy", "slices": 4}
    recipe = Recipe(env=env, episodes=4, tier="random", reference_episodes=0)
    whole = collect(recipe, tmp_path / "data")
    part = Seen(whole, 2, ["cycles"])
    assert len(part) == 2 and part.checksum not in (whole.checksum, Seen(whole, 2).checksum)
    assert np.array_equal(part.column("actions"), whole.column("actions")[[0, 2]])
    seen, all_ = part.column("final_counters"), whole.column("final_counters")[[0, 2]]
    lost = COUNTER_INDEX["cycles"]
    assert not seen[..., lost].any() and all_[..., lost].all()
    assert np.array_equal(np.delete(seen, lost, -1), np.delete(all_, lost, -1))
    with pytest.raises(DescriptionError, match="the dataset has 4"):
        Seen(whole, 5)


def test_studies_go_on_after_a_stop_and_replay(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    options = StudyOptions(**SMALL, changes=QUICK, folder=str(tmp_path / "data"))
    cells = study_cells(options, ["fresh", "stale", "gain"])
    cells += [cell for cell in study_cells(options) if cell.study == "vendors"][:1]

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_studies(options, cells, out, stop)
    other = StudyOptions(**{**SMALL, "budget": 21}, changes=QUICK, folder=str(tmp_path / "data"))
    with pytest.raises(DatasetError):
        run_studies(other, cells, out)
    done: list[int] = []
    found = run_studies(options, cells, out, lambda n, total: done.append(n))
    assert done[0] == 5
    summary = json.loads((out / "summary.json").read_text())
    assert summary["episodes"] == json.loads(json.dumps(found["episodes"]))
    _, rows = read_results(out / "ycsb-a.jsonl")
    assert len(rows) == len([cell for cell in cells if cell.workload])
    assert replay(out / "ycsb-a.jsonl").mismatches == ()
    usual = [one for one in found["episodes"] if one["study"] == "data" and one["case"] == "2"]
    assert usual[0]["over_usual"] == {"value": 0.0, "low": None, "high": None}


def test_offloading_gains_on_large_columns_far_away() -> None:
    gain = gain_figures()["gain"]
    assert gain["other blade"][-1] > gain["same blade"][-1] > gain["local"][-1]
    assert all(row == sorted(row) for row in gain.values())


def test_the_causes_of_other_papers_figures_are_asked_of_what_is_stored() -> None:
    usual, products, near = (
        scan_causes(c)["got"] for c in ("as judged", "products", "one distance")
    )
    for name in ("R2 of the CPU model", "R2 of the GRU model"):
        assert products[name] > 0.96 > usual[name]
    assert near["R2 of the CPU model"] > 0.96, "at one distance the time per byte is one"
    stored = Results(RESULTS.parents[1])["access-path"].rows[0]["statements"]
    assert set(usual) <= {row["what"] for row in stored}


def test_a_faster_scheduler_saves_more_of_the_late_requests() -> None:
    usual, hasty, one_link = (
        thread_causes(case, 1)["got"]
        for case in ("as judged", "eight decisions a second", "half of the link")
    )
    names = {
        row["statement"] for row in Results(RESULTS.parents[1])["threads"].rows[0]["statements"]
    }
    assert all(set(got) <= names for got in usual.values())
    late = "fillrandom, 960k requests: P99 saved against scheduling-domain"
    assert hasty["linucb"][late] > usual["linucb"][late] > 0
    gap = "local / remote bandwidth of DRAM, largest"
    assert one_link["machine"][gap] > usual["machine"][gap]
    assert one_link["linucb"] != usual["linucb"]


def test_the_mesh_of_grace_hopper_is_told_by_shape_and_hop() -> None:
    found = mesh_figures()
    shape, hop = found["used"]
    assert hop in found["hops"] and shape in found["ratio"]
    for ratios in found["ratio"].values():
        assert ratios == sorted(ratios) and ratios[0] > 1


@pytest.mark.parametrize(
    ("switch", "number"), [("distances on the mesh", "5"), ("complexes of four cores", "19b")]
)
def test_a_machine_that_stands_in_anothers_place_changes_its_statements(
    switch: str, number: str
) -> None:
    asked = choose([number, "2"])
    usual, other = (switched(one, 1, asked)["got"] for one in ({}, SWITCHES[switch]))
    assert other[number] != usual[number]
    assert other["2"] == usual["2"], "it is about another machine"


def test_a_switch_changes_what_a_statement_comes_to() -> None:
    asked = choose(["12b", "15b", "22b"])
    usual = switched({}, 1, asked)
    assert set(usual["got"]) == set(usual["random"]) == {"12b", "15b"}, "22b is not for the model"
    got = {name: switched(SWITCHES[name], 1, asked)["got"] for name in CHANGING}
    for name, number in CHANGING.items():
        assert got[name][number][0] != pytest.approx(usual["got"][number][0]), name
    assert got["NUMA balancing"]["15b"][0] < usual["got"]["15b"][0]
    assert got["search for the backlog"]["12b"][0] > 1 > usual["got"]["12b"][0]
    for name in ("queues interleaved", "queues interleaved, hot keys side by side"):
        case = {key: value for key, value in SWITCHES[name].items() if key != "queue_lines"}
        spread, kept = (
            switched(one, 1, choose(["1", "14"]))["got"] for one in (SWITCHES[name], case)
        )
        assert spread["14"][0] < kept["14"][0], "OS:I alone has its queues elsewhere"
        assert spread["1"][0] >= kept["1"][0], "and it is what SE:N is compared with"
    routed = switched(SWITCHES["original routers"], 1, choose(["7"]))["got"]
    assert routed["7"] == pytest.approx([1.0]), "routers are what all schedules wait for"

"""The one mechanism of studies: descriptions, runs that go on, the store, the replay."""

import json
import math
import re
from pathlib import Path

import msgspec
import pandas
import pytest

import pmoss_benchmarks
from pmoss_benchmarks.study import runner as runner_module
from pmoss_benchmarks.study.description import TableDescription, read_study
from pmoss_benchmarks.study.frames import episode_records
from pmoss_benchmarks.study.runner import is_stale, replay_study, run_study
from pmoss_benchmarks.study.store import Results, StoredStudy, read_stored, whole_rows
from pmoss_benchmarks.study.tables import make_table
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.result_files import ResultFile
from tests.benchmarks.study.run_line import RUN_LINE
from tests.cli.invoking import pmoss, pmoss_json

DESCRIPTION = """
title = "Headroom"
question = "How much does a search find?"
function = "headroom"

[settings]
machines = ["toy"]
workloads = ["ycsb-a"]
interference = ["none", "busy_core", "cache_thrash"]
instances = 1
confirmed = 1
random_schedules = 2
budget = 50
slices = 8
simulated = { queries = 500 }

[variants.scans]
workloads = ["scans"]

[tables.default]
where = "!has_headroom"
sort = "-search"
columns = { co-tenants = "{interference}", ">search" = "{search:.3f}", lost = "{nothing[x]}" }
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmarks" / "studies"
    folder.mkdir(parents=True)
    (tmp_path / "benchmarks" / "results").mkdir()
    (tmp_path / "README.md").write_text("# A checkout\n")
    (folder / "small.toml").write_text(DESCRIPTION)
    return tmp_path


def folders(root: Path) -> dict[str, Path]:
    return {"data": root / "data", "keep": root / "keep", "results": root / "results"}


def test_a_run_goes_on_where_it_stopped_and_gives_the_same_bytes(checkout: Path) -> None:
    study = Results(checkout).study("small")
    whole, parts = checkout / "whole.jsonl", checkout / "parts.jsonl"
    run_study(study, whole, **folders(checkout), processes=2)
    lines = whole.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    # What a kill leaves: the header, the run, one row and half of another.
    parts.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    # An earlier release began it.
    parts.write_bytes(parts.read_bytes().replace(b'"format_version": 2', b'"format_version": 1', 1))
    done: list[int] = []
    run_study(study, parts, **folders(checkout), progress=lambda what, n, total: done.append(n))
    assert done == [1, 2, 3]
    assert parts.read_bytes() == whole.read_bytes()
    stored = read_stored(whole)
    assert [row["interference"] for row in stored.rows] == ["none", "busy_core", "cache_thrash"]
    assert stored.runs[stored.rows[0]["run"]]["machine"]["cpus"] >= 1


def test_jobs_give_the_rows_of_processes(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    monkeypatch.chdir(checkout)
    study, rows = Results(checkout).study("small"), []
    for executor, address in (("processes", None), ("slurm", "local")):
        out = checkout / f"{executor}.jsonl"
        run_study(study, out, **folders(checkout), executor=executor, address=address)
        rows.append(out.read_bytes())
    assert rows[0] == rows[1]


def test_rows_of_other_settings_and_of_other_code_are_not_mixed(checkout, monkeypatch):
    study, out = Results(checkout).study("small"), checkout / "rows.jsonl"
    axis = {"interference": ["none"]}
    run_study(study, out, **folders(checkout), changes=axis)
    # Axes choose cells: they are no other settings.
    assert len(run_study(study, out, **folders(checkout)).rows) == 3
    with pytest.raises(DatasetError, match=r"settings\.budget was 50 and is 60"):
        run_study(study, out, **folders(checkout), changes={"budget": 60})
    with pytest.raises(DatasetError, match="another command"):
        run_study(Results(checkout).study("small/scans"), out, **folders(checkout))
    monkeypatch.setattr(runner_module, "changed_since", lambda code: ["pmoss_env/baselines"])
    before = out.read_bytes()
    with pytest.raises(DatasetError, match=r"pmoss_env/baselines changed since.*--other-code"):
        run_study(study, out, **folders(checkout), changes={"loads": ["closed", "saturated"]})
    assert out.read_bytes() == before
    more = {"loads": ["closed", "saturated"]}
    assert (
        len(run_study(study, out, **folders(checkout), changes=more, allow_other_code=True).rows)
        == 6
    )


def test_a_replay_finds_an_altered_value(checkout: Path) -> None:
    study, out = Results(checkout).study("small"), checkout / "rows.jsonl"
    stored = run_study(study, out, **folders(checkout))
    assert replay_study(study, stored, **folders(checkout)) == []
    altered = [{**row, "search": row["search"] + 1e-12} for row in stored.rows]
    wrong = replay_study(
        study, type(stored)(**{**vars(stored), "rows": altered}), **folders(checkout), share=0.3
    )
    assert len(wrong) == 1 and "search: stored" in wrong[0]


def test_a_study_is_stale_whose_settings_or_cells_have_changed(checkout: Path) -> None:
    stored = run_study(
        Results(checkout).study("small"), checkout / "rows.jsonl", **folders(checkout)
    )
    path = checkout / "benchmarks" / "studies" / "small.toml"
    for change, said in (
        (("budget = 50", "budget = 60"), "settings differ: budget was 50 and is 60"),
        (('"toy"]', '"toy"]\nloads = ["closed", "saturated"]'), "3 cells are not done"),
        (("budget = 50", "budget = 50"), ""),
    ):
        path.write_text(DESCRIPTION.replace(*change))
        assert is_stale(read_study(path.parent, "small"), stored).startswith(said)
    assert is_stale(read_study(path.parent, "small"), stored) == ""


def test_tables_are_described(checkout: Path, caplog) -> None:
    study, out = Results(checkout).study("small"), checkout / "rows.jsonl"
    stored = run_study(study, out, **folders(checkout))
    table = make_table(study, stored)
    chosen = sorted(
        (row for row in stored.rows if not row["has_headroom"]), key=lambda row: -row["search"]
    )
    assert table.rows == [[r["interference"], f"{r['search']:.3f}", ""] for r in chosen]
    for where, words in (
        ({"interferense": "none"}, "column of small 'interferense'. Did you mean 'interference'"),
        ({"interference": "nonne"}, "interference of small 'nonne'. Did you mean 'none'"),
    ):
        with pytest.raises(UnknownNameError, match=words):
            make_table(study, stored, **where)
    assert "column 'lost': no row has the field 'nothing'" in caplog.text
    for form, words in (("{search:.1q}", "'q'"), ("{search:.1f", "unmatched"), ("}", "Single")):
        wrong = TableDescription(columns={"x": form})
        with pytest.raises(DescriptionError, match=f"{re.escape(repr(form))}: .*{words}"):
            make_table(msgspec.structs.replace(study, tables={"default": wrong}), stored)
    with pytest.raises(UnknownNameError, match="table of small"):
        make_table(study, stored, "another")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (("title", "titel"), DescriptionError, "small.toml: titel: unknown; did you mean 'title'"),
        (('"headroom"', '"os"'), UnknownNameError, "unknown function of studies 'os'"),
        (('"headroom"', '"../../cheat"'), UnknownNameError, "cheat"),
        (("budget = 50", 'budget = "many"'), DescriptionError, "toml: budget = 'many': must be a"),
        (('"{search:.3f}"', "3"), DescriptionError, r"small.toml: tables.*: must be a text"),
        (("budget = 50", "budjet = 50"), UnknownNameError, "small.toml 'budjet'.*'budget'"),
        (("variants.scans", 'variants."../x"'), DescriptionError, "variants"),
    ],
)
def test_what_is_wrong_in_a_description_is_named(checkout, change, error, words):
    path = checkout / "benchmarks" / "studies" / "small.toml"
    path.write_text(DESCRIPTION.replace(*change))
    with pytest.raises(error, match=words):
        run_study(read_study(path.parent, "small"), checkout / "x.jsonl", **folders(checkout))
    assert not (checkout / "x.jsonl").exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: "", "is not a file of results"),
        (lambda text: text.replace("pmoss-study", "other", 1), "is no file of format"),
        (lambda text: text.replace('"version"', '"versoin"', 1), "run '@.*`version`"),
        (lambda text: text.replace('"cell": "m', '"cel": "m', 1), "a line has no cell: {.cel"),
    ],
)
def test_a_damaged_store_is_refused(checkout: Path, damage, words: str) -> None:
    out = checkout / "rows.jsonl"
    run_study(Results(checkout).study("small"), out, **folders(checkout))
    # Without checksums, as a hand would alter it.
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    plain = [{k: v for k, v in line.items() if k != "row_crc32"} for line in lines]
    out.write_text(damage("".join(json.dumps(line) + "\n" for line in plain)))
    with pytest.raises(DatasetError, match=words):
        read_stored(out)


def test_rows_whose_run_is_damaged_are_done_again(checkout: Path, caplog) -> None:
    study, out = Results(checkout).study("small"), checkout / "rows.jsonl"
    whole = run_study(study, out, **folders(checkout))
    lines = out.read_text().splitlines(True)
    lines[1] = lines[1][:40] + "\n"
    out.write_text("".join(lines))
    assert read_stored(out).rows == [] and "3 rows lack the line of their run" in caplog.text
    again = run_study(study, out, **folders(checkout))
    assert [row["search"] for row in again.rows] == [row["search"] for row in whole.rows]
    assert out.read_text().count('"cell": "machine') == 3


def test_of_two_rows_of_a_cell_the_last_counts(checkout: Path, caplog) -> None:
    out = checkout / "rows.jsonl"
    run_study(Results(checkout).study("small"), out, **folders(checkout))
    lines = out.read_text().splitlines(True)
    out.write_text("".join([*lines, lines[-1]]))
    assert len(read_stored(out).rows) == 3 and not caplog.text
    row = json.loads(lines[-1])
    del row["row_crc32"]
    out.write_text("".join([*lines, json.dumps({**row, "search": 1.5}) + "\n"]))
    stored = read_stored(out)
    assert len(stored.rows) == 3 and stored.rows[-1]["search"] == 1.5
    assert "of several rows the last counts: machine=toy" in caplog.text


def test_no_row_is_lost_between_two_commands_on_a_file(checkout: Path, monkeypatch) -> None:
    study, out = Results(checkout).study("small"), checkout / "rows.jsonl"
    write, writes = StoredStudy.write, []

    def while_another_begins(stored: StoredStudy) -> None:
        with pytest.raises(DatasetError, match="another command is writing it"):
            ResultFile(out, {}, key=("cell",))
        writes.append(write(stored))

    monkeypatch.setattr(StoredStudy, "write", while_another_begins)
    run_study(study, out, **folders(checkout))
    run_study(study, out, **folders(checkout))  # nothing is left to do, nor to write
    assert len(writes) == 1


def test_a_link_stays_one(checkout: Path) -> None:
    link, out = checkout / "link.jsonl", checkout / "elsewhere.jsonl"
    link.symlink_to(out)
    run_study(Results(checkout).study("small"), link, **folders(checkout))
    assert link.is_symlink() and len(read_stored(out).rows) == 3


def test_a_refused_command_leaves_no_file(checkout: Path) -> None:
    out = checkout / "rows.jsonl"
    with pytest.raises(DescriptionError, match="of the executors ray and slurm"):
        run_study(Results(checkout).study("small"), out, **folders(checkout), address="there")
    assert not out.exists()


def test_a_list_of_several_rows_is_stored_once(tmp_path: Path, caplog) -> None:
    path, linux = tmp_path / "x.jsonl", [0.1 * number for number in range(20)]
    rows = [
        {"cell": f"policy={p}", "run": "r", "policy": p, "played": {"linux": linux, "own": own}}
        for p, own in (("a", linux[::-1]), ("b", linux[1:]))
    ]
    StoredStudy(path, "x", {}, ["policy"], {"r": RUN_LINE}, rows).write()
    text = path.read_text()
    assert text.count(json.dumps(linux)) == 1 and text.count('"@list:') == 5
    stored = read_stored(path)
    assert [{k: v for k, v in row.items() if k != "row_crc32"} for row in stored.rows] == rows
    assert list(stored.runs) == ["r"]
    stored.write()
    assert path.read_text() == text
    path.write_text("".join(x for x in text.splitlines(True) if not x.startswith('{"cell": "@l')))
    assert read_stored(path).rows == [] and "2 rows lack the line" in caplog.text
    wrong = [{"cell": "x", "run": ["r"]}, {"cell": "y", "run": "r", "z": {"@list:": [1]}}]
    assert whole_rows(path, [{"cell": "@r", **RUN_LINE}, *wrong])[1] == []


def test_the_commands_show_what_is_stored(checkout, monkeypatch, caplog):
    monkeypatch.chdir(checkout)

    pmoss("study", "run", "small", "--set", "instances=2", "--out", "own.jsonl")
    with pytest.raises(DatasetError, match="makes it") as missing:
        Results(checkout)["small"]
    _, command, _ = str(missing.value).split("`")
    pmoss(*command.removeprefix("pmoss ").split())
    assert "busy_core" in pmoss("study", "show", "small")
    assert pmoss_json("study", "list")[0]["rows"] == 3
    assert "0 values differ" in pmoss("study", "replay", "small", "--share", "0")
    assert "has no rows" in pmoss("study", "stale")
    frame = pmoss_benchmarks.read("small", checkout)
    assert list(frame["interference"]) == ["none", "busy_core", "cache_thrash"]
    assert frame["search"].dtype == float
    path = Results(checkout)["small"].path
    other = checkout / "other.jsonl"
    other.write_text(path.read_text().replace('"study": "small"', '"study": "large"', 1))
    for words in (("show", "small"), ("replay", "small")):
        output = pmoss("study", *words, "--rows", str(other), status=2)
        assert "holds rows of the study large, not of small" in " ".join(output.split())
    path.write_text(path.read_text().replace('"search": ', '"search": 1', 1))
    pmoss("study", "show", "small")
    assert "a damaged row is left out" in caplog.text
    wrong = pmoss("study", "run", "small", "--set", "instances=0", status=2)
    assert "small.toml and --set: instances = 0: must be at least 1" in wrong
    output = pmoss("study", "replay", "small", "--share", "0", status=1)
    assert "0 values differ; damaged rows: 1" in output


def test_a_description_of_your_own_is_run_shown_and_replayed(checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    own = checkout / "mine" / "own.toml"
    own.parent.mkdir()
    own.write_text(DESCRIPTION)
    for name in ("mine/own.toml", "mine/own.toml/scans"):
        pmoss("study", "run", name)
        assert "co-tenants" in pmoss("study", "show", name)
        assert "0 values differ" in pmoss("study", "replay", name, "--share", "0")
    assert read_stored(checkout / "runs/studies/own/scans.jsonl").rows[0]["workload"] == "scans"
    own.rename(own.with_name("small.toml"))
    refused = " ".join(pmoss("study", "show", "mine/small.toml", status=2).split())
    assert "the study small is another one: give your file another name" in refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "small", "--small"), "study small: has no small settings"),
        (("run", "small/scans", "--small"), "`pmoss study run small --small` runs its study"),
        (("replay", "small", "--episodes", "1"), "applies to files; a study has --share"),
        (("replay", "x.jsonl", "--share", "1"), "applies to studies, not to files"),
        (("replay", "x.jsonl", "--rows", "y"), "Invalid value for --rows"),
        (("show", "benchmarks/own.toml"), "`pmoss study run benchmarks/own.toml` makes it"),
        (("show", "benchmarks/none.toml"), "none.toml"),
        (("run", "small", "--out", "README.md/x"), "README.md"),
        (("run", "small", "--set", "confirmed=0"), "confirmed = 0: must be at least 1"),
    ],
)
def test_what_a_command_cannot_do_is_refused(checkout, monkeypatch, words, message):
    monkeypatch.chdir(checkout)
    Path("benchmarks/own.toml").write_text(DESCRIPTION)
    assert message in " ".join(pmoss("study", *words, status=2).replace("│", " ").split())


def test_a_frame_has_a_row_for_each_episode_of_each_policy() -> None:
    last = {"score": [1.0, 2.0], "seconds": 0.5, "actions": {"zlib": ""}}
    trained = {"cell": "a", "seed": 0, "played": {"bc": last, "bc (best)": "last"}}
    ruled = {
        "cell": "b",
        "env": {"machine": "toy"},
        "rules": {"lpt": {"score": 3.5, "throughput": 9.0, "scores": [3.0, 4.0]}},
        "policies": {"surrogate": {"score": 5.0, "throughput": 9.0}},
    }
    measured = {"cell": "c", "policy": "best-fit", "throughput": [7.0, 8.0], "outcomes": [{}]}
    unplaced = {"cell": "e", "policy": "os-default", "shared": [[6.0, -1.0]]}
    frame = pandas.json_normalize(episode_records([trained, ruled, measured, unplaced]))
    columns = ["cell", "policy", "episode", "score", "throughput"]
    nan = math.nan
    expected = [
        ["a", "bc", 0, 1.0, nan],
        ["a", "bc", 1, 2.0, nan],
        ["a", "bc (best)", 0, 1.0, nan],
        ["a", "bc (best)", 1, 2.0, nan],
        ["b", "lpt", 0, 3.0, nan],
        ["b", "lpt", 1, 4.0, nan],
        ["b", "surrogate", nan, 5.0, 9.0],
        ["c", "best-fit", 0, nan, 7.0],
        ["c", "best-fit", 1, nan, 8.0],
        ["e", "os-default", 0, -1.0, 6.0],
    ]
    pandas.testing.assert_frame_equal(
        frame[columns], pandas.DataFrame(expected, columns=columns), check_dtype=False
    )
    assert list(frame["env.machine"].dropna()) == ["toy"] * 3
    # A list of another kind stays whole, and rows without policies stay single.
    counted = {"cell": "d", "nodes": [1, 2]}
    assert episode_records([counted]) == [counted]

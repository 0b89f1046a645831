"""Texts are made of results, and results that are too old are found."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmoss_benchmarks.texts import find_root, find_stale, make_pages
from pmoss_benchmarks.texts.pages import BLOCKS, fill
from pmoss_benchmarks.texts.stored import Stored
from pmoss_benchmarks.texts.transcripts import COMMANDS
from pmoss_env.cli.app import make_app
from pmoss_env.errors import DescriptionError, UnknownNameError, UnsupportedError
from pmoss_env.provenance import provenance

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small copy: README with one block, and one study."""
    (tmp_path / "docs").mkdir()
    shutil.copytree(REPOSITORY / "docs" / "_templates", tmp_path / "docs" / "_templates")
    for name in ("studies/mesh.toml", "results/mesh.jsonl"):
        (tmp_path / "benchmarks" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "benchmarks" / name, tmp_path / "benchmarks" / name)
    block = '<!-- {{ rows("mesh") | length }} -->\nold\n<!-- end -->'
    (tmp_path / "README.md").write_text(f"# Title\n\n{block}\n\nWords.\n")
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(), ["dev", "report", *words])
    assert isinstance(result.exception, SystemExit | None), repr(result.exception)
    return result.exit_code, result.output


def test_a_text_that_differs_from_its_results_is_named_and_mended(checkout: Path) -> None:
    root = str(checkout)
    code, output = run("--check", "--root", root)
    assert code == 1
    assert "README.md: differs" in output
    assert "old" in (checkout / "README.md").read_text()
    assert run("--root", root)[0] == 0
    text = (checkout / "README.md").read_text()
    assert text.endswith("| length }} -->\n4\n<!-- end -->\n\nWords.\n")
    assert run("--check", "--root", root)[0] == 0
    # A figure that is changed by hand, and a result that is made anew.
    (checkout / "README.md").write_text(text.replace("\n4\n", "\n5\n"))
    assert run("--check", "--root", root)[0] == 1
    (checkout / "README.md").write_text(text)
    path = checkout / "benchmarks" / "results" / "mesh.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    code, output = run("--check", "--root", root, "--json")
    assert code == 1
    assert json.loads(output)["differ"] == ["README.md"]


def test_what_a_page_asks_for_in_vain_is_told() -> None:
    stored = Stored(REPOSITORY)
    with pytest.raises(UnknownNameError, match="headrom"):
        fill("<!-- results: headrom -->\n<!-- end of results -->\n", stored, "page.md")
    with pytest.raises(DescriptionError, match=r"page.md: .* has no end"):
        fill("<!-- results: demo -->\nwords\n", stored, "page.md")


def test_every_block_is_shown_somewhere() -> None:
    text = "".join(page.after for page in make_pages(REPOSITORY))
    assert [name for name in BLOCKS if f"<!-- results: {name} -->" not in text] == []


def test_tables_with_the_papers_schedules_hold_all_of_them() -> None:
    servers = BLOCKS["servers"](Stored(REPOSITORY))
    for line in (line for line in servers.splitlines() if line.startswith("| server")):
        for name in ("OS:D", "OS:I", "SE:N", "SN:N", "Grouped", "Spread", "Mixed", "Random"):
            assert f"over {name} |" in line
    head = BLOCKS["standard-tasks"](Stored(REPOSITORY)).splitlines()[0]
    assert "| Grouped | Spread | Mixed | Random |" in head


def test_results_older_than_their_code_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    new = provenance(["pmoss_benchmarks.functions.fidelity"])
    old = json.loads(json.dumps(new))
    old["code"]["digests"]["pmoss_env/backends"] = "0" * 16
    reports = {
        "new": new,
        "old": old,
        "nameless": {"rows": []},
        "before": {key: new[key] for key in ("command", "version", "machine")},
        "released": {**new, "version": "0.0.1"},
        "parts": {**new, "parts": {"index": old, "scan": new}},
        "native": {**new, "code": {**new["code"], "modules": []}},
    }
    for name, report in reports.items():
        (folder / f"{name}.json").write_text(json.dumps(report))
    (folder / "lines.jsonl").write_text(f'{json.dumps(old)}\n{{"score": 1}}\n')
    assert {stale.name: stale.reason for stale in find_stale(tmp_path)} == {
        "before.json": "holds no digests of the code that made it",
        "lines.jsonl": "changed since: pmoss_env/backends",
        "nameless.json": "does not name its command, version, machine",
        "native.json": "holds no digests of the code that made it",
        "old.json": "changed since: pmoss_env/backends",
        "parts.json, index": "changed since: pmoss_env/backends",
        "released.json": "made with version 0.0.1",
    }


def test_a_stale_result_tells_how_it_is_renewed(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks" / "results"
    commands = {
        "transcripts/explain": "pmoss explain a b",
        "imitation/quick/summary": "pmoss benchmark imitation --out runs/x -j 2",
        "demo/summary": "pmoss demo",
    }
    for name, command in commands.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"command": command, "version": "1", "machine": "x"}))
    assert {stale.name: (stale.renew, stale.measured) for stale in find_stale(tmp_path)} == {
        "transcripts/explain.json": (
            "python -m pmoss_benchmarks.texts.transcripts explain",
            False,
        ),
        "imitation/quick/summary.json": (
            "pmoss benchmark imitation -j 2 --out benchmarks/results/imitation/quick",
            False,
        ),
        "demo/summary.json": ("pmoss demo --out benchmarks/results/demo", True),
    }


def test_commands_that_renew_are_commands_of_today() -> None:
    for stale in find_stale(REPOSITORY):
        program, *words = stale.renew.split()
        if program == "python":
            assert words[-1] in COMMANDS
            continue
        at_first_option = next(i for i, word in enumerate(words) if word.startswith("--"))
        done = CliRunner().invoke(make_app(), [*words[:at_first_option], "--help"])
        assert done.exit_code == 0, stale


def test_a_folder_outside_a_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="is in no checkout"):
        find_root(tmp_path)
    assert find_root(REPOSITORY / "tests") == REPOSITORY

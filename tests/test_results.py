"""The committed results replay, name the code that makes them, and are what the texts show."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import click
import pytest
from typer.main import get_command

from pmoss_benchmarks.leaderboard.board import check_board
from pmoss_benchmarks.offline.episodes import play_again
from pmoss_benchmarks.study.function import load_function
from pmoss_benchmarks.study.runner import replay_study
from pmoss_benchmarks.study.store import FORMAT, Results
from pmoss_datasets.evaluation import replay
from pmoss_env import provenance as module
from pmoss_env.cli.app import make_app
from pmoss_env.provenance import changed_since, code_of, provenance
from tests.sources import sources

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results"
DOCS = [path for path in sources(".md") if path.is_relative_to(REPOSITORY / "docs")]


STUDIES = Results(REPOSITORY)


def test_the_demo_replays_to_the_last_bit() -> None:
    assert replay(RESULTS / "demo" / "results.jsonl").mismatches == ()


SUITES = [name for name in STUDIES if STUDIES.study(name).function == "play"]


@pytest.mark.parametrize("name", SUITES)
def test_an_episode_of_every_policy_replays_to_the_last_bit(name: str) -> None:
    stored = STUDIES[name]
    first = {
        (row["track"], row["policy"]): row
        for row in reversed(stored.rows)
        if row["policy"] != "exact"  # which takes a minute
    }
    settings = STUDIES.study(name).settings
    asked = {*settings.get("agents", []), *settings.get("policies", [])} - {"exact"}
    assert len(first) >= (min(10, len(asked)) if settings.get("policies") else 10)
    for row in first.values():
        for again in play_again(row, stored.settings["search_budget"], [0]):
            assert again.rollout.outcome == again.stored["throughput"][0], row["cell"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", SUITES)
def test_all_episodes_of_policies_replay_to_the_last_bit(name: str, tmp_path: Path) -> None:
    folders = {"data": tmp_path / "data", "keep": tmp_path / "keep", "results": RESULTS}
    assert replay_study(STUDIES.study(name), STUDIES[name], **folders) == []


@pytest.mark.parametrize("name", SUITES)
def test_no_policy_took_an_illegal_action(name: str) -> None:
    packed = [one for row in STUDIES[name].rows for one in row.get("played", {}).values()]
    assert all(one["illegal_actions"] == 0 for one in packed if one != "last")


#: Commands that stored results name.
COMMANDS = [json.loads((RESULTS / "demo" / "summary.json").read_text())["command"]]
COMMANDS += [row["asked"] for row in STUDIES["transcripts"].rows]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_a_text_names_is_one_of_today(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "pmoss"
    command: Any = get_command(make_app())
    context = click.Context(command)
    while isinstance(command, click.Group):
        command, words = command.resolve_command(context, words)[1:]
    assert command.make_context("pmoss", words, resilient_parsing=False)


def test_every_result_names_its_origin() -> None:
    for name in STUDIES:
        for run in STUDIES[name].runs.values():
            assert {"command", "version", "machine"} <= {*run}, name


#: What is a figure: a share, a factor or a unit behind a number.
FIGURE = re.compile(r"\d[\d.,]*\s?(%|Mq/s|GB/s|times\b|us\b|ms\b|s\b|minutes|MB\b|x\b)")
#: What no result holds: levels of intervals, the limit of a little, and the name of a switch.
STATED = ("95 %", "10 % of headroom", "10 % or more", "64 times", "256 times")


@pytest.mark.parametrize("name", ["README.md", *(str(p.relative_to(REPOSITORY)) for p in DOCS)])
def test_no_figure_is_typed_into_a_text(name: str) -> None:
    text = (REPOSITORY / name).read_text()
    text = re.sub(r"<!-- \{\{.*?<!-- end -->", "", text, flags=re.S)
    text = re.sub(r"```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}", "", text, flags=re.S)
    for stated in STATED:
        text = text.replace(stated, "")
    assert not [match[0] for match in FIGURE.finditer(text)]


@pytest.mark.parametrize("suite", ["easy", "easy-heuristic", "machines"])
def test_no_agent_is_a_rule_in_disguise(suite: str) -> None:
    # One that was handed the decision of best-fit among its inputs served the same on most tasks.
    worlds: dict[str, dict[str, dict[str, float]]] = {}
    learned = set()
    for row in STUDIES[suite].rows:
        if row["policy"] in row.get("played", {}) and row["seed"] == 0:
            served = mean(row["played"][row["policy"]]["throughput"])
            worlds.setdefault(row["track"], {}).setdefault(row["task"], {})[row["policy"]] = served
            learned |= {row["policy"]} if "training" in row else set()
    for track in worlds.values():
        tasks = list(track.values())
        for agent, rule in product(learned, ("best-fit", "lpt", "lpt-capacity", "two-level")):
            both = [t for t in tasks if agent in t and rule in t]
            off = sorted(abs(t[agent] / t[rule] - 1) for t in both)
            assert not off or off[len(off) // 2] > 1e-3, (agent, rule)


REPLAYED = [
    name
    for name in STUDIES
    if not getattr(load_function(STUDIES.study(name).function), "MEASURES_HOST", False)
]


def test_every_study_has_rows_and_all_rows_a_study() -> None:
    stored = {path.relative_to(RESULTS).with_suffix("").as_posix() for path in _stores()}
    assert stored == set(STUDIES) == set(STUDIES.studies)


def _stores() -> Iterator[Path]:
    for path in RESULTS.rglob("*.jsonl"):
        with path.open() as file:
            if json.loads(file.readline()).get("format") == FORMAT:
                yield path


@pytest.mark.heavy
@pytest.mark.parametrize("name", REPLAYED)
def test_a_row_of_every_study_is_made_again_to_the_last_bit(name: str, tmp_path: Path) -> None:
    folders = {"data": tmp_path / "data", "keep": tmp_path / "keep", "results": RESULTS}
    assert replay_study(STUDIES.study(name), STUDIES[name], **folders, share=0) == []


def test_references_lie_below_their_bounds() -> None:
    rows = STUDIES["references"].rows
    assert len(rows) >= 20 * len({row["task"] for row in rows})
    assert all(row["random"] < row["best"] for row in rows)
    assert all(row["bound"] is None or row["best"] <= row["bound"] for row in rows)


BOARD = RESULTS / "leaderboard"


def test_the_leaderboard_is_of_the_committed_rounds() -> None:
    """An episode of the analytic rows replays; `pmoss study leaderboard --check` replays all."""
    assert check_board(BOARD, tier="analytic", episodes=1) == []


@pytest.mark.heavy
def test_an_episode_of_every_row_of_the_leaderboard_replays() -> None:
    assert check_board(BOARD, episodes=1) == []


def test_a_result_names_command_version_machine_and_code() -> None:
    report = json.loads(json.dumps(provenance(["pmoss_benchmarks.validation.targets"])))
    assert report["command"] and report["version"]
    assert report["machine"]["architecture"]
    digests = report["code"]["digests"]
    # What the modules import counts, and so does the model behind it.
    assert {"pmoss_benchmarks/validation", "pmoss_env/backends", "pmoss_env/machines"} <= {*digests}
    assert "native/analytic" in digests
    assert not any("cli" in folder for folder in digests)
    assert changed_since(report["code"]) == []


def test_a_change_is_named_by_its_folder() -> None:
    code = provenance(["pmoss_benchmarks.functions.fidelity"])["code"]
    code["digests"]["pmoss_env/backends"] = "0" * 16
    code["digests"]["native/analytic"] = "0" * 16
    assert changed_since(code) == ["native/analytic", "pmoss_env/backends"]
    code["modules"].append("pmoss_benchmarks.no_longer_there")
    assert changed_since(code) == ["pmoss_benchmarks/no_longer_there"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pmoss_imagined"
    (folder / "presets").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "first.py").write_text("def f():\n    from pmoss_imagined import second\n")
    (folder / "second.py").write_text('"""Words."""\n\nX = 1\n')
    (folder / "third.py").write_text("X = 1\n")
    (folder / "presets" / "a.toml").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "PACKAGES", ("pmoss_imagined",))
    for cached in (module._imports, module._place, module._statements):
        cached.cache_clear()
    return folder


def now_changed(code: dict) -> list[str]:
    for cached in (module._imports, module._statements):
        cached.cache_clear()
    return changed_since(code)


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("second.py", '"""Other words."""\n\n# A comment.\nX = 1\n', False),
        ("second.py", '"""Words."""\n\nX = 2\n', True),
        ("third.py", "X = 2\n", False),  # that nothing imports
        ("presets/a.toml", "# A comment.\na = 1\n", False),
        ("presets/a.toml", "a = 2\n", True),
    ],
)
def test_statements_count_and_words_do_not(package, name, text, counts):
    code = code_of(["pmoss_imagined.first"], ())
    assert set(code["digests"]) == {"pmoss_imagined"} and now_changed(code) == []
    (package / name).write_text(text)
    assert now_changed(code) == (["pmoss_imagined"] if counts else [])
    sys.modules.pop("pmoss_imagined", None)


def test_a_statement_that_leaves_a_block_counts(package):
    (package / "second.py").write_text("for x in range(2):\n    X = x\n    Y = x\n")
    code = code_of(["pmoss_imagined.first"], ())
    of_before = module._code_of(["pmoss_imagined.first"], (), 1)  # digests as older rows have them
    del of_before["form"]
    (package / "second.py").write_text("for x in range(2):\n    X = x\nY = x\n")
    assert now_changed(code) == ["pmoss_imagined"] and now_changed(of_before) == []
    (package / "second.py").write_text("Y = 1\n")
    assert now_changed(of_before) == ["pmoss_imagined"]
    sys.modules.pop("pmoss_imagined", None)


def test_an_installation_without_native_sources_compares_the_rest(monkeypatch):
    code = code_of(["pmoss_benchmarks.functions.fidelity"])
    monkeypatch.setattr(module, "_native_files", lambda folder: [])
    assert changed_since(code) == []

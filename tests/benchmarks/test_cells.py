import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pmoss_benchmarks.cells import run_cells
from pmoss_env.errors import DatasetError, DescriptionError


@dataclass(frozen=True)
class Cell:
    workload: str

    @property
    def name(self) -> str:
        return self.workload


CELLS = [Cell(name) for name in ("lookups", "scans", "ycsb-a")]


def length(cell: Cell) -> dict[str, Any]:
    return {"length": len(cell.workload)}


def run(work: Any, out: Path | None, **more: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"settings": {"a": 1}, "command": "pmoss test", **more}
    return run_cells(work, CELLS, out=out, **arguments)


def test_results_keep_the_order_of_the_cells_for_any_number_of_processes(tmp_path: Path) -> None:
    alone = run(length, tmp_path / "one.json")
    several = run(length, tmp_path / "two.json", processes=2)
    assert alone["cells"] == several["cells"]
    assert [cell["length"] for cell in alone["cells"]] == [7, 5, 6]
    written = json.loads((tmp_path / "one.json").read_text())
    assert written["cells"][0]["workload"] == "lookups"
    assert written["command"] == "pmoss test"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.json", "two.json"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "cells.json"
    done: list[str] = []

    def stops(cell: Cell) -> dict[str, Any]:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(cell.workload)
        return length(cell)

    with pytest.raises(KeyboardInterrupt):
        run(stops, out)
    assert not out.exists()
    partial = out.with_suffix(".partial")
    partial.write_text(partial.read_text()[:-4])  # the last line was cut
    again: list[str] = []

    def rest(cell: Cell) -> dict[str, Any]:
        again.append(cell.workload)
        return length(cell)

    assert run(rest, out)["cells"] == run(length, None)["cells"]
    assert again == ["scans", "ycsb-a"]
    assert not partial.exists()


def test_results_under_other_settings_are_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "cells.json"

    def fails(cell: Cell) -> dict[str, Any]:
        if cell.workload == "scans":
            raise ValueError
        return length(cell)

    with pytest.raises(ValueError):
        run(fails, out)
    with pytest.raises(DatasetError, match="settings differ"):
        run(length, out, settings={"a": 2})
    assert run(length, out)["cells"][2]["length"] == 6
    out.with_suffix(".partial").write_text("not ours\n")
    with pytest.raises(DatasetError, match="not a file of results"):
        run(length, out)


def test_nothing_to_do_is_refused() -> None:
    with pytest.raises(DescriptionError, match="processes = 0"):
        run(length, None, processes=0)


def test_results_of_a_function_with_options_hold_the_digests_of_its_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(length, "__module__", "pmoss_benchmarks.cells")
    code = run(partial(length), None)["code"]
    assert code["modules"] == ["pmoss_benchmarks.cells"]
    assert "pmoss_benchmarks" in code["digests"]

"""Leave one machine out: what a checkpoint learned from, and what it meets."""

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.cli.benchmark import transfer as command
from pmoss_benchmarks.spatial import transfer
from pmoss_benchmarks.spatial.transfer import TransferCell, TransferOptions, measure_cell
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import load_machine

SMALL = {"members": 1, "updates": 2, "width": 8, "features": 4, "demands": 2, "rounds": 1}


def test_the_machine_that_is_met_is_in_no_data(tmp_path):
    options = TransferOptions(
        ("toy", "random:3"),
        made_up=1,
        slices=8,
        data=6,
        episodes=2,
        measurements=2,
        budget=20,
        changes=SMALL,
        folder=str(tmp_path),
    )
    found = measure_cell(options, TransferCell("toy"))
    assert found["trained_on"] == ["random:3", "random:1000"]
    assert "surrogate" in found["policies"]
    assert "surrogate, 2" in found["policies"]
    assert "best-fit + search, 2" in found["policies"]
    rule = found["policies"][found["best_rule"]]
    assert rule["over_rule"]["value"] == 0
    assert len(rule["scores"]) == 2
    assert "folder" not in options.settings


def test_machines_are_named_once_and_leave_some_to_learn_from():
    with pytest.raises(DescriptionError, match="each must be named once"):
        TransferOptions(("toy", "toy"))
    with pytest.raises(DescriptionError, match="none is there to learn from"):
        TransferOptions(("toy",), made_up=0)
    with pytest.raises(DescriptionError, match="least_workers = 65: must be at most 64"):
        TransferOptions(("toy",), least_workers=65)


def test_made_up_machines_may_have_two_threads_per_core_and_be_of_some_size():
    options = TransferOptions(("toy",), made_up=2, threaded=2, least_workers=20)
    assert options.learned_on == ("random:1000", "random:1002", *options.learned_on[2:])
    assert all(name.startswith("random-smt:15") for name in options.learned_on[2:])
    machines = [load_machine(name) for name in options.learned_on]
    assert len(machines) == 4
    assert all(machine.workers.size >= 20 for machine in machines)


def test_made_up_machines_may_use_some_second_threads():
    options = TransferOptions(("toy",), made_up=0, partly=2, least_workers=20)
    assert all(name.startswith("random-partly:20") for name in options.learned_on)
    for machine in map(load_machine, options.learned_on):
        beside = np.bincount(machine.physical_of_core[machine.workers])
        assert {1, 2} <= set(beside)  # workers alone on their core, and workers with a sibling


def test_data_that_cells_share_are_there_before_the_cells(monkeypatch):
    done, shown = [], []
    monkeypatch.setattr(transfer, "data_of", lambda options, name, *_: done.append(name))
    score = {"score": {"value": 1.0}}

    def finish(work, cells, *_):
        done.extend(cell.name for cell in cells)
        return [
            {"machine": cell.machine, "seed": cell.seed, "policies": {"lpt": score}}
            for cell in cells
        ]

    monkeypatch.setattr(command, "finish", finish)
    monkeypatch.setattr(command, "table", lambda title, columns, rows: shown.extend(rows))
    command.transfer(machine=["toy", "random:3"], made_up=1, seeds=2, processes=2)
    cells = ["toy/0", "random:3/0", "toy/1", "random:3/1"]
    assert done == ["toy", "random:3", "random:1000", *cells]
    # Rows of two trainings can be told apart.
    assert ["/".join(row[:2]) for row in shown] == cells
    # Nobody learns on the only machine: it is the one left out.
    assert TransferOptions(("toy",), made_up=1).learned_on == ("random:1000",)

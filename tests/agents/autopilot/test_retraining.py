"""Retraining beside the loop: what it learns from, when it takes over, and what breaks it."""

import json
import os
import signal
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest

from pmoss_agents import checkpoints
from pmoss_agents.autopilot.retraining import Event, Retraining, retrain, split
from pmoss_agents.continual.pace import Pace
from pmoss_datasets.continual.epoch_log import pack, read_log, unpack
from pmoss_env.errors import DatasetError
from pmoss_env.processes import idle_command
from pmoss_env.types import COUNTER_INDEX

LONG = 300.0


def periodic(log, path, epochs):
    """A file of epochs in which two cores take turns at being slow, every fourth epoch."""
    header, *lines = log.read_text().splitlines()
    row = json.loads(lines[0])
    row.pop("row_crc32")
    observation = unpack(row["seen"])
    workers = np.unique(observation["slice_tiles"])
    rows = []
    for epoch in range(1, epochs + 1):
        slow = workers[epoch // 4 % 2]
        counters = np.zeros_like(observation["slice_counters"])
        counters[:, COUNTER_INDEX["elapsed_us"]] = 1.0
        speed = np.where(observation["slice_tiles"] == slow, 0.5, 1.0)
        counters[:, COUNTER_INDEX["task_clock_us"]] = speed
        shown = pack({**observation, "slice_counters": counters})
        rows.append(json.dumps({**row, "epoch": epoch, "seen": shown}))
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def finished(retraining, events):
    until = time.monotonic() + LONG
    while not events and time.monotonic() < until:
        finished = retraining(events)
        time.sleep(0.02)
    return finished


def test_the_last_quarter_is_held_out():
    counters = [np.arange(9.0)[:, None], np.arange(9.0)[:, None]]
    learned, first = split(counters)
    assert first == [8, 4]
    assert [len(each) - 1 for each in learned] == [8, 4]


def test_a_better_agent_is_written_and_one_that_is_not_is_not(log, tmp_path):
    path = periodic(log, tmp_path / "epochs.jsonl", 121)
    event = retrain(
        path, tmp_path / "none.safetensors", tmp_path / "new.safetensors", tmp_path / "1"
    )
    assert event.kind == "swapped" and event.error < event.present
    assert (event.epochs, event.held_out) == (120, 30)
    again = retrain(
        path, tmp_path / "new.safetensors", tmp_path / "newer.safetensors", tmp_path / "2"
    )
    assert again.kind == "stayed" and not (tmp_path / "newer.safetensors").exists()
    with pytest.raises(DatasetError, match="too few"):
        few = periodic(log, tmp_path / "few.jsonl", 12)
        retrain(few, tmp_path / "none.safetensors", tmp_path / "newer.safetensors", tmp_path / "3")


def test_it_takes_over_where_it_is_better(log, tmp_path, monkeypatch):
    # An idle process waits for as long as others have work.
    module = "pmoss_agents.autopilot.retraining"
    monkeypatch.setattr(
        f"{module}.idle_command",
        lambda name, *words: [sys.executable, "-m", name, *map(str, words)],
    )
    path = periodic(log, tmp_path / "epochs.jsonl", 121)
    retraining, events = Retraining(path, 1), []
    assert retraining(events) is None and retraining._process is None
    assert retraining(events) is None
    agent = finished(retraining, events)
    retraining.close()
    assert [event.kind for event in events] == ["swapped"] and isinstance(agent, Pace)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "epochs.jsonl",
        "epochs.jsonl.agent.safetensors",
    ]
    assert checkpoints.read(retraining.agent)[0]["agent"] == "pace"


def test_a_trainer_that_is_killed_or_fails_changes_nothing(log, tmp_path):
    retraining, events = Retraining(tmp_path / "nothing", 1), []
    retraining(events)
    retraining(events)
    retraining._process.send_signal(signal.SIGKILL)
    assert finished(retraining, events) is None
    assert [event.kind for event in events] == ["failed"] and "signal 9" in events[0].text
    # What it wrote last is no checkpoint.
    retraining._new.write_bytes(b"half of")
    events.clear()

    class Ended:
        def poll(self):
            return 0

        def communicate(self):
            return json.dumps(asdict(Event("swapped", ""))).encode(), None

    retraining._process = Ended()
    assert retraining(events) is None
    assert events[0].kind == "failed" and "cannot be read" in events[0].text


def test_it_yields_to_everything_and_ends_with_the_loop(log, tmp_path, monkeypatch):
    # A module that never ends by itself, however long this test is held up.
    (tmp_path / "sleeping.py").write_text("import time\n\ntime.sleep(3600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(
        "pmoss_agents.autopilot.retraining.idle_command",
        lambda name, *words: idle_command("sleeping"),
    )
    retraining, events = Retraining(log, 1), []
    retraining(events)
    retraining(events)
    process = retraining._process
    until = time.monotonic() + LONG
    while os.sched_getscheduler(process.pid) != os.SCHED_IDLE and time.monotonic() < until:
        time.sleep(0.01)
    assert os.sched_getscheduler(process.pid) == os.SCHED_IDLE
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    retraining.close()
    assert process.poll() == -signal.SIGKILL
    retraining.close()
    assert read_log(log)[1]

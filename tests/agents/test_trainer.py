"""The loop of every fit(): order, resuming, interrupts, trials, and the log beside it."""

import json
import math
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pmoss_agents
from pmoss_agents import tuning, validating
from pmoss_agents.learning import find_lesson
from pmoss_agents.trainer import Course, Metrics, check_loss, cosine, train
from pmoss_agents.training_log import TrainingLog, read_log
from pmoss_agents.tuning import tune
from pmoss_agents.validating import Worlds
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import DatasetError, MissingExtraError, UnknownNameError
from tests.cli.invoking import pmoss


class Counter:
    """Learns to count, and keeps what happened to it."""

    name = "counter"

    def __init__(self, updates: int = 0) -> None:
        self.updates = updates
        self.events: list[str] = []

    def save(self, path: str | Path) -> None:
        self.events.append(f"save {self.updates}")

    def step(self, update: int) -> Callable[[], Metrics]:
        self.events.append(f"prepare {update}")

        def change() -> Metrics:
            self.events.append(f"change {update}")
            return {"update": float(update)}

        return change


def test_everything_happens_in_order() -> None:
    agent = Counter()
    course = Course(agent.step, 3, save_every=2, judge=lambda checkpoint: {"judged": 1.0})
    reports: list[tuple[int, int, dict[str, float]]] = []
    metrics = train(agent, course, lambda d, t, m: reports.append((d, t, dict(m))), "somewhere")
    assert agent.events == [
        *("prepare 0", "change 0"),
        *("prepare 1", "change 1", "save 2"),
        *("prepare 2", "change 2", "save 3"),
    ]
    assert reports == [
        (1, 3, {"update": 0.0}),
        (2, 3, {"update": 1.0, "judged": 1.0}),
        (3, 3, {"update": 2.0, "judged": 1.0}),
    ]
    assert metrics == {"update": 2.0, "judged": 1.0}


def test_it_goes_on_where_the_agent_stopped() -> None:
    agent = Counter(updates=2)
    train(agent, Course(agent.step, 3), None, None)
    assert agent.events == ["prepare 2", "change 2"]
    with pytest.warns(RuntimeWarning, match="counter has made all of its 3 updates"):
        metrics = train(agent, Course(agent.step, 3, metrics={"steps": 9.0}), None, None)
    assert metrics == {"steps": 9.0}
    assert agent.events == ["prepare 2", "change 2"]


@pytest.mark.parametrize(
    ("where", "saved"), [("prepare", ["save 1"]), ("progress", ["save 2"]), ("change", [])]
)
def test_an_interrupt_saves_whole_updates_only(where: str, saved: list[str]) -> None:
    agent = Counter()

    def step(update: int) -> Callable[[], Metrics]:
        change = agent.step(update)
        if (update, where) == (1, "prepare"):
            raise KeyboardInterrupt

        def cut() -> Metrics:
            metrics = change()
            if (update, where) == (1, "change"):
                raise KeyboardInterrupt
            return metrics

        return cut

    def progress(done: int, total: int, metrics: object) -> None:
        if (done, where) == (2, "progress"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(agent, Course(step, 3, save_every=5), progress, "somewhere")
    assert [word for word in agent.events if word.startswith("save")] == saved


@pytest.mark.parametrize(("presses", "saved", "reported"), [(1, ["save 2"], [1, 2]), (2, [], [1])])
def test_ctrl_c_waits_until_the_weights_are_whole(
    presses: int, saved: list[str], reported: list[int]
) -> None:
    agent, reports = Counter(), []

    def step(update: int) -> Callable[[], Metrics]:
        change = agent.step(update)

        def pressed() -> Metrics:
            for _ in range(presses if update == 1 else 0):
                signal.raise_signal(signal.SIGINT)
            return change()

        return pressed

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(agent, Course(step, 3, 5), lambda done, *_: reports.append(done), "somewhere")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert [word for word in agent.events if word.startswith("save")] == saved
    assert reports == reported


def test_a_signal_ends_a_command_whose_update_fails_and_waits_for_no_judge() -> None:
    def interrupted(fails: bool) -> Counter:
        agent = Counter()

        def step(update: int) -> Callable[[], Metrics]:
            change = agent.step(update)

            def pressed() -> Metrics:
                if update == 1:
                    signal.raise_signal(signal.SIGINT)
                    check_loss("x", update, math.inf if fails else 1.0)
                return change()

            return pressed

        def judge(checkpoint: object) -> Metrics:
            agent.events.append("judge")
            return {}

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                train(agent, Course(step, 4, 2, judge=judge), None, "somewhere")
        finally:
            signal.signal(signal.SIGINT, before)
        return agent

    assert "judge" not in interrupted(fails=False).events
    assert not [word for word in interrupted(fails=True).events if word.startswith("save")]


def test_a_thread_that_gets_no_signals_learns_as_well() -> None:
    agent = Counter()
    thread = threading.Thread(target=train, args=(agent, Course(agent.step, 2), None, None))
    thread.start()
    thread.join()
    assert agent.updates == 2


def test_the_cosine_falls_to_a_tenth() -> None:
    assert [cosine(0.0), cosine(math.pi)] == pytest.approx([1.0, 0.1])
    rates = [cosine(math.pi * i / 10) for i in range(11)]
    assert rates == sorted(rates, reverse=True)


TOY = {"machine": "toy", "slices": 8}
SMALL = {"members": 1, "updates": 2, "width": 8, "features": 4}


@pytest.fixture(scope="module")
def tuning_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("torch", "optuna", "matplotlib"):
        pytest.importorskip(package, reason="the extra tuning is not installed")
    recipe = Recipe(env=TOY, episodes=8, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("tuning") / "data").path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validating, "_BUDGET", 20)
    monkeypatch.setattr(validating, "_RANDOM", 5)


def tuned(
    tuning_data: Path, out: Path, trials: int, agent: str = "surrogate", **other: Any
) -> tuple[dict, list]:
    lesson, rows = find_lesson(tuning_data, {}), []

    def progress(done: int, total: int, score: Any, settings: Any) -> None:
        rows.append((score, settings))

    how = {"worlds": Worlds.of(lesson, 1), "every": 1, "changes": SMALL, "progress": progress}
    return tune(agent, lesson, out, trials, **{**how, **other}), rows


def test_trials_that_go_on_are_those_of_one_call(
    tuning_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **keywords: Any) -> None:
        raise KeyboardInterrupt

    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    best, rows = tuned(tuning_data, whole, 4)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(tuning, "learn", interrupted)
        tuned(tuning_data, parts, 2)
    _, first = tuned(tuning_data, parts, 2)
    resumed, second = tuned(tuning_data, parts, 4)
    assert (first + second, resumed) == (rows, best)
    assert rows[0][1] == {n: getattr(pmoss_agents.make("surrogate").config, n) for n in rows[0][1]}
    assert best["score"] == max(score for score, _ in rows if score is not None)
    kept = pmoss_agents.load(whole).config
    assert all(getattr(kept, name) == best[name] for name in rows[0][1])
    assert kept.members == 1
    assert whole.read_bytes() == parts.read_bytes()
    with pytest.raises(DatasetError, match="holds trials of another agent or task"):
        tuned(tuning_data, parts, 5, agent="pair-policy")
    with pytest.raises(DatasetError, match="trials with other settings and validation: name"):
        tuned(tuning_data, parts, 5, changes={**SMALL, "updates": 3}, every=3)
    options = ["--trials", "2", "--validate-every", "1"]
    (tmp_path / "whole.trials.jsonl").rename(tmp_path / "moved.jsonl")
    said = pmoss("train", "surrogate", str(tuning_data), str(whole), *options, status=2)
    assert "exists already" in " ".join(said.split())
    (tmp_path / "moved.jsonl").rename(tmp_path / "whole.trials.jsonl")
    whole.rename(tmp_path / "moved")
    with pytest.raises(DatasetError, match=r"whole\.safetensors: is missing: remove"):
        tuned(tuning_data, whole, 5)
    (tmp_path / "moved").rename(whole)
    names = {"whole.safetensors", "whole.trials.jsonl", "parts.safetensors", "parts.trials.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_the_command_names_what_it_lacks(tuning_data, tmp_path, monkeypatch):
    out = tmp_path / "mine.safetensors"
    said = pmoss("train", "surrogate", str(tuning_data), str(out), "--trials", "2", status=2)
    assert "give --validate-every" in said
    with pytest.raises(UnknownNameError, match="range of settings 'maskable-ppo'"):
        tuned(tuning_data, out, 1, agent="maskable-ppo")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[tuning\]'"):
        tuning.tune("surrogate", find_lesson(tuning_data, {}), out, 1, worlds=None, every=1)


def test_a_log_goes_on_after_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    assert read_log(path) == []
    path.parent.mkdir()
    first = TrainingLog(path)
    for update in (1, 2, 3):
        first(update, 10, {"loss": 1 / update, "accuracy": 0.5})
    assert [row["update"] for row in read_log(path)] == [1, 2, 3]
    assert read_log(path)[2]["loss"] == 0.333333
    # Update 3 came after the last checkpoint: it is made again.
    before = read_log(path)[1]["cpu_seconds"]
    TrainingLog(path, updates=2)(3, 10, {"loss": 0.25})
    rows = read_log(path)
    assert [row["update"] for row in rows] == [1, 2, 3] and rows[2]["loss"] == 0.25
    assert rows[2]["cpu_seconds"] >= before


def test_a_line_that_was_cut_is_left_out_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = json.dumps({"update": 1, "cpu_seconds": 2.5}) + "\n"
    path.write_text(whole + '{"update": 2, "cpu_')
    assert [row["update"] for row in read_log(path)] == [1]
    log = TrainingLog(path, updates=1)
    assert path.read_text() == whole and log.cpu_seconds >= 2.5
    path.write_text("no log\n" + whole)
    with pytest.raises(DatasetError, match="line 1: is no line of a training's log"):
        read_log(path)


#: A training of four updates.
LEARNS = ("--set", "members=1", "--set", "updates=4", "--set", "width=8", "--set", "features=4")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch", reason="the extra agents is not installed")
    recipe = Recipe(env=TOY, episodes=8, reference_episodes=0)
    return str(collect(recipe, tmp_path_factory.mktemp("curves") / "data").path)


def scalars(folder: Path) -> dict[str, list[int]]:
    """The steps of each curve in TensorBoard's files of records."""
    from tensorboardX.proto.event_pb2 import Event

    steps: dict[str, list[int]] = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (size,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + size])
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
            content = content[16 + size :]
    return steps


def test_tensorboard_gets_every_update(data: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra tensorboard is not installed")
    out, curves = tmp_path / "mine.safetensors", tmp_path / "curves"
    words = ("train", "surrogate", data, str(out), *LEARNS, "--tensorboard", str(curves))
    pmoss(*words)
    assert scalars(curves / "mine")["train/loss"] == [1, 2, 3, 4]
    out.unlink()
    assert "mine: exists already" in pmoss(*words, status=2)


def test_weights_and_biases_gets_every_update(data, tmp_path, monkeypatch):
    rows: list[tuple[str, int]] = []
    begun: list[tuple[str, str | None]] = []

    class Run:
        def log(self, values: dict[str, float], step: int) -> None:
            rows.extend((name, step) for name in values)

        def finish(self) -> None:
            rows.append(("finished", 0))

    def init(**given: Any) -> Run:
        assert (given["project"], given["name"]) == ("placement", "mine")
        assert given["config"]["members"] == 1
        begun.append((given["id"], given["resume"]))
        return Run()

    monkeypatch.setattr("pmoss_agents.training_log.require", lambda *modules: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    out = str(tmp_path / "mine.safetensors")
    words = ("--wandb", "placement", "--validate-every", "2", "--validate-episodes", "1")
    pmoss("train", "surrogate", data, out, *LEARNS, *words)
    assert [step for name, step in rows if name == "train/loss"] == [1, 2, 3, 4]
    assert [step for name, step in rows if name == "validation/score"] == [2, 4]
    assert rows[-1] == ("finished", 0)
    pmoss("train", "surrogate", data, str(tmp_path / "other/mine.safetensors"), *LEARNS, *words[:2])
    pmoss("train", data, out, *words[:2], "--resume")
    (mine, fresh), (other, also_fresh), resumed = begun
    assert mine.startswith("mine-") and other.startswith("mine-") and mine != other
    assert fresh is also_fresh is None and resumed == (mine, "allow")


@pytest.mark.parametrize("extra", ["tensorboard", "wandb"])
def test_without_its_package_the_extra_is_named(extra, data, tmp_path, monkeypatch):
    for package in ("tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, package, None)
    out = tmp_path / "mine.safetensors"
    said = pmoss("train", "surrogate", data, str(out), f"--{extra}", "it", status=2)
    assert f"'.[{extra}]'" in said and not out.exists()

"""The loop of every fit(): order of what it does, resuming, interrupts."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from pmoss_agents.trainer import Course, Metrics, cosine, train


class Counter:
    """Learns to count, and keeps what happened to it."""

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
    assert train(agent, Course(agent.step, 3, metrics={"steps": 9.0}), None, None) == {"steps": 9.0}
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


def test_the_cosine_falls_to_a_tenth() -> None:
    assert [cosine(0.0), cosine(math.pi)] == pytest.approx([1.0, 0.1])
    rates = [cosine(math.pi * i / 10) for i in range(11)]
    assert rates == sorted(rates, reverse=True)

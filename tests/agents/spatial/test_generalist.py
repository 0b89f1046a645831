"""The generalist: what it learns from made-up worlds, and how it plays elsewhere."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pmoss_agents  # noqa: E402
from pmoss_agents.spatial import generalist  # noqa: E402
from pmoss_agents.spatial.generalist import (  # noqa: E402
    Generalist,
    Lesson,
    Lessons,
    Topologies,
    loss_of,
)
from pmoss_datasets.evaluation import evaluate  # noqa: E402
from pmoss_datasets.policies import SchedulePolicy  # noqa: E402
from pmoss_datasets.spatial.world_sets import WorldSet, WorldsRecipe, make_worlds  # noqa: E402
from pmoss_env.errors import DatasetError  # noqa: E402

SMALL = {
    **{"members": 1, "width": 32, "features": 16, "demands": 8, "batch_size": 4, "held": 4},
    **{"learning_rate": 3e-3, "save_every": 50, "tries": 0},
}
TOY = {"machine": "toy", "slices": 16, "interference": "busy_core"}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return make_worlds(WorldsRecipe("train", 48), tmp_path_factory.mktemp("worlds") / "set")


@pytest.fixture(scope="module")
def agent(worlds):
    agent = Generalist(**SMALL, updates=300)
    agent.fit(worlds)
    return agent


def drawn(worlds, size, seed=0, missing=0.0):
    lessons = Lessons(worlds, missing, torch.device("cpu"))
    return lessons.draw(np.random.default_rng(seed), range(len(worlds)), size)


def mean_loss(agent, worlds):
    with torch.inference_mode():
        losses = [loss_of(agent.network[0], drawn(worlds, 4, seed))[0] for seed in range(20)]
    return float(torch.stack(losses).mean())


def test_it_learns_what_schedules_serve(agent, worlds):
    new = Generalist(**SMALL, updates=1)
    metrics = new.fit(worlds)
    assert metrics.keys() == {"loss", "error", "held_loss", "held_error"}
    assert mean_loss(agent, worlds) < 0.8 * mean_loss(new, worlds)


def test_a_machine_is_read_alike_among_larger_ones(agent, worlds):
    model = agent.network[0]
    lesson = drawn(worlds, 6)
    with torch.inference_mode():
        together = loss_of(model, lesson)[0]
        alone = []
        for row in range(6):
            workers = int((lesson.topologies.sizes[row, :, 1] > 0).sum())
            one = object.__new__(Topologies)
            one.workers = workers
            for name, part in vars(lesson.topologies).items():
                if name != "workers":
                    own = part[row : row + 1, :workers]
                    square = name in ("siblings", "caches", "nodes")
                    setattr(one, name, own[..., :workers] if square else own)
            alone.append(
                loss_of(model, Lesson(one, *(part[row : row + 1] for part in lesson[1:])))[0]
            )
    torch.testing.assert_close(together, torch.stack(alone).mean(), rtol=1e-4, atol=1e-5)


def test_it_plays_at_once_on_a_machine_that_it_never_met(agent):
    policies = {"generalist": agent, "random": SchedulePolicy("random")}
    rows = evaluate(TOY, policies, [5], 6, 200, 20).rows
    assert not any(row.illegal_actions for row in rows)
    score = {name: np.mean([row.score for row in rows if row.policy == name]) for name in policies}
    assert score["generalist"] > 50 > score["random"]


def test_a_stopped_training_goes_on_to_the_same_bits(agent, worlds, tmp_path):
    def stop(done, total, metrics):
        if done == 200:
            raise KeyboardInterrupt

    begun = Generalist(**SMALL, updates=300)
    with pytest.raises(KeyboardInterrupt):
        begun.fit(worlds, progress=stop, checkpoint=tmp_path / "begun.safetensors")
    again = pmoss_agents.load(tmp_path / "begun.safetensors")
    again.fit(worlds)
    mine, theirs = again._state()[0], agent._state()[0]
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)


def test_it_says_what_it_waits_for(worlds, tmp_path, monkeypatch):
    with pytest.raises(DatasetError, match="must be more than held = 100"):
        Generalist(**{**SMALL, "held": 100}, updates=1).fit(worlds)
    monkeypatch.setattr(generalist, "_PATIENCE", 0.0)
    monkeypatch.setattr(WorldSet, "made", lambda self, count: False)
    with pytest.raises(DatasetError, match="goes on making it"):
        Generalist(**SMALL, updates=1).fit(worlds)

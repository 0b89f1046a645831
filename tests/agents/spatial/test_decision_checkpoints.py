"""Checkpoints of the Decision Transformer, and the tasks that they are for."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import pmoss_agents
import pmoss_env  # noqa: F401 (registers the environments)
from pmoss_agents import checkpoints
from pmoss_datasets import Recipe, collect, open_dataset
from pmoss_env.errors import CheckpointError
from tests.agents.spatial.small_transformer import SMALL, TOY, play, weights

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.decision_network import Model  # noqa: E402
from pmoss_agents.spatial.decision_transformer import (  # noqa: E402
    DecisionTransformer,
    best_path,
)
from pmoss_agents.spatial.episodes import Episodes  # noqa: E402


def test_saved_and_loaded_acts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "agent.safetensors")
    loaded = pmoss_agents.load(tmp_path / "agent.safetensors")
    assert isinstance(loaded, DecisionTransformer)
    assert loaded.config == fitted.config
    for seed in range(3):
        assert play(loaded, seed=seed) == play(fitted, seed=seed)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.safetensors"]


@pytest.mark.parametrize("at", [1, 3])
def test_resumed_training_equals_uninterrupted(dataset, fitted, tmp_path, at):
    class Stop(Exception):
        pass

    def stop(done, total, metrics):
        if done == at:
            raise KeyboardInterrupt

    path = tmp_path / "agent.safetensors"
    agent = DecisionTransformer(**SMALL)
    with pytest.raises(KeyboardInterrupt):
        agent.fit(dataset, progress=stop, checkpoint=path)
    resumed = pmoss_agents.load(path)
    done = []
    resumed.fit(dataset, progress=lambda d, t, m: done.append(d))
    assert done == list(range(at + 1, SMALL["updates"] + 1))
    for name, value in weights(fitted).items():
        np.testing.assert_array_equal(value, weights(resumed)[name], err_msg=name)


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("where", ["loading", "forward", "backward"])
def test_an_interrupt_inside_an_update_saves_the_updates_before_it(
    dataset, fitted, tmp_path, monkeypatch, where, at
):
    owner, name = {
        "loading": (Episodes, "batch"),
        "forward": (Model, "forward"),
        "backward": (torch.nn.utils, "clip_grad_norm_"),
    }[where]
    original, calls = getattr(owner, name), []

    def cut(*args):
        calls.append(1)
        if len(calls) > at:
            raise KeyboardInterrupt
        return original(*args)

    path = tmp_path / "agent.safetensors"
    monkeypatch.setattr(owner, name, cut)
    with pytest.raises(KeyboardInterrupt):
        DecisionTransformer(**SMALL).fit(dataset, checkpoint=path)
    monkeypatch.undo()
    resumed, done = pmoss_agents.load(path), []
    resumed.fit(dataset, progress=lambda d, t, m: done.append(d))
    assert done == list(range(at + 1, SMALL["updates"] + 1))
    for name, value in weights(fitted).items():
        np.testing.assert_array_equal(value, weights(resumed)[name], err_msg=name)


def test_a_cut_optimiser_step_is_not_saved(dataset, tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    steps, original = [], torch.optim.AdamW.step

    def cut(self, *args):
        original(self, *args)
        steps.append(1)
        if len(steps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch.optim.AdamW, "step", cut)
    with pytest.raises(KeyboardInterrupt):
        DecisionTransformer(**SMALL, save_every=2).fit(dataset, checkpoint=path)
    assert pmoss_agents.load(path).updates == 2


def test_other_weights_are_refused(fitted, tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    arrays, values = fitted._state()
    arrays["model/norm.weight"] = np.zeros(3, dtype=np.float32)
    monkeypatch.setattr(fitted, "_state", lambda: (arrays, values))
    fitted.save(path)
    with pytest.raises(CheckpointError, match=r"norm\.weight: \(3,\) in the file, \(16,\)"):
        pmoss_agents.load(path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("agent",), []),
        (("agent",), {}),
        (("config", "context"), 10**30),
        (("task", "grid"), [-1, 4]),
        (("task", "slices"), -1),
        (("task", "slices"), float("nan")),
        (("task", "foresight"), None),
        (("task", "foresight"), [float("nan")] * 3),
        (("task", "foresight"), -1.0),
        (("task", "order"), ...),
        (("task", "counters"), ...),
        (("values", "sampling", "state", "state"), -1),
    ],
)
def test_altered_headers_are_refused(fitted, tmp_path, where, value):
    path = tmp_path / "agent.safetensors"
    fitted.save(path)
    header, arrays = checkpoints.read(path)
    inner = header
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    if value is ...:
        del inner[where[-1]]
    checkpoints.write(path, header, arrays)
    with pytest.raises(CheckpointError, match=r"agent\.safetensors: "):
        pmoss_agents.load(path)


def test_training_that_diverges_stops_and_keeps_the_last_checkpoint(dataset, tmp_path):
    path = tmp_path / "agent.safetensors"
    agent = DecisionTransformer(**{**SMALL, "learning_rate": 1e9, "clip": 1e9, "save_every": 1})
    with pytest.raises(CheckpointError, match="not finite: training diverged"):
        agent.fit(dataset, checkpoint=path)
    if path.exists():  # from before it diverged
        assert all(np.isfinite(array).all() for array in weights(pmoss_agents.load(path)).values())


def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(fitted, tmp_path, monkeypatch):
    arrays, values = fitted._state()
    arrays["model/norm.weight"] = np.full(16, np.nan, dtype=np.float32)
    monkeypatch.setattr(fitted, "_state", lambda: (arrays, values))
    with pytest.raises(CheckpointError, match=r"model/norm\.weight is not finite: training div"):
        fitted.save(tmp_path / "agent.safetensors")
    monkeypatch.setattr("pmoss_agents.agent._not_finite", lambda arrays: None)
    fitted.save(tmp_path / "agent.safetensors")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"agent\.\w+: model/norm\.weight is not finite"):
        pmoss_agents.load(tmp_path / "agent.safetensors")


def test_another_task_is_refused(fitted, dataset, tmp_path):
    for change, text in (
        ({"machine": "skylake-x-8n"}, r"grid = \[2, 4\], but the observation has grid = \[8, 12\]"),
        ({"observation": "paper"}, "observation='full'"),
    ):
        with pytest.raises(CheckpointError, match=text):
            play(fitted, {**TOY, **change})
    with pytest.raises(CheckpointError, match="all 8 slices are placed"):
        play(fitted, {**TOY, "slices": 9})
    recipe = Recipe(env={**TOY, "slices": 9}, episodes=2, reference_episodes=0)
    with pytest.raises(CheckpointError, match=r"slices = 8, but the dataset .* has slices = 9"):
        fitted.fit(collect(recipe, tmp_path / "other"))


class AnEnvironment:
    """What check_env() reads, as the environment will have it."""

    def __init__(self, **change):
        self.machine = SimpleNamespace(rows=2, cols=4)
        self.slices, self.order_kind, self.observation_mode = 8, "load", "full"
        vars(self).update(change)


def test_an_environment_of_another_task_is_refused(fitted):
    fitted.check_env(gymnasium.make("pmoss/SpatialScheduling-v0", **TOY))
    fitted.check_env(AnEnvironment())
    fitted.check_env(AnEnvironment(order_kind=None, observation_mode=None))
    fitted.check_env(SimpleNamespace())  # tells nothing
    for change, text in (
        ({"slices": 9}, "slices = 8, but the environment has slices = 9"),
        ({"order_kind": "index"}, "order = load, but the environment has order = index"),
        ({"observation_mode": "paper"}, "observation = full, but the environment has"),
        ({"counters_kind": "software"}, "readable = software; see -e counters"),
        ({"machine": SimpleNamespace(rows=8, cols=12)}, r"grid = \[2, 4\], but the environment"),
    ):
        with pytest.raises(CheckpointError, match=text):
            fitted.check_env(AnEnvironment(**change))
    with pytest.raises(CheckpointError, match="the environment has slices = 9"):
        fitted.check_env(gymnasium.make("pmoss/SpatialScheduling-v0", **{**TOY, "slices": 9}))


def test_part_of_a_task_can_be_checked(fitted):
    fitted.check_task({"slices": 8, "order": "load", "grid": (2, 4), "load": "closed"})
    fitted.check_task({})
    with pytest.raises(CheckpointError, match="order = load, but my set-up has order = index"):
        fitted.check_task({"slices": 8, "order": "index"}, "my set-up")


def test_going_on_with_another_dataset_must_be_asked_for(dataset, fitted, tmp_path):
    path = tmp_path / "agent.safetensors"
    fitted.save(path)
    recipe = Recipe(env=TOY, episodes=10, seed=2, reference_episodes=0)
    other = collect(recipe, tmp_path / "other")
    assert other.metadata.id == dataset.metadata.id
    agent = pmoss_agents.load(path)
    with pytest.raises(CheckpointError, match=r"checksum .* pass allow_other_dataset=True"):
        agent.fit(other)
    agent.fit(open_dataset(dataset.path))
    agent.fit(other, allow_other_dataset=True)
    agent.save(path)
    agent = pmoss_agents.load(path)
    agent.fit(other)
    with pytest.raises(CheckpointError, match="allow_other_dataset"):
        agent.fit(dataset)


def test_checkpoints_that_name_no_dataset_go_on(fitted, dataset, tmp_path):
    path = tmp_path / "agent.safetensors"
    fitted.save(path)
    header, arrays = checkpoints.read(path)
    del header["dataset"]
    agent = DecisionTransformer.from_checkpoint(path, header, arrays)
    agent.fit(dataset)
    assert agent.dataset == fitted.dataset


def test_another_counter_vocabulary_is_refused(fitted, tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    fitted.save(path)
    monkeypatch.setattr("pmoss_agents.agent.COUNTER_NAMES", ("queries",))
    with pytest.raises(CheckpointError, match=r"counters = .* this version of pmoss_env has"):
        pmoss_agents.load(path)


def test_the_best_checkpoint_is_kept_beside_the_last(dataset, tmp_path):
    path = tmp_path / "agent.safetensors"
    config = {**SMALL, "updates": 8, "save_every": 2, "held_out": 0.1}
    agent, seen = DecisionTransformer(**config), []
    agent.fit(dataset, checkpoint=path, progress=lambda d, t, m: seen.append((d, m)))
    losses = {done: m["held_out_loss"] for done, m in seen if "held_out_loss" in m}
    assert sorted(losses) == [2, 4, 6, 8]
    best = pmoss_agents.load(best_path(path))
    assert best.updates == min(losses, key=losses.get)
    assert pmoss_agents.load(path).updates == 8
    source = Episodes(dataset, agent.config)
    assert source.held.size == 6
    trained = {row for update in range(20) for row in source.rows(update)}
    assert trained == set(range(60)) - set(source.held.tolist())
    # A resumed run remembers how good the best was.
    assert pmoss_agents.load(path)._best_loss == min(losses.values())

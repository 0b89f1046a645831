"""The Decision Transformer and QT: networks, decoding, losses, learning and checkpoints."""

from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents import checkpoints
from pmoss_agents.checkpoints import best_path
from pmoss_agents.spatial import qt
from pmoss_agents.spatial.decision_player import Player
from pmoss_agents.spatial.decision_transformer import DecisionTransformer, imitation_loss
from pmoss_agents.spatial.encoders import FORBIDDEN
from pmoss_agents.spatial.episodes import Episodes, layouts_of
from pmoss_agents.spatial.observations import Layout
from pmoss_datasets import open_dataset
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.several import Several
from pmoss_env.envs.spatial import meta_names
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError
from pmoss_env.machines import load_machine
from tests.agents.spatial.playing import BUSY, TRANSFORMER, check_masks, collected, play


def learned(dataset, **changes):
    agent = DecisionTransformer(**{**TRANSFORMER, "updates": 2, **changes})
    agent.fit(dataset)
    return agent


def weights(agent):
    return {name: value.numpy().copy() for name, value in agent.network.state_dict().items()}


# ---- several datasets


def test_it_learns_from_several_workloads_of_one_machine(dataset, tmp_path):
    scans = collected({**BUSY, "workload": "scans"}, tmp_path / "scans", episodes=6)
    both = Several([dataset, scans])
    agent = learned(both, batch_size=4)
    assert agent.dataset["id"] == both.id
    source, last = Episodes(both, agent.config), Episodes(scans, agent.config)
    joined = source.whole([0, len(dataset) + 5])
    assert torch.equal(joined["actions"][1], last.whole([5])["actions"][0])
    assert torch.equal(
        joined["returns"][0], Episodes(dataset, agent.config).whole([0])["returns"][0]
    )
    losses, _ = agent.agreement(both)
    assert losses.shape == (len(dataset) + 6,)
    assert np.array_equal(losses[-6:], agent.agreement(scans)[0])


def test_it_begins_with_the_weights_of_another_training(dataset, tmp_path):
    first = learned(dataset)
    scans = collected({**BUSY, "workload": "scans"}, tmp_path / "scans", episodes=6)
    tuned = first.renewed(updates=1, learning_rate=1e-9, batch_size=2)
    np.testing.assert_equal(weights(tuned), weights(first))
    tuned.fit(scans)
    assert tuned.updates == 1 and tuned.task["foresight"] == first.task["foresight"]
    assert np.allclose(tuned.agreement(scans)[0], first.agreement(scans)[0], rtol=1e-4)


@pytest.fixture(scope="module")
def of_machines(dataset, tmp_path_factory):
    """The busy task on another machine, and on a third one whose grid is smaller."""
    folder = tmp_path_factory.mktemp("machines")
    return [
        collected({**BUSY, "machine": name}, folder / name.replace(":", "-"), episodes=4)
        for name in ("rome-7302", "random:1")
    ]


def test_it_learns_from_several_machines_in_one_grid(dataset, of_machines):
    other = of_machines[0].machine
    both = Several([dataset, of_machines[0]])
    agent = learned(both, batch_size=2, shuffle_cores=True)
    assert agent.task["grid"] == [other.rows, max(other.cols, dataset.machine.cols)]
    assert set(agent.task["meta_names"]) >= {*meta_names(dataset.machine), *meta_names(other)}
    layouts = layouts_of(both.parts)
    source = Episodes(both, agent.config, layouts=layouts)
    for update, layout in enumerate(layouts):
        batch = source.batch(update, agent._foresight())
        assert source.layout(source.rows(update)[0]) is layout
        # Only workers of the machine may be chosen, and each is where its grid lies.
        workers = np.isin(np.arange(layout.places.shape[1]), layout.tiles) & (layout.places[1] >= 0)
        assert not batch["position_mask"][..., ~workers].any()
        assert batch["position_mask"].gather(2, batch["actions"][..., None]).all()
    # What the padding adds is 0, and the rest is as it was.
    plain = Episodes(dataset, agent.config).whole([3])
    padded = source.whole([3])
    tiles = torch.from_numpy(layouts[0].tiles)
    for key in ("machine_view", "view_mask"):
        assert torch.equal(padded[key].index_select(2, tiles), plain[key])
        assert padded[key].sum() == pytest.approx(float(plain[key].sum()))
    losses, _ = agent.agreement(both)
    assert np.array_equal(losses[-4:], agent.agreement(of_machines[0])[0])


def test_what_learned_on_some_machines_is_fine_tuned_on_another_and_plays_there(
    dataset, of_machines
):
    other, third = of_machines
    begun = learned(Several([dataset, other]), batch_size=2)
    tuned = begun.renewed(updates=2, batch_size=2)
    tuned.fit(third)
    assert tuned.task["grid"] == begun.task["grid"] and tuned.updates == 2
    env = {**BUSY, "machine": "random:1"}
    rows = evaluate(env, {"tuned": tuned.padded()}, [101], 1, 20, 5).rows
    assert [row.illegal_actions for row in rows] == [0]
    small = learned(third)
    with pytest.raises(CheckpointError, match=r"grid = .* has grid"):
        small.renewed(updates=1).fit(other)
    tuned = learned(third, rows=other.machine.rows, cols=other.machine.cols).renewed(updates=1)
    tuned.fit(other)
    assert tuned.task["grid"] == [other.machine.rows, other.machine.cols]


def test_datasets_with_other_slices_are_refused(dataset, tmp_path):
    other = collected({**BUSY, "slices": 12}, tmp_path / "other", episodes=4)
    with pytest.raises(DatasetError, match=r"slices: is not as in .* with the same slices"):
        learned(Several([dataset, other]))


# ---- network and decoding


@pytest.mark.parametrize(
    "changes",
    [
        {"meta_position": "first", "reward": "terminal"},
        {"meta_position": "last", "reward": "slice", "context": 3},
        {"meta_position": "first", "reward": "slice", "context": 1},
        {"meta_position": "last", "reward": "improvement"},
        {"meta_position": "last", "encoder": "plain", "backbone": "lstm"},
    ],
)
def test_cached_decoding_equals_the_whole_sequence(dataset, changes):
    agent = learned(dataset, **changes)
    batch = Episodes(dataset, agent.config).batch(0, agent._foresight())
    with torch.inference_mode():
        whole = agent.network(batch)[0]
        player = Player(agent.network)
        action = torch.tensor([0])
        for t in range(dataset.steps):
            state = {name: batch[name][:1] for name in ("incumbent_view", "meta")}
            names = ("view_mask", "position_mask", "machine_view", "slice_view")
            state |= {name: batch[name][:1, t : t + 1] for name in names}
            (scores,) = player.scores(state, batch["returns"][:1, t], action)
            action = batch["actions"][:1, t]
            torch.testing.assert_close(scores, whole[t], rtol=1e-4, atol=1e-4)
            assert scores.argmax() == whole[t].argmax()


@pytest.mark.parametrize("inputs", [["slice"], ["core", "node"], ["cache", "machine", "topology"]])
def test_playing_needs_no_input_of_all(dataset, inputs):
    agent = learned(dataset, inputs=inputs)
    assert play(agent, BUSY) == play(agent, BUSY)


@pytest.mark.parametrize("backbone", ["transformer", "lstm"])
def test_no_step_sees_what_comes_later(dataset, backbone):
    agent = learned(dataset, backbone=backbone)
    batch = Episodes(dataset, agent.config).batch(0)
    with torch.inference_mode():
        before = agent.network(batch)
        batch["actions"][:, 5:] = 1
        batch["machine_view"][:, 6:] = 0
        batch["returns"][:, 6:] = 9
        after = agent.network(batch)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("decoding", ["greedy", "sample"])
def test_forbidden_tiles_are_never_chosen(dataset, decoding):
    agent = learned(dataset, decoding=decoding, temperature=100.0)
    check_masks(agent, BUSY)
    batch = Episodes(dataset, agent.config).batch(0)
    assert (agent.network(batch)[batch["position_mask"] == 0] == FORBIDDEN).all()


# ---- learning


def test_learns_the_toy(dataset):
    agent = DecisionTransformer(**{**TRANSFORMER, "updates": 150, "dropout": 0.0})
    agent.fit(open_dataset(dataset.path))
    seeds = range(1000, 1012)
    reached = np.mean([play(agent, BUSY, seed)[1] for seed in seeds])

    rng = np.random.default_rng(0)
    chance = SimpleNamespace(
        reset=lambda: None,
        observe=lambda reward: None,
        act=lambda _, mask: int(rng.choice(np.flatnonzero(mask))),
    )
    assert reached > 1.15 * np.mean([play(chance, BUSY, seed)[1] for seed in seeds])


def test_products_of_half_the_width_teach_nearly_the_same(dataset, fitted):
    half, again = (DecisionTransformer(**TRANSFORMER, precision="bfloat16") for _ in range(2))
    metrics = half.fit(dataset)
    again.fit(dataset)
    whole = weights(fitted)
    for name, value in weights(half).items():
        assert value.dtype == whole[name].dtype
        np.testing.assert_array_equal(value, weights(again)[name], err_msg=name)
    assert any(not np.array_equal(v, whole[n]) for n, v in weights(half).items())
    plain = DecisionTransformer(**TRANSFORMER).fit(dataset)
    assert metrics["loss"] == pytest.approx(plain["loss"], 0.1)


def test_doubt_weighs_what_is_unlikely_less():
    scores = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    actions = torch.tensor([[0, 1, 2], [3, 4, 0]])
    plain, tiny = (imitation_loss(scores, actions, q) for q in (0.0, 1e-4))
    torch.testing.assert_close(tiny, plain, rtol=1e-3, atol=0)
    odds = torch.softmax(scores, -1).gather(-1, actions[..., None])
    (of_plain,) = torch.autograd.grad(plain, scores)
    (of_doubt,) = torch.autograd.grad(imitation_loss(scores, actions, 0.6), scores)
    torch.testing.assert_close(of_doubt, of_plain * odds.detach() ** 0.6)


def test_agreement_is_of_each_episode(dataset, fitted):
    losses, accuracies = fitted.agreement(dataset)
    assert losses.shape == accuracies.shape == (len(dataset),)
    assert (losses > 0).all() and ((accuracies >= 0) & (accuracies <= 1)).all()
    # What is held out of learning is judged alike.
    held = DecisionTransformer(**{**TRANSFORMER, "held_out": 0.5})
    metrics = held.fit(dataset)
    rows = Episodes(dataset, held.config).held
    again, _ = held.agreement(dataset)
    assert metrics["held_out_loss"] == pytest.approx(again[rows].mean())
    with pytest.raises(CheckpointError, match="call fit"):
        DecisionTransformer(**TRANSFORMER).agreement(dataset)


@pytest.mark.parametrize("reward", ["terminal", "slice"])
def test_the_papers_observation_is_learned_from_and_nothing_else_is_seen(reward, tmp_path):
    paper = {**BUSY, "observation": "paper"}
    data = collected(paper, tmp_path, episodes=6)
    agent = learned(data, reward=reward)
    assert play(agent, BUSY) == play(agent, paper)
    with pytest.raises(CheckpointError, match="observation = paper, but the environment has"):
        agent.check_env(gymnasium.make("pmoss/SpatialScheduling-v0", **BUSY))
    with pytest.raises(DatasetError, match="lacks the incumbent's throughput"):
        learned(data, reward="improvement")


def follows_the_return(agent, weight=1.0):
    """Rebuilds the network: tiles with low numbers win if the wanted return is above the mean.

    Its one block attends to all tokens alike. Only those of returns-to-go are not zero.
    """
    with torch.no_grad():
        for name, parameter in agent.network.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        model, width = agent.network, agent.config.width
        # gelu(x) - gelu(-x) = x
        model.returns[0].weight[:2, 0] = torch.tensor([1.0, -1.0])
        model.returns[2].weight[0, :2] = weight * torch.tensor([1.0, -1.0])
        for block in model.blocks:
            block.qkv.weight[2 * width :] = torch.eye(width)
            block.out.weight[:] = torch.eye(width)
        model.plain.weight[:, 0] = torch.linspace(1.0, -1.0, len(model.plain.weight))
        model.returns_mean.fill_(0.5)
        model.returns_std.fill_(0.1)
    agent.reset()


@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_the_wanted_return_changes_the_actions(fitted, tmp_path, weight):
    fitted.save(tmp_path / "agent.safetensors")
    agent = pmoss_agents.load(tmp_path / "agent.safetensors")
    follows_the_return(agent, weight)
    play(agent, BUSY)
    best = agent._expected
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **BUSY)
    allowed = np.flatnonzero(env.reset(seed=0)[1]["action_mask"])
    assert allowed.size > 1
    chosen = {}
    for share in (0.0, 1.0):
        agent.set_target(share * best)
        chosen[share] = play(agent, BUSY)[0]
    if weight:
        assert (chosen[1.0][0], chosen[0.0][0]) == (allowed[0], allowed[-1])
    else:
        assert chosen[1.0] == chosen[0.0]  # a network without the token cannot follow


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"width": 10, "heads": 4}, "width = 10: must be a multiple of heads = 4"),
        ({"width": 4096, "layers": 64}, "width = 4096: must give at most 268435456 weights"),
        ({"meta_position": "middle"}, "meta_position = 'middle': must be one of first, last"),
        ({"meta_position": "last", "complete": True}, "must be 'first' where complete is true"),
        ({"inputs": ["best-fit"]}, r"inputs = \['best-fit'\]: must be a list of some of slice"),
    ],
)
def test_wrong_configs_are_named(config, text):
    with pytest.raises(DescriptionError, match=text):
        DecisionTransformer(**config)


# ---- checkpoints


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("config", "context"), 10**30),
        (("task", "grid"), [-1, 4]),
        (("task", "slices"), -1),
        (("task", "slices"), float("nan")),
        (("task", "foresight"), None),
        (("task", "foresight"), [float("nan")] * 3),
        (("task", "foresight"), -1.0),
        (("task", "order"), ...),
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
    wild = {**TRANSFORMER, "learning_rate": 1e9, "clip": 1e9, "save_every": 1}
    with pytest.raises(CheckpointError, match="not finite: training diverged"):
        DecisionTransformer(**wild).fit(dataset, checkpoint=path)
    # The one from before it diverged.
    assert all(np.isfinite(array).all() for array in weights(pmoss_agents.load(path)).values())


def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(fitted, tmp_path, monkeypatch):
    path = tmp_path / "agent.safetensors"
    fitted.save(path)
    header, arrays = checkpoints.read(path)
    arrays["model/norm.weight"] = np.full(16, np.nan, dtype=np.float32)
    checkpoints.write(path, header, arrays)
    with pytest.raises(CheckpointError, match=r"agent\.\w+: model/norm\.weight is not finite"):
        pmoss_agents.load(path)
    monkeypatch.setattr(fitted, "_state", lambda: (arrays, {}))
    with pytest.raises(CheckpointError, match=r"model/norm\.weight is not finite: training div"):
        fitted.save(path)


def test_another_task_is_refused(fitted, tmp_path, monkeypatch):
    for change, text in (
        ({"machine": "skylake-x-8n"}, r"grid = \[2, 4\], but the observation has grid = \[8, 12\]"),
        ({"observation": "paper"}, "observation='full'"),
        ({"slices": 9}, "all 8 slices are placed"),
    ):
        with pytest.raises(CheckpointError, match=text):
            play(fitted, {**BUSY, **change})
    facts = {"machine": SimpleNamespace(rows=2, cols=4), "slices": 8}
    facts |= {"order_kind": "load", "observation_mode": "full"}
    for same in (facts, {**facts, "order_kind": None, "observation_mode": None}, {}):
        fitted.check_env(SimpleNamespace(**same))
    for change, text in (
        ({"order_kind": "index"}, "order = load, but the environment has order = index"),
        ({"observation_mode": "paper"}, "observation = full, but the environment has"),
        ({"counters_kind": "software"}, "readable = software; see -e counters"),
        ({"machine": SimpleNamespace(rows=8, cols=12)}, r"grid = \[2, 4\], but the environment"),
    ):
        with pytest.raises(CheckpointError, match=text):
            fitted.check_env(SimpleNamespace(**{**facts, **change}))
    with pytest.raises(CheckpointError, match=r"slices = 8, but the dataset .* has slices = 9"):
        fitted.fit(collected({**BUSY, "slices": 9}, tmp_path, episodes=2))
    with pytest.raises(CheckpointError, match="order = load, but my set-up has order = index"):
        fitted.check_task({"slices": 8, "grid": (2, 4), "order": "index"}, "my set-up")
    fitted.save(tmp_path / "agent.safetensors")
    monkeypatch.setattr("pmoss_agents.agent.COUNTER_NAMES", ("queries",))
    with pytest.raises(CheckpointError, match=r"counters = .* this version of pmoss_env has"):
        pmoss_agents.load(tmp_path / "agent.safetensors")


def test_going_on_with_another_dataset_must_be_asked_for(dataset, fitted, tmp_path):
    path = tmp_path / "agent.safetensors"
    fitted.save(path)
    other = collected(BUSY, tmp_path, episodes=10)
    agent = pmoss_agents.load(path)
    with pytest.raises(CheckpointError, match=r"checksum .* pass allow_other_dataset=True"):
        agent.fit(other)
    agent.fit(open_dataset(dataset.path))
    with pytest.raises(CheckpointError, match="has made all of its"):
        agent.fit(other, allow_other_dataset=True)
    assert agent.dataset["checksum"] == dataset.checksum
    agent.updates -= 1  # as if it had been interrupted
    agent.fit(other, allow_other_dataset=True)
    agent.save(path)
    agent = pmoss_agents.load(path)
    agent.fit(other)
    with pytest.raises(CheckpointError, match="allow_other_dataset"):
        agent.fit(dataset)


def test_the_best_checkpoint_is_kept_beside_the_last(dataset, tmp_path):
    path = tmp_path / "agent.safetensors"
    config = {**TRANSFORMER, "updates": 8, "save_every": 2, "held_out": 0.1}
    agent, rows = DecisionTransformer(**config), []
    agent.fit(dataset, checkpoint=path, progress=lambda d, t, m: rows.append((d, m)))
    losses = {done: m["held_out_loss"] for done, m in rows if "held_out_loss" in m}
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
    worse = pmoss_agents.load(path)
    worse.config = replace(worse.config, updates=10, learning_rate=1.0)
    worse.fit(dataset, checkpoint=path)
    assert pmoss_agents.load(best_path(path)).updates == best.updates


def test_the_losses_are_those_of_the_paper():
    """Step by step in NumPy: rewards until the next state, the least critic, the policy's mean."""
    rng = np.random.default_rng(0)
    scores, values = rng.normal(size=(3, 4, 5)), rng.normal(size=(2, 3, 4, 5))
    later, actions = rng.normal(size=(2, 3, 4, 5)), rng.integers(0, 4, size=(3, 4))
    returns, mean, std = rng.normal(size=(3, 4)), 0.3, 2.0
    for array, low in ((scores, FORBIDDEN), (values, FORBIDDEN), (later, FORBIDDEN)):
        array[..., 4] = low
    odds = np.exp(scores[..., :4])
    odds /= odds.sum(-1, keepdims=True)
    error, guidance = 0.0, 0.0
    expected = (odds * values.min(0)[..., :4]).sum(-1)
    for row, step in np.ndindex(3, 4):
        if step < 3:
            then = odds[row, step + 1] @ later[:, row, step + 1, :4].min(0)
            goal = (returns[row, step] - returns[row, step + 1]) / std + then
        else:
            goal = (returns[row, step] - mean) / std
        for critic in values:
            off = abs(critic[row, step, actions[row, step]] - goal)
            error += (0.5 * off**2 if off < 1 else off - 0.5) / 12
        guidance -= expected[row, step] / np.abs(expected).mean() / 12
    tensors = [torch.from_numpy(array) for array in (returns, scores, values, later, actions)]
    returns, scores, values, later, actions = tensors
    scale = torch.tensor(mean), torch.tensor(std)
    goals = qt.goals(returns, qt.expected_values(scores, later), *scale)
    np.testing.assert_allclose(qt.critic_loss(values, actions, goals).item(), error)
    np.testing.assert_allclose(qt.guidance_loss(scores, values).item(), guidance)


def test_of_its_proposals_it_takes_the_one_of_the_highest_value(dataset):
    agent = qt.QT(**TRANSFORMER, n_steps=2, proposals=64)
    agent.fit(dataset)
    decays = {
        id(parameter): group["weight_decay"]
        for group in agent.optimiser.param_groups
        for parameter in group["params"]
    }
    of_places = [n for n in agent.network.critics if decays[id(n.places.weight)] != 0]
    assert len(agent.network.critics) > 0 and not of_places  # embeddings do not decay
    batch = Episodes(dataset, agent.config).batch(0, agent._foresight())
    names = ("view_mask", "position_mask", "machine_view", "slice_view")
    state = {name: batch[name][:1, 3:4] for name in names}
    state |= {name: batch[name][:1] for name in ("incumbent_view", "meta")}
    with torch.no_grad():
        for critic in agent.network.critics:
            critic.pointer.weight.normal_(generator=torch.Generator().manual_seed(1))
        whole = torch.stack([c(batch, torch.arange(8)) for c in agent.network.critics])
        scores = torch.where(state["position_mask"][0, 0] == 0, FORBIDDEN, 0.0)
        assert agent._choose(scores, state, 3) == int(whole.amin(0)[0, 3].argmax())


def test_on_another_machine_its_critics_see_that_machine(dataset, monkeypatch):
    agent = qt.QT(**TRANSFORMER, n_steps=2, proposals=2, rows=8, cols=8)
    agent.fit(dataset)
    padded, shown = agent.padded(), []
    own = agent.network.states.inputs.places.clone()
    choose = agent._choose

    def watched(*arguments):
        shown.extend(critic.states.inputs.places.clone() for critic in agent.network.critics)
        return choose(*arguments)

    monkeypatch.setattr(agent, "_choose", watched)
    evaluate({**BUSY, "machine": "random:1"}, {"padded": padded}, [1], 1, 20, 2)
    places = Layout(load_machine("random:1"), (8, 8)).places
    assert shown and all(np.array_equal(each.numpy(), places) for each in shown)
    assert all(torch.equal(c.states.inputs.places, own) for c in agent.network.critics)


def test_what_it_cannot_do_is_said(dataset, tmp_path):
    with pytest.raises(DescriptionError, match="qt: decoding = 'greedy': must be 'sample'"):
        qt.QT(decoding="greedy")

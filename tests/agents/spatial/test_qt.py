"""QT: its losses by hand, and the Decision Transformer that it is without values."""

import numpy as np
import pytest
import torch

from pmoss_agents.spatial import qt
from pmoss_agents.spatial.encoders import FORBIDDEN
from pmoss_agents.spatial.episodes import Episodes
from pmoss_agents.spatial.observations import Layout
from pmoss_datasets.evaluation import evaluate
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import load_machine
from tests.agents.spatial.playing import BUSY, TRANSFORMER


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

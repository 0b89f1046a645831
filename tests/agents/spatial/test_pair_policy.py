"""The pair policy: its scores of slices and cores, and what it learns from its own draws."""

import numpy as np
import pytest
import torch

from pmoss_agents.spatial.pair_network import PairNetwork, draw
from pmoss_agents.spatial.pair_policy import PairPolicy, log_likelihood
from pmoss_agents.spatial.planning import Pairs, Topology
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.several import Several
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.types import COUNTER_NAMES
from tests.agents.spatial.playing import collected

TOY = {"machine": "toy", "slices": 16, "interference": "busy_core"}
SMALL = {
    **{"judge_updates": 100, "updates": 160, "samples": 16},
    **{"width": 24, "features": 8, "heads": 2, "demands": 4},
}


@pytest.fixture(scope="module")
def agent(data):
    agent = PairPolicy(**SMALL)
    agent.fit(data)
    return agent


@pytest.fixture
def scored(data):
    """A network with random weights, and its scores of an incumbent."""
    torch.manual_seed(0)
    topology = Topology(data.machine)
    sizes = {"width": 24, "hidden": 32, "features": 8, "heads": 2, "blocks": 1, "demands": 4}
    network = PairNetwork(len(COUNTER_NAMES), **sizes)
    for part in (network.time.weight, network.ends, network.last):
        torch.nn.init.normal_(part, std=0.3)
    pairs = Pairs(data, topology)
    network.set_up(pairs.counters[0].flatten(0, 1))
    counters, columns = pairs.counters[0][0], pairs.columns[0][0]
    with torch.no_grad():
        return network, topology, counters, columns, network(topology, counters, columns)


def test_the_likelihood_is_that_of_the_draws(scored):
    _, topology, _, _, scores = scored
    workers = len(topology.tiles)
    noise = np.random.default_rng(0).gumbel(size=(16, 4000, workers)).astype(np.float32)
    plans = draw(scores, topology, noise)
    first = int(torch.argsort(-scores.times.mean(1), stable=True)[0])
    # The first core is chosen from empty cores: its chances need no history.
    shares = np.bincount(plans[:, first], minlength=workers) / 4000
    empty = scores.times[first]
    inner = scores.slices[first] + scores.cores + empty[:, None] * scores.ends
    logits = torch.nn.functional.silu(inner) @ scores.last - scores.haste * empty
    np.testing.assert_allclose(shares, logits.softmax(0).detach().numpy(), atol=0.03)
    random = np.random.default_rng(1).integers(0, workers, (200, 16))
    with torch.no_grad():
        likely, unlikely = (
            np.mean([log_likelihood(scores, topology, torch.from_numpy(p)) for p in drawn])
            for drawn in (plans[:200], random)
        )
    assert likely > unlikely


def test_order_and_names_of_slices_and_cores_do_not_matter(scored):
    network, topology, counters, columns, scores = scored
    shuffled = torch.from_numpy(np.random.default_rng(0).permutation(16))
    alike = torch.nonzero(topology.caches[0]).squeeze(1)
    trade = torch.arange(len(topology.tiles))
    trade[alike] = alike.flip(0)
    with torch.no_grad():
        other = network(topology, counters[shuffled], trade[columns[shuffled]])
    torch.testing.assert_close(scores.times[shuffled], other.times[:, trade])


def fitted(data, **changes):
    agent = PairPolicy(**{**SMALL, **changes})
    agent.fit(data)
    return agent


def test_it_learns_from_its_own_draws(agent, data):
    policies = {"pair-policy": agent, "untrained": fitted(data, judge_updates=1, updates=1)}
    # Nothing that it learns, or knows without learning, but that work adds up.
    frozen = {"judge_updates": 1, "updates": 2, "learning_rate": 0.0, "draw_rate": 0.0}
    for seed in range(3):
        policies[f"frozen {seed}"] = fitted(data, **frozen, seed=seed)
    policies |= {"lpt": SchedulePolicy("lpt")}
    rows = evaluate(TOY, policies, [5], 8, 200, 20).rows
    mean = {name: np.mean([row.score for row in rows if row.policy == name]) for name in policies}
    assert mean["pair-policy"] > mean["untrained"] + 10
    assert mean["pair-policy"] > 50
    assert max(mean[f"frozen {seed}"] for seed in range(3)) < mean["lpt"] + 10
    assert not any(row.illegal_actions for row in rows)


def test_it_learns_from_several_machines(data, tmp_path):
    other = collected({**TOY, "machine": "random:1"}, tmp_path / "other", episodes=6)
    agent = PairPolicy(**{**SMALL, "judge_updates": 6, "updates": 12})
    metrics = agent.fit(Several([data, other]))
    assert agent.updates == 12 and metrics["likelihood"] > 0
    assert agent.dataset["id"] == f"{data.id} + {other.id}"
    rows = evaluate({**TOY, "machine": "random:1"}, {"both": agent}, [101], 1, 20, 5).rows
    assert [row.illegal_actions for row in rows] == [0]


def test_what_it_cannot_do_is_said(tmp_path):
    with pytest.raises(DescriptionError, match="multiple of heads"):
        PairPolicy(features=9)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        PairPolicy().save(tmp_path / "agent.safetensors")

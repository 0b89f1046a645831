"""What learners take from data: what is refused, the best episodes, and single steps of them."""

import numpy as np
import pytest
import torch

from pmoss_agents.spatial.decision_network import Config
from pmoss_agents.spatial.episodes import Episodes, alike_tiles, best_episodes, check_learnable
from pmoss_agents.spatial.observations import KEYS
from pmoss_agents.spatial.transitions import Transitions
from pmoss_datasets import Behaviour, open_dataset
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.errors import DatasetError
from pmoss_env.machines import load_machine
from tests.agents.spatial.playing import TRANSFORMER, collected

TOY = {"machine": "toy", "slices": 8}
CAPPED = {"machine": "toy", "slices": 12, "constraints": {"max_slices_per_core": 3}}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return collected(TOY, tmp_path_factory.mktemp("data"), episodes=6).path


@pytest.fixture
def few(path):
    return open_dataset(path)


@pytest.fixture(scope="module")
def capped(tmp_path_factory):
    parts = (Behaviour("random"), Behaviour("lpt"))
    return collected(CAPPED, tmp_path_factory.mktemp("data"), *parts, episodes=4)


def change(dataset, column, where, value):
    array = dataset.column(column).copy()
    array[where] = value
    dataset._columns[column] = array


def test_what_teaches_nothing_is_refused(path, monkeypatch):
    first, forbidden = open_dataset(path), open_dataset(path)
    tile = int(first.column("actions")[0, 0])
    change(first, "actions", slice(None), tile)
    with pytest.raises(DatasetError, match=f"tile {tile} is the only one in all 6 episodes"):
        check_learnable(first, "terminal")
    tile = int(np.flatnonzero(~forbidden.machine.worker_tiles)[0])
    change(forbidden, "actions", (2, 5), tile)
    with pytest.raises(DatasetError, match=f"episode 2, entry 5: actions = {tile}: is no"):
        check_learnable(forbidden, "terminal")
    for column, reward in (
        ("final_throughput", "terminal"),
        ("final_slice_throughput", "slice"),
        ("throughput", "improvement"),
    ):
        unknown = open_dataset(path)
        change(unknown, column, 3, np.nan)
        with pytest.raises(DatasetError, match="episode 3"):
            check_learnable(unknown, reward)
    none = np.zeros((8, first.machine.tiles), dtype=np.int8)
    masks = "pmoss_datasets.spatial.expansion.Expander.masks"
    monkeypatch.setattr(masks, lambda self, episode: none)
    with pytest.raises(DatasetError, match="episode 0: position_mask: no tile is allowed at step"):
        check_learnable(open_dataset(path), "terminal")


def test_the_best_episodes(few):
    final, start = few.column("final_throughput"), few.column("incumbent_throughput")
    assert best_episodes(few, 0.01).tolist() == [final.argmax()]
    assert set(best_episodes(few, 0.5)) == set(np.argsort(final)[3:])
    assert best_episodes(few, 0.01, "improvement").tolist() == [(final - start).argmax()]
    assert best_episodes(few, 1.0).tolist() == list(range(6))


@pytest.mark.parametrize("n_steps", [1, 5, 100])
def test_transitions_are_those_of_the_episode(capped, n_steps):
    """States put together from slices are those that the environment showed."""
    expander = Expander(capped)
    assert tuple(expander.space.spaces) == KEYS
    source = Transitions(
        capped, np.array([1, 3]), reward="improvement", n_steps=n_steps, gamma=0.9, scale=2.0
    )
    assert len(source) == 24
    batch = source.at(range(24))
    for row, number in ((0, 1), (12, 3)):
        episode = capped[number]
        shown = expander.observations(episode)
        paid = rewards(episode, "improvement")
        for t in range(12):
            at, end = row + t, min(t + n_steps, 12)
            for i, key in enumerate(KEYS):
                np.testing.assert_array_equal(batch.observations[i][at], shown[key][t])
                then = shown[key][end] if end < 12 else np.zeros_like(shown[key][0])
                np.testing.assert_array_equal(batch.next_observations[i][at], then)
            assert batch.actions[at, 0] == episode.actions[t]
            assert batch.next_actions[at, 0] == (episode.actions[end] if end < 12 else 0)
            assert batch.intervals[at, 0] == end - t
            assert batch.terminals[at, 0] == (end == 12)
            expected = sum(0.9 ** (k - t) * paid[k] / 2 for k in range(t, end))
            np.testing.assert_allclose(batch.rewards[at, 0], expected, rtol=1e-5, atol=1e-6)


def test_each_lap_goes_through_all_in_an_order_of_its_own(capped):
    source = Transitions(capped, np.arange(4), reward=None, seed=1)
    asked = []
    source.at = asked.append
    for update in range(12):
        source.batch(update, 8)
    laps = np.concatenate(asked).reshape(2, 48)
    for lap in laps:
        assert sorted(lap) == list(range(48))
    assert (laps[0] != laps[1]).any()
    source.batch(7, 8)  # whatever was asked before
    assert asked[-1] == asked[7]


def test_shuffled_cores_are_the_same_episode_elsewhere(dataset):
    config = Config(**{**TRANSFORMER, "shuffle_cores": True})
    source, plain = Episodes(dataset, config), Episodes(dataset, Config(**TRANSFORMER))
    moved = 0
    for update in range(4):
        new, old = source.batch(update), plain.batch(update)
        again = source.batch(update)
        assert all(torch.equal(new[key], again[key]) for key in new)
        moved += int((new["actions"] != old["actions"]).sum())
        for i, t in np.ndindex(*new["actions"].shape):
            at, was = int(new["actions"][i, t]), int(old["actions"][i, t])
            assert dataset.machine.node_of_core[at] == dataset.machine.node_of_core[was]
            for key in ("view_mask", "position_mask", "machine_view"):
                assert torch.equal(new[key][i, t, at], old[key][i, t, was])
            assert torch.equal(new["incumbent_view"][i, 0, at], old["incumbent_view"][i, 0, was])
        assert torch.equal(new["slice_view"], old["slice_view"])
    assert moved > 0


@pytest.mark.parametrize("machine", ["toy", "skylake-x-8n", "milan-nps4", "xeon-6240m-optane"])
def test_only_cores_that_are_alike_trade_places(machine):
    described = load_machine(machine)
    every = []
    for tiles in alike_tiles(described):
        cores = described.core_of_tile[tiles]
        assert described.worker_mask[cores].all()
        assert np.unique(described.node_of_core[cores]).size == 1
        assert np.unique(described.llc_of_core[cores]).size == 1
        every += tiles.tolist()
    assert len(every) == len(set(every))


def test_episodes_that_are_kept_give_the_same_batches(path):
    dataset = open_dataset(path)
    source, keeping = (Episodes(dataset, Config(**TRANSFORMER)) for _ in range(2))
    keeping._held_there = {}  # as on a GPU with room
    weights = source.foresight()
    for update in (0, 1, 0):
        new, old = keeping.batch(update, weights), source.batch(update, weights)
        assert all(torch.equal(new[name], old[name]) for name in old)
    assert len(keeping._held_there) == len(dataset)
    assert torch.equal(keeping.returns(weights), source.returns(weights))

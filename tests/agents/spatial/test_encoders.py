"""What networks see and learners take: sums of raw counters, and the best episodes and steps."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents.spatial.decision_network import Config
from pmoss_agents.spatial.encoders import GROUPS, TileInputs, check_groups
from pmoss_agents.spatial.episodes import Episodes, alike_tiles, best_episodes, check_learnable
from pmoss_agents.spatial.observations import KEYS, Layout
from pmoss_agents.spatial.transitions import Transitions
from pmoss_agents.standardise import OUTLIER, Standardise
from pmoss_datasets import Behaviour, open_dataset
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES
from tests.agents.spatial.playing import TRANSFORMER, collected

H = len(COUNTER_NAMES)
MILAN, TOY = load_machine("milan-nps4"), load_machine("toy")


def states(tiles, worker=1.0, batch=2, steps=3):
    rng = np.random.default_rng(0)
    worker = torch.as_tensor(worker, dtype=torch.float32) * torch.ones(tiles)

    def draw(*shape):
        return torch.from_numpy(rng.gamma(2.0, 1.0, shape).astype(np.float32))

    return {
        "view_mask": torch.ones(batch, steps, tiles) * worker,
        "position_mask": torch.ones(batch, steps, tiles) * worker,
        "machine_view": draw(batch, steps, tiles, H) * worker[:, None],
        "incumbent_view": draw(batch, 1, tiles, H) * worker[:, None],
        "slice_view": draw(batch, steps, H),
    }


def inputs(machine, groups=GROUPS, outputs=5):
    torch.manual_seed(0)
    layer = TileInputs(machine.tiles, H, outputs, groups)
    state = states(machine.tiles, machine.worker_tiles)
    keys = ("machine_view", "incumbent_view", "slice_view")
    layer.set_up([({key: state[key].flatten(0, 1).numpy() for key in keys}, Layout(machine))])
    return layer, state


def tiles_with(machine, kind, value):
    """Which tiles have a worker whose core is of a cache or node."""
    chosen = machine.worker_tiles.copy()
    chosen[chosen] = kind[machine.core_of_tile[chosen]] == value
    return chosen


def test_no_agent_imports_a_baseline():
    root = Path(pmoss_agents.__file__).parent
    rooms = ("spatial", "continual", "threads", "access_path")
    for path in (path for room in rooms for path in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", [])]
            module = getattr(node, "module", None) or ""
            imported = [module, *names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            assert not any(name.startswith("pmoss_env.baselines") for name in imported), path


def test_counters_are_summed_over_caches_nodes_and_the_machine():
    layer, state = inputs(MILAN)
    view = state["machine_view"]
    for level, kind in (("cache", MILAN.llc_of_core), ("node", MILAN.node_of_core)):
        sums = layer.summed(view, level)
        for place in np.unique(kind[MILAN.workers]):
            expected = view[:, :, tiles_with(MILAN, kind, place)].sum(-2)
            torch.testing.assert_close(sums[:, :, place], expected)
    torch.testing.assert_close(layer.summed(view, "machine"), view.sum(-2, keepdim=True))


def test_each_tile_sees_the_sums_of_its_own_places():
    layer, state = inputs(MILAN, ["cache"])
    before = layer(state)
    tile = int(np.flatnonzero(MILAN.worker_tiles)[0])
    state["machine_view"][:, :, tile] += 1.0
    changed = (layer(state) != before).any(-1).any(0).any(0).numpy()
    cache = MILAN.llc_of_core[MILAN.core_of_tile[tile]]
    np.testing.assert_array_equal(changed, tiles_with(MILAN, MILAN.llc_of_core, cache))


def test_a_layer_that_acted_learns_and_takes_another_machine():
    layer, state = inputs(MILAN)
    with torch.inference_mode():
        acted = layer(state)
    learned = layer(state)
    assert torch.equal(acted, learned)
    learned.sum().backward()
    gradient = layer.weights["cache_placed"].weight.grad
    assert gradient is not None and gradient.abs().sum() > 0
    layer.set_places(Layout(MILAN).places[:, ::-1])
    fresh, _ = inputs(MILAN)
    fresh.set_places(Layout(MILAN).places[:, ::-1])
    assert torch.equal(layer(state), fresh(state))
    assert not torch.equal(layer(state), learned)
    fresh.load_state_dict(inputs(MILAN)[0].state_dict())
    assert torch.equal(fresh(state), learned)


def test_no_sum_is_copied_whole_for_its_gradient():
    layer, state = inputs(MILAN)
    visited, waiting = set(), [layer(state).grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in visited:
            visited.add(node)
            waiting += [before for before, _ in node.next_functions]
    assert len(visited) > 20
    assert not [node for node in visited if node.name().endswith("CopySlices")]


@pytest.mark.parametrize("given", [[], ["load"], ["core", "core"], "core"])
def test_groups_that_make_no_sense_are_refused(given):
    with pytest.raises(DescriptionError, match=r"inputs = .*: must be a list of some of slice"):
        check_groups(given)
    with pytest.raises(DescriptionError, match="surrogate: inputs"):
        pmoss_agents.make("surrogate", inputs=given)


def test_standardised_counters_are_centred_and_bounded():
    standard = Standardise(2)
    samples = np.stack([np.arange(1.0, 101.0), np.full(100, 7.0)], axis=1)
    standard.set(samples)
    values = standard(torch.from_numpy(samples.astype(np.float32))).numpy()
    assert abs(values[:, 0].mean()) < 1e-3
    assert values[:, 0].std() == pytest.approx(1.0, rel=1e-3)
    np.testing.assert_allclose(values[:, 1], 0.0, atol=1e-5)  # a constant says nothing
    assert float(standard(torch.tensor([[1e30, 7.0]]))[0, 0]) == OUTLIER


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

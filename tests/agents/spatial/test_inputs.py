"""What the networks see: sums of raw counters, group by group, and no rule's decision."""

import ast
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pmoss_agents  # noqa: E402
from pmoss_agents.registry import agent_class  # noqa: E402
from pmoss_agents.spatial.base import SpatialAgent  # noqa: E402
from pmoss_agents.spatial.encoders import (  # noqa: E402
    GROUPS,
    TileInputs,
    check_groups,
    places_of,
)
from pmoss_agents.standardise import OUTLIER, Standardise  # noqa: E402
from pmoss_env.errors import CheckpointError, DescriptionError  # noqa: E402
from pmoss_env.machines import load_machine  # noqa: E402
from pmoss_env.types import COUNTER_NAMES  # noqa: E402

H = len(COUNTER_NAMES)
AGENTS = Path(pmoss_agents.__file__).parent


def states(machine, seed=0, batch=2, steps=3):
    rng = np.random.default_rng(seed)
    worker = torch.from_numpy(machine.worker_tiles.astype(np.float32))

    def draw(*shape):
        return torch.from_numpy(rng.gamma(2.0, 1.0, shape).astype(np.float32))

    tiles = machine.tiles
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
    seen = states(machine)
    samples = {
        key: seen[key].flatten(0, 1).numpy()
        for key in ("machine_view", "incumbent_view", "slice_view")
    }
    layer.set_up(samples, machine)
    return layer, seen


def test_no_agent_knows_a_baseline():
    rooms = ("spatial", "continual", "threads", "access_path")
    for path in (path for room in rooms for path in (AGENTS / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", [])]
            of = getattr(node, "module", None) or ""
            imported = [of, *names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            assert not any(name.startswith("pmoss_env.baselines") for name in imported), path


def test_counters_are_summed_over_caches_nodes_and_the_machine():
    machine = load_machine("milan-nps4")
    layer, seen = inputs(machine)
    cores = machine.core_of_tile
    view = seen["machine_view"]
    for level, kind in (("cache", machine.llc_of_core), ("node", machine.node_of_core)):
        sums = layer.summed(view, level)
        for place in np.unique(kind[machine.workers]):
            here = machine.worker_tiles & (cores >= 0)
            here[here] = kind[cores[here]] == place
            torch.testing.assert_close(sums[:, :, place], view[:, :, here].sum(-2))
    torch.testing.assert_close(layer.summed(view, "machine"), view.sum(-2, keepdim=True))


def test_each_tile_sees_the_sums_of_its_own_places():
    machine = load_machine("milan-nps4")
    layer, seen = inputs(machine, ["cache"])
    before = layer(seen)
    tile = int(np.flatnonzero(machine.worker_tiles)[0])
    seen["machine_view"][:, :, tile] += 1.0
    changed = (layer(seen) != before).any(-1).any(0).any(0).numpy()
    cores = machine.core_of_tile
    same = machine.worker_tiles.copy()
    same[same] = machine.llc_of_core[cores[same]] == machine.llc_of_core[cores[tile]]
    np.testing.assert_array_equal(changed, same)


def test_tiles_of_one_cache_that_saw_the_same_are_alike():
    machine = load_machine("milan-nps4")
    layer, seen = inputs(machine)
    cores = machine.core_of_tile
    first = int(np.flatnonzero(machine.worker_tiles)[0])
    other = next(
        int(tile)
        for tile in np.flatnonzero(machine.worker_tiles)
        if tile != first and machine.llc_of_core[cores[tile]] == machine.llc_of_core[cores[first]]
    )
    for key in ("machine_view", "incumbent_view"):
        seen[key][:, :, other] = seen[key][:, :, first]
    out = layer(seen)
    torch.testing.assert_close(out[:, :, first], out[:, :, other])


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_is_left_out_is_not_seen(group):
    machine = load_machine("toy")
    kept = [name for name in GROUPS if name != group]
    layer, seen = inputs(machine, kept)
    whole, _ = inputs(machine)
    assert sum(p.numel() for p in layer.parameters()) < sum(p.numel() for p in whole.parameters())
    if group == "slice":
        before = layer(seen)
        seen["slice_view"] += 1.0
        assert torch.equal(layer(seen), before)


def test_only_own_counters_leave_all_tiles_alike():
    machine = load_machine("toy")
    layer, seen = inputs(machine, ["slice"])
    out = layer(seen)[:, :, torch.from_numpy(machine.worker_tiles)]
    torch.testing.assert_close(out, out[:, :, :1].expand_as(out))


@pytest.mark.parametrize("given", [[], ["load"], ["core", "core"]])
def test_groups_that_make_no_sense_are_refused(given):
    with pytest.raises(DescriptionError, match="inputs"):
        check_groups(given)
    with pytest.raises(DescriptionError, match="inputs"):
        pmoss_agents.make("decision-transformer", inputs=given)


def test_nothing_known_gives_finite_features():
    layer = TileInputs(6, H, 4, GROUPS)  # no machine set
    machine = load_machine("toy")
    seen = {key: torch.zeros_like(value)[:, :, :6] for key, value in states(machine).items()}
    seen["slice_view"] = torch.zeros(2, 3, H)
    assert bool(torch.isfinite(layer(seen)).all())


def test_standardised_counters_are_centred_and_bounded():
    standard = Standardise(2)
    samples = np.stack([np.arange(1.0, 101.0), np.full(100, 7.0)], axis=1)
    standard.set(samples)
    seen = standard(torch.from_numpy(samples.astype(np.float32))).numpy()
    assert abs(seen[:, 0].mean()) < 1e-3
    assert seen[:, 0].std() == pytest.approx(1.0, rel=1e-3)
    np.testing.assert_allclose(seen[:, 1], 0.0, atol=1e-5)  # a constant says nothing
    assert float(standard(torch.tensor([[1e30, 7.0]]))[0, 0]) == OUTLIER


def test_places_come_with_the_weights():
    machine = load_machine("milan-nps4")
    one, other = (TileInputs(machine.tiles, H, 4, GROUPS) for _ in range(2))
    one.set_places(places_of(machine))
    other.load_state_dict(one.state_dict())
    assert other.places.tolist() == places_of(machine).tolist()
    assert len(set(other.places[1].tolist())) == machine.nodes + 1  # and tiles without a worker


def test_a_checkpoint_that_was_told_a_rule_is_refused():
    header = {"agent": "decision-transformer", "config": {"derived": True}, "task": {}}
    for name in ("decision-transformer", "bc", "dqn"):
        agent = agent_class(name)
        assert issubclass(agent, SpatialAgent)
        with pytest.raises(CheckpointError, match=r"old\.npz: was made with inputs that no longer"):
            agent.from_checkpoint(Path("old.npz"), header, {})

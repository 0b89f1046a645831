"""What the networks see: sums of raw counters, group by group, and no rule's decision."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents.spatial.encoders import GROUPS, TileInputs, check_groups
from pmoss_agents.spatial.observations import Layout
from pmoss_agents.standardise import OUTLIER, Standardise
from pmoss_env.errors import DescriptionError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES

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
    samples = {key: state[key].flatten(0, 1).numpy() for key in keys}
    layer.set_up([(samples, Layout(machine))])
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

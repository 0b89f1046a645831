"""What a model reads can be taken away, and is given its share of what the model foresees."""

import numpy as np
import pytest

pytest.importorskip("torch")

from pmoss_agents.explaining.inputs import attribute, inputs_of, levels_of, without
from pmoss_agents.pytorch import torch
from pmoss_agents.spatial.planning.mixing import MixingModel
from pmoss_agents.spatial.planning.model import MORE_GROUPS
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_env.errors import UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.types import COUNTER_NAMES

MIB = torch.zeros(2)


def _model() -> MixingModel:
    torch.manual_seed(0)
    sizes = {"width": 8, "features": 4, "demands": 2, "context": 2, "rounds": 1}
    model = MixingModel(len(COUNTER_NAMES), inputs=MORE_GROUPS, **sizes)
    model.set_up(torch.rand(64, len(COUNTER_NAMES)) * 10)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


def _episode(topology: Topology) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    counters = torch.from_numpy(rng.random((6, len(COUNTER_NAMES)))).float()
    schedules = torch.from_numpy(rng.integers(topology.workers, size=(2, 6)))
    return counters, schedules[0], schedules[1]


def test_what_is_taken_away_has_no_share_and_comes_back() -> None:
    model, topology = _model(), Topology(load_machine("toy"))
    episode = _episode(topology)
    whole = attribute(model, topology, *episode, MIB, 2)
    assert set(whole) == {*levels_of(model), "topology", "capacity", "measured"}
    assert all(value > 0 for value in whole["core"].values())
    for name in ("core", "cycles", "cost", "capacity"):
        with without([model], topology, name, MIB):
            left = attribute(model, topology, *episode, MIB, 2)
        shares = left[name].values() if name in left else [left["slice"][name], left["node"][name]]
        assert all(value == 0 for value in shares), name
        assert left != whole
    assert attribute(model, topology, *episode, MIB, 2) == whole


def test_without_its_topology_cores_share_nothing_and_without_times_all_are_alike() -> None:
    model, topology = _model(), Topology(load_machine("toy"))
    counters, columns, _ = _episode(topology)
    with without([model], topology, "topology", MIB):
        assert int(topology.caches.sum()) == topology.workers == int(topology.nodes.sum())
        assert not topology.sizes.any()
    assert int(topology.nodes.sum()) > topology.workers
    rows = counters.unsqueeze(0), columns.unsqueeze(0)
    with without([model], topology, "measured", MIB):
        assert not model.read(topology, *rows).base.any()
    assert model.read(topology, *rows).base.any()


def test_an_input_that_it_does_not_read_is_refused() -> None:
    model, topology = _model(), Topology(load_machine("toy"))
    assert "cycles" in inputs_of(model)
    with pytest.raises(UnknownNameError, match="sycles"), without([model], topology, "sycles", MIB):
        pass

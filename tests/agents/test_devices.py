"""Where networks learn."""

import pytest

torch = pytest.importorskip("torch")

from pmoss_agents import devices  # noqa: E402
from pmoss_agents.spatial.pair_policy import PairPolicy  # noqa: E402
from pmoss_agents.spatial.surrogate import Surrogate  # noqa: E402
from pmoss_env.errors import UnknownNameError, UnsupportedError  # noqa: E402


def test_auto_is_a_gpu_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.find_device("auto") == devices.find_device("cpu") == torch.device("cpu")
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        devices.find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.find_device("auto") == devices.find_device("cuda") == torch.device("cuda")
    assert devices.find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("agent", [Surrogate, PairPolicy])
def test_an_unknown_device_is_refused_at_once(agent):
    with pytest.raises(UnknownNameError, match="tpu"):
        agent(device="tpu")


def test_what_learned_elsewhere_comes_back():
    network = torch.nn.Linear(2, 1)
    optimiser = torch.optim.AdamW(network.parameters())
    network(torch.ones(3, 2)).sum().backward()
    optimiser.step()
    before = [p.clone() for p in network.parameters()]
    with devices.learning_on(torch.device("cpu"), network, optimiser):
        pass
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    moments = list(optimiser.state.values())
    assert all(value.device.type == "cpu" for one in moments for value in one.values())

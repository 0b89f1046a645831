"""A short loop on whatever host runs the tests, and the file that it wrote."""

import pytest

from pmoss_agents.autopilot.loop import EpochFile, fly, running_env
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_env.machines import load_machine

LOOP = {
    "slices": 8,
    "epoch_seconds": 0.06,
    "moves_per_epoch": 2,
    "drift": "none",
    "incumbent": "spread",
    "backend_options": {"records": 5_000, "warmup_seconds": 0.01},
}


@pytest.fixture(scope="package")
def log(tmp_path_factory):
    """A file of two sessions: 10 and 3 epochs."""
    if load_machine("host").workers.size < 2:
        pytest.skip("needs two worker cores")
    path = tmp_path_factory.mktemp("log") / "epochs.jsonl"
    for epochs in (10, 3):
        file = EpochFile(path, {**LOOP, "agent": "repair"})
        for epoch in fly(running_env({**LOOP, "epochs": epochs}, 0), CONTINUAL.policy("repair")):
            file.append(epoch)
        file.close()
    return path

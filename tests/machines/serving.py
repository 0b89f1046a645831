"""Whether the models take a machine."""

import numpy as np

from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_machine
from pmoss_env.machines import load_machine


def assert_served(name: str) -> None:
    """The simulator and the analytic model take the machine of this name or file."""
    machine = load_machine(name)
    native_machine(machine).complete()
    backend = make_backend("analytic", machine=machine, workload="ycsb-a", slices=32)
    schedule = machine.local_schedule(machine.workers[np.arange(32) % machine.workers.size])
    assert backend.measure(schedule, seed=0).throughput > 0

"""Where a network learns: on the CPU or on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pmoss_agents.pytorch import nn, torch
from pmoss_env.errors import UnknownNameError, UnsupportedError

DEVICES = ("cpu", "cuda", "auto")


def check_device(name: str) -> None:
    """Raises UnknownNameError unless ``name`` is one of DEVICES."""
    if name not in DEVICES:
        raise UnknownNameError("device", name, DEVICES)


def find_device(name: str) -> torch.device:
    """The device of a name; "auto" is a GPU where there is one.

    Raises:
        UnknownNameError: no such name.
        UnsupportedError: a GPU is asked for, and torch finds none.
    """
    check_device(name)
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise UnsupportedError(
            "device = 'cuda': torch finds no GPU on this machine: take 'cpu', or 'auto' for a GPU "
            "where there is one"
        )
    return torch.device("cuda" if there and name != "cpu" else "cpu")


@contextmanager
def learning_on(
    device: torch.device, network: nn.Module, optimiser: torch.optim.Optimizer
) -> Iterator[None]:
    """Holds a network and its optimiser on a device, and takes them back to the CPU."""
    if device.type == "cpu":
        yield
        return
    try:
        network.to(device)
        # Loading takes an optimiser's state to where its parameters are.
        optimiser.load_state_dict(optimiser.state_dict())
        yield
    finally:
        network.to("cpu")
        optimiser.load_state_dict(optimiser.state_dict())

"""Devices for learning: the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pmoss_agents.configs import DEVICES
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_env.errors import DescriptionError, UnsupportedError


def go_on_at(agent: Any, changes: Mapping[str, Any]) -> None:
    """Lets an agent go on learning on another device, with those that it holds.

    Args:
        changes: its ``device``, or nothing.

    Raises:
        DescriptionError: another field, or an agent without a network.
    """
    if not changes:
        return
    if set(changes) != {"device"} or not hasattr(agent.config, "device"):
        raise DescriptionError(
            f"{', '.join(changes)}: a checkpoint goes on with its own config: nothing but the "
            "device of an agent with a network may differ"
        )
    for learner in (agent, getattr(agent, "policy", None), getattr(agent, "judge", None)):
        if learner is not None:
            learner.config = replace(learner.config, **changes)


def find_device(name: str) -> torch.device:
    """The device of a name, one of configs.DEVICES; "auto" is a GPU where there is one.

    Raises:
        DescriptionError: no such name.
        UnsupportedError: a GPU is asked for, and torch finds none.
    """
    if name not in DEVICES:
        raise DescriptionError(f"device = {name!r}: must be one of {', '.join(DEVICES)}")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise UnsupportedError(
            "device = 'cuda': torch finds no GPU on this machine: take 'cpu', or 'auto' for a GPU "
            "where there is one"
        )
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


def device_label(device: torch.device) -> str | None:
    """The name of a GPU; None for the CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


@contextmanager
def isolated_rng(device: torch.device) -> Iterator[None]:
    """Lends torch's global generators, of the CPU and of a device; they are as before after."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def seed_torch(seed: int, device: torch.device | None = None) -> None:
    """Seeds torch's global generators of the CPU and of a device, inside isolated_rng().

    torch.manual_seed() would seed those of all GPUs, also where nothing is learned on one.
    """
    torch.default_generator.manual_seed(seed)
    if device is not None and device.type == "cuda":
        torch.cuda.manual_seed(seed)


def moved(batch: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """A batch with all tensors on a device."""
    return {name: value.to(device) for name, value in batch.items()}


@contextmanager
def learning_on(
    device: torch.device, network: nn.Module, optimiser: torch.optim.Optimizer
) -> Iterator[None]:
    """Holds a network and its optimiser on a device, and takes them back to the CPU."""
    if device.type == "cpu":
        yield
        return
    try:
        take_to(device, network, optimiser)
        yield
    finally:
        take_to(torch.device("cpu"), network, optimiser)


def take_to(device: torch.device, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Moves a network and its optimiser to a device."""
    network.to(device)
    # Loading takes an optimiser's state to where its parameters are.
    optimiser.load_state_dict(optimiser.state_dict())
